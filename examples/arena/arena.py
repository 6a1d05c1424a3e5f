"""A small arena: two answers side by side, a vote, and a leaderboard that follows.

    python examples/arena/arena.py --store arena.db

It needs the standard library and bbq-plugin, and listens on 127.0.0.1 only. The votes go through
`bbq.Hook`; everything else is an ordinary web program, of which the hook knows nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import signal
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from functools import partial
from html import escape
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import bbq_plugin as bbq

HERE = Path(__file__).resolve().parent
COOKIE = "arena_rater"
LONGEST_BODY = 1000
MOST_OPEN_DUELS = 10_000
CHOICES = {
    "left": "The left one",
    "right": "The right one",
    "tie": "Both are as good",
    "both_bad": "Both are bad",
}


@dataclass(frozen=True)
class Duel:
    """Two answers as one visitor sees them."""

    rater: str
    prompt: str
    left: str
    right: str
    shown_at: float = field(default_factory=time.monotonic)


class Arena:
    """Which answers to show, and what becomes of the votes."""

    def __init__(self, hook: bbq.Hook, answers: dict[str, dict[str, str]]) -> None:
        self.hook = hook
        self.answers = answers
        self.news: deque[str] = deque(maxlen=8)
        self.n_votes = 0
        self._duels: OrderedDict[str, Duel] = OrderedDict()
        self._mutex = threading.Lock()
        hook.on_update(self.tell)

    def tell(self, update: bbq.Update) -> None:
        """Called by the hook's own thread after each refit."""
        self.n_votes = update.n_comparisons
        for change in update.items:
            if change.rank is not None and change.rank != change.rank_before:
                self.news.appendleft(f"{change.item} is now number {change.rank}")
        for judged in update.raters:
            self.news.appendleft(
                f"rater {judged.rater[:6]}: {judged.verdict_before} → {judged.verdict}"
            )

    def duel(self, rater: str) -> tuple[str, Duel]:
        """Two answers to show next, and the token that stands for them."""
        prompt = random.choice(list(self.answers))  # noqa: S311 (chance, not secrecy)
        pair = self._informative_pair(prompt)
        random.shuffle(pair)
        duel = Duel(rater, prompt, *pair)
        token = secrets.token_urlsafe(16)
        with self._mutex:
            self._duels[token] = duel
            while len(self._duels) > MOST_OPEN_DUELS:
                self._duels.popitem(last=False)
        return token, duel

    def _informative_pair(self, prompt: str) -> list[str]:
        """One of the pairs that tell most, once every model has been seen."""
        models = list(self.answers[prompt])
        try:
            if set(models) <= set(self.hook.fit.items):
                best = self.hook.next_pairs(3, among=models)
                row = random.choice(list(best))  # noqa: S311 (chance, not secrecy)
                return [row.item_a, row.item_b]
        except bbq.errors.DataError:
            pass  # nobody has voted yet
        return random.sample(models, 2)

    def vote(self, token: str, rater: str, outcome: str) -> bool:
        """Take a vote for what this visitor was shown; False if it was not shown to them."""
        with self._mutex:
            duel = self._duels.get(token)
        if duel is None or duel.rater != rater:
            return False
        # The token is the key: a form that is sent twice is one vote.
        self.hook.vote(
            key=f"arena:{token}",
            rater=rater,
            left=duel.left,
            right=duel.right,
            outcome=outcome,  # type: ignore[arg-type] # the hook refuses what is none
            time_s=time.monotonic() - duel.shown_at,
            tags={"prompt": duel.prompt},
        )
        return True


class Handler(BaseHTTPRequestHandler):
    """The pages. Names and answers are text of others: all of it is escaped."""

    protocol_version = "HTTP/1.1"
    # A visitor who opens a connection and says nothing does not keep a thread.
    timeout = 30

    def __init__(self, arena: Arena, *args: object) -> None:
        self.arena = arena
        super().__init__(*args)  # type: ignore[arg-type] # what the server gives

    def do_GET(self) -> None:
        """A page."""
        if self.path == "/":
            rater = self._rater()
            self._page(self._duel_page(rater), rater)
        elif self.path == "/leaderboard":
            self._page(self._leaderboard_page(), refresh_s=2)
        else:
            self._page("<p>There is nothing here. <a href='/'>To the arena</a></p>", status=404)

    def do_POST(self) -> None:
        """A vote."""
        length = self.headers.get("Content-Length", "")
        if self.path != "/vote" or not length.isdecimal() or int(length) > LONGEST_BODY:
            self.close_connection = True
            self._page("<p>This is not a vote.</p>", status=400)
            return
        form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"))
        token, outcome = (form.get(name, [""])[0] for name in ("duel", "outcome"))
        try:
            known = self.arena.vote(token, self._rater(), outcome)
        except bbq.errors.DataError as error:
            self._page(f"<p>{escape(str(error))}</p>", status=400)
            return
        if not known:
            self._page("<p>This pair is gone. <a href='/'>Another one</a></p>", status=409)
            return
        self.send_response(303)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _rater(self) -> str:
        """Who this is, as far as a cookie can tell; somebody new without one."""
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        given = "" if cookie is None else cookie.value
        is_ours = len(given) == 32 and set(given) <= set("0123456789abcdef")
        return given if is_ours else secrets.token_hex(16)

    def _duel_page(self, rater: str) -> str:
        token, duel = self.arena.duel(rater)
        answers = self.arena.answers[duel.prompt]
        buttons = "".join(
            f"<button name='outcome' value='{value}'>{escape(text)}</button>"
            for value, text in CHOICES.items()
        )
        return (
            f"<h1>{escape(duel.prompt)}</h1><div class='two'>"
            f"<blockquote>{escape(answers[duel.left])}</blockquote>"
            f"<blockquote>{escape(answers[duel.right])}</blockquote></div>"
            f"<form method='post' action='/vote'><input type='hidden' name='duel' "
            f"value='{escape(token)}'><p>Which answer is better?</p>{buttons}</form>"
            "<p><a href='/leaderboard'>Leaderboard</a></p>"
        )

    def _leaderboard_page(self) -> str:
        try:
            board = self.arena.hook.leaderboard()
        except bbq.errors.DataError:
            return "<h1>Leaderboard</h1><p>No votes yet. <a href='/'>Vote</a></p>"
        rows = "".join(
            f"<tr><td>{row.rank}</td><th scope='row'>{escape(row.item)}</th>"
            f"<td>{row.rating:.0f}</td><td>{row.rating_lower:.0f} to {row.rating_upper:.0f}</td>"
            f"<td>{row.p_best:.0%}</td></tr>"
            for row in board
        )
        excluded = sum(row.verdict == "exclude" for row in self.arena.hook.raters())
        news = "".join(f"<li>{escape(line)}</li>" for line in tuple(self.arena.news))
        return (
            "<h1>Leaderboard</h1><table><thead><tr><th>rank</th><th>model</th><th>rating</th>"
            f"<th>{board.level:.0%} interval</th><th>P(best)</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
            f"<p>{self.arena.n_votes} votes, {excluded} raters to exclude. "
            f"<a href='/'>Vote</a></p><h2>News</h2><ul>{news}</ul>"
        )

    def _page(
        self, body: str, rater: str | None = None, *, status: int = 200, refresh_s: int = 0
    ) -> None:
        data = PAGE.replace("BODY", body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'",
        )
        if refresh_s:
            self.send_header("Refresh", str(refresh_s))
        if rater is not None:
            cookie = f"{COOKIE}={rater}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000"
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Keep the terminal quiet."""


PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Arena</title>
<meta name="viewport" content="width=device-width">
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); gap: 1rem }
blockquote { margin: 0; padding: 1rem; border: 1px solid #999; border-radius: .5rem }
button { font: inherit; margin: 0 .5rem .5rem 0; padding: .5rem 1rem }
td, th { padding: .2rem 1rem .2rem 0; text-align: left }
</style><body>BODY</body></html>"""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--store", default="arena.db", help="where the votes are kept")
    parser.add_argument("--answers", type=Path, default=HERE / "answers.json")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    options = parser.parse_args()
    answers = json.loads(options.answers.read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with bbq.Hook(options.store) as hook:
        arena = Arena(hook, answers)
        with ThreadingHTTPServer(("127.0.0.1", options.port), partial(Handler, arena)) as server:
            print(f"http://127.0.0.1:{server.server_port}/", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print("The votes are in", options.store)


if __name__ == "__main__":
    main()
