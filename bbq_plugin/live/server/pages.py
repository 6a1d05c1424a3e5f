"""The pages: each a template and the numbers, charts and plans that it shows."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict, dataclass
from functools import partial
from math import ceil, exp, isnan
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlencode

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

import bbq_plugin
from bbq_plugin.analysis import Analysis
from bbq_plugin.data.records import LeadWord
from bbq_plugin.live.health import METRICS_TYPE, metrics_text
from bbq_plugin.live.server.access_control import BODY_S, COOKIE, LoginTries, headers_of
from bbq_plugin.live.server.page_charts import (
    LINES,
    axis_chart,
    bars,
    by_time,
    camp_cells,
    history,
    scatter,
)
from bbq_plugin.live.server.page_state import MATRIX, PAIRS
from bbq_plugin.report.documents import board_rows, report_json, rows_csv
from bbq_plugin.report.history import history_dicts
from bbq_plugin.report.summary import (
    answer,
    camp_sentence,
    camp_title,
    clusters_text,
    effect_lines,
    rater_sentences,
    slice_lines,
)
from bbq_plugin.report.templating import environment
from bbq_plugin.store.event_inbox import n_waiting, refused_events
from bbq_plugin.store.project_sync import task_by_answer
from bbq_plugin.store.sources_and_status import iso, status_of
from bbq_plugin.store.store import records_of_rater
from bbq_plugin.store.studies import MAIN
from bbq_plugin.text import counted, level_text, unit_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from starlette.requests import Request

    from bbq_plugin.analysis import RaterRow
    from bbq_plugin.data.records import Comparison
    from bbq_plugin.live.push import Feedback
    from bbq_plugin.live.server.access_control import AccessRules
    from bbq_plugin.live.server.page_state import Outlook, View
    from bbq_plugin.live.server.service import Service, Webhook
    from bbq_plugin.model import Fit
    from bbq_plugin.report.summary import Headline
    from bbq_plugin.store.studies import StudyEntry

    Line = Mapping[str, Any]


TABLE_SCHEMA = "bbq.table/1"
TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def _leaderboard(analysis: Analysis, _: View) -> Iterable[Line]:
    return board_rows(analysis)


def _axis(analysis: Analysis, _: View) -> Iterator[Line]:
    axis = analysis.division.axis
    for kind, places in (("item", axis.items), ("rater", axis.raters)) if axis else ():
        for name, at in places:
            yield {"kind": kind, "name": name, "place": at}


def _raters(analysis: Analysis, _: View) -> Iterable[Line]:
    return (dict(row) for row in analysis.raters)


def _agreement(_: Analysis, view: View) -> Iterable[Line]:
    outlook = view.outlooks.last()
    found = outlook.inter_rater if outlook else None
    return [dict(unit) for unit in found.units] if found else []


def _pairwise(analysis: Analysis, _: View) -> Iterator[Line]:
    better, board = analysis.better, analysis.leaderboard
    for i, row in enumerate(board if better is not None else ()):
        for j, other in enumerate(board):
            if better is not None and i != j:
                p = float(better[i, j])
                yield {"item": row.item, "other": other.item, "p_better": p}


def _next_pairs(analysis: Analysis, _: View) -> Iterable[Line]:
    return (dict(row) for row in analysis.pairs(PAIRS)) if len(analysis.leaderboard) > 1 else ()


def _history(_: Analysis, view: View) -> Iterator[Line]:
    for point in history_dicts(view.history()):
        for item in point["items"]:
            yield {"at": point["at"], "n_comparisons": point["n_comparisons"], **item}


def _forecast(_: Analysis, view: View) -> Iterable[Line]:
    outlook = view.outlooks.last()
    return [dict(row) for _, row in outlook.section.forecast] if outlook else []


def _open_pairs(_: Analysis, view: View) -> Iterable[Line]:
    outlook = view.outlooks.last()
    found = outlook.section.open_pairs if outlook else None
    return [dict(row) for row in found] if found is not None else []


def _direct_votes(_: Analysis, view: View) -> Iterable[Line]:
    outlook = view.outlooks.last()
    return [dict(pair) for pair in outlook.section.pairs] if outlook else []


def _covariates(_: Analysis, view: View) -> Iterable[Line]:
    held = view.held.last() if view.engine.covariates else None
    return map(dict, held.effects) if isinstance(held, Analysis) else ()


def _held_equal(_: Analysis, view: View) -> Iterable[Line]:
    held = view.held.last() if view.engine.covariates else None
    return map(dict, held.leaderboard) if isinstance(held, Analysis) else ()


#: By the name of the file, the rows that an analysis and what was made behind the page have.
TABLES = {
    "leaderboard": _leaderboard,
    "axis": _axis,
    "raters": _raters,
    "agreement": _agreement,
    "pairwise": _pairwise,
    "next-pairs": _next_pairs,
    "history": _history,
    "forecast": _forecast,
    "open-pairs": _open_pairs,
    "direct-votes": _direct_votes,
    "covariates": _covariates,
    "held-equal": _held_equal,
}


def table_file(
    table: str, kind: str, rows: Iterable[Line], analysis: Analysis | None, study: str
) -> str:
    """A table as the text of a file."""
    if kind == "csv":
        return rows_csv(rows)
    about = {
        "schema": TABLE_SCHEMA,
        "table": table,
        "study": study,
        "at": None if analysis is None else iso(analysis.at),
        "n_comparisons": 0 if analysis is None else analysis.fit.data.n_comparisons,
    }
    return report_json({**about, "rows": list(rows)})


def file_name(table: str, kind: str, study: str) -> str:
    """What a browser calls the file."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", study)[:40].strip("_")
    return f"bbq-{safe}-{table}.{kind}" if safe else f"bbq-{table}.{kind}"


@dataclass(frozen=True)
class Paging:
    """Where a long table stands."""

    page: int
    n_pages: int
    n: int
    size: int
    path: str
    given: dict[str, str]

    @property
    def first(self) -> int:
        """The first row, counted from 0."""
        return (self.page - 1) * self.size

    @property
    def last(self) -> int:
        """One after the last row."""
        return min(self.n, self.first + self.size)

    def url(self, page: int) -> str:
        """Another part of the table."""
        return f"{self.path}?{urlencode({**self.given, 'page': str(page)})}"


@dataclass(frozen=True, slots=True)
class RaterAnswer:
    """One answer, with the chance that the model gives it from a careful rater."""

    left: str
    right: str
    outcome: str
    chance: float
    at: float | None
    time_s: float | None
    #: Where it is in the labelling tool, if that is known.
    link: str | None = None
    key: str = ""
    #: The numbers of its project and task.
    place: tuple[int, int] | None = None

    @property
    def chosen(self) -> str | None:
        """The item that was preferred."""
        return {"left": self.left, "right": self.right}.get(self.outcome)


def answers_of(
    path: str,
    rater: str,
    fit: Fit,
    *,
    first: int,
    most: int,
    study: int = MAIN,
    link: Callable[[str, str | int], str | None] | None = None,
    place: Callable[[str, str | int], tuple[int, int] | None] = lambda *_: None,
) -> tuple[list[RaterAnswer], int]:
    """Some of a rater's answers, the least expected first, and how many there are.

    In a divided panel they are held against the ranking of the rater's camp. `link` makes an
    address of the key of an answer and its task, `place` the numbers of its project and task.
    """
    ranking = fit.theta
    if fit.division is not None and rater in fit.raters:
        ranking = fit.camp_theta[int(fit.membership[fit.raters.index(rater)].argmax())]
    theta = dict(zip(fit.items, ranking.tolist(), strict=True))
    found = sorted(
        ((_chance(theta, said), said) for said in records_of_rater(path, rater, study)),
        key=lambda pair: (pair[0], pair[1].key),
    )
    shown = [(chance, said, said.slate or said.key) for chance, said in found[first : first + most]]
    tasks = task_by_answer(path, [key for _, _, key in shown])
    links = {key: link(key, task) for key, task in tasks.items()} if link else {}
    answers = [
        RaterAnswer(
            said.left, said.right, said.outcome, chance, said.at, said.time_s, links.get(key), key,
            place(key, tasks[key]) if key in tasks else None,
        )
        for chance, said, key in shown
    ]  # fmt: skip
    return answers, len(found)


def _chance(theta: Mapping[str, float], said: Comparison) -> float:
    """P(this answer) if a careful rater has to choose; of a tie, what it leaves to be expected."""
    gap = theta.get(said.left, 0.0) - theta.get(said.right, 0.0)
    p_left = 1 / (1 + exp(-max(-700.0, min(700.0, gap))))
    if said.outcome == "left":
        return p_left
    if said.outcome == "right":
        return 1 - p_left
    # A tie is half an answer to either side: the geometric mean of both, 1/2 where none is ahead.
    return float((p_left * (1 - p_left)) ** 0.5)


ROWS = 50
ANSWERS = 25
NOTES = 20
MOST_FORM = 1 << 14
MOST_WORDS = 500
_SEVERITY = {"exclude": 0, "watch": 1, "keep": 2}

#: What the table of raters can be sorted by, and whether the lowest comes first.
SORTS: dict[str, Callable[[RaterRow], Any]] = {
    "verdict": lambda r: (_SEVERITY[r.verdict], _known(r.quality)),
    "rater": lambda r: r.rater,
    "n": lambda r: -r.n,
    "quality": lambda r: _known(r.quality),
    "agreement": lambda r: _known(r.agreement),
    "camp": lambda r: (r.camp, _SEVERITY[r.verdict]),
    "left": lambda r: -abs(_known(r.left_rate, 0.5) - 0.5),
    "time": lambda r: _known(r.median_time_s),
}


def _known(value: float, other: float = 1e300) -> float:
    return other if isnan(value) else value


class Pages:
    """The routes of the page."""

    def __init__(
        self,
        service: Service,
        webhook: Webhook,
        rules: AccessRules,
        feedback: Feedback | None = None,
        *,
        base_url: str | None = None,
    ) -> None:
        self.service, self.webhook, self.rules = service, webhook, rules
        self.feedback, self.base_url = feedback, base_url
        self._tries = LoginTries()
        self._env = environment("bbq_plugin.live.server", "bbq_plugin.report")

    def routes(self) -> list[Route]:
        """What a browser may ask for."""
        return [
            Route("/", self.board, methods=["GET"]),
            Route("/raters", self.raters, methods=["GET"]),
            Route("/rater", self.rater, methods=["GET"]),
            Route("/rater/word", self.word, methods=["POST"]),
            Route("/pairs", self.pairs, methods=["GET"]),
            Route("/slices", self.slices, methods=["GET"]),
            Route("/download/{table}.{kind}", self.download, methods=["GET"]),
            Route("/feedback", self.plan, methods=["GET"]),
            Route("/feedback/dry-run", self.dry_run, methods=["POST"]),
            Route("/feedback/apply", self.apply, methods=["POST"]),
            Route("/feedback/undo", self.undo, methods=["POST"]),
            Route("/log", self.log, methods=["GET"]),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/live", self.live, methods=["GET"]),
            Route("/status.json", self.status, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
        ]

    # -- what they share

    def _page(self, request: Request, template: str, status: int = 200, **shown: Any) -> Response:
        chosen, studies = self._studies(request)
        html = self._env.get_template(template).render(
            title="Live leaderboard",
            path=request.url.path,
            number=self.service.news.number,
            health=self.service.health(),
            studies=studies,
            study_query={"study": chosen.name} if len(studies) > 1 else {},
            can_write=self._can_write(request),
            has_login=self.rules.page_token is not None,
            who=self.service.names or (lambda _: None),
            names_hidden=self.service.names is None and bool(self.service.projects),
            version=bbq_plugin.__version__,
            # One analysis for all of a page: there may be a newer one meanwhile.
            **{"analysis": self._analysis(request), "study": chosen, **shown},
        )
        return Response(html, status, media_type="text/html")

    def _studies(self, request: Request) -> tuple[StudyEntry, list[StudyEntry]]:
        """The study that a page shows, and all that it could show."""
        found = [one for one in self.service.engine.store.studies() if one.id in self.service.views]
        shown = [one for one in found if one.n_comparisons] or found[:1]
        wanted = request.query_params.get("study")
        first = self.service.engine.study
        projects = self.service.projects
        # Without a choice: the engine's own, or if that is empty the first of the first project.
        chosen = [one for one in shown if one.name == wanted]
        chosen = chosen or [one for one in shown if one.id == first]
        chosen = chosen or [one for one in shown if projects and one.asks(projects[0].number)]
        return (chosen or shown)[0], shown

    def _view(self, request: Request) -> View:
        return self.service.views[self._studies(request)[0].id]

    def _analysis(self, request: Request) -> Analysis | None:
        """The last one, unless all answers were taken back since."""
        view = self._view(request)
        return view.analysis if view.engine.n_comparisons else None

    def _can_write(self, request: Request) -> bool:
        return self.rules.logged_in(headers_of(request.scope["headers"]))

    def _paging(self, request: Request, n: int, size: int, *names: str) -> Paging:
        named = ("study", *names)
        given = {k: request.query_params[k] for k in named if request.query_params.get(k)}
        text = request.query_params.get("page", "1")
        page = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
        last = max(1, ceil(n / size))
        return Paging(min(max(1, page), last), last, n, size, request.url.path, given)

    def _link(self) -> Callable[[str, str | int], str | None] | None:
        """How to find an answer in the labelling tool, if its address is known."""
        return partial(self.webhook.reader.answer_url, self.base_url) if self.base_url else None

    # -- pages

    def board(self, request: Request) -> Response:
        """The leaderboard and its history."""
        analysis, view = self._analysis(request), self._view(request)
        if analysis is None:
            return self._page(request, "board.html.j2", analysis=None, board=None)
        board = analysis.leaderboard
        paging = self._paging(request, len(board), ROWS)
        drawn = bars(board[paging.first : paging.last])
        best = [row.item for row in board[:LINES]]
        points = view.history()
        outlook = view.outlooks.last()
        told = answer(board, analysis.n_groups, analysis.better, analysis.division)
        return self._page(
            request,
            "board.html.j2",
            analysis=analysis,
            board=board,
            rows=list(zip(board[paging.first : paging.last], drawn.bars, strict=True)),
            paging=paging,
            answer=told,
            camps=[camp_title(analysis.division, one) for one in analysis.camp_boards],
            cells=camp_cells(board, analysis.camp_boards)[paging.first : paging.last],
            axis=axis_chart(analysis.division),
            narrow_axis=axis_chart(analysis.division, narrow=True),
            clusters=clusters_text(board),
            level=level_text(board.level),
            drawn=drawn,
            lines=history(points, best),
            narrow_lines=history(points, best, narrow=True),
            by_time=by_time(points),
            past_known=view.past.last() is not None,
            outlook=outlook,
            stop=None if outlook is None else outlook.section,
            error=level_text(1 - board.level),
            headlines=self._headlines(self._studies(request)[1]),
            raters_said=rater_sentences(analysis.raters) if analysis.fit.rated else [],
            judged=sorted(
                (row for row in analysis.raters if row.verdict != "keep"), key=SORTS["verdict"]
            ),
            steps=self._steps(analysis, outlook, settled=told.settled),
        )

    def _steps(
        self, analysis: Analysis, outlook: Outlook | None, *, settled: bool
    ) -> list[tuple[str, str, str]]:
        """What to do next: a sentence, where to do it, and what that page is called."""
        steps: list[tuple[str, str, str]] = []
        health = self.service.health()
        if health.colour != "green":
            steps.append(("Not everything works; see the line above.", "/log", "Log"))
        if analysis.division.divided:
            text = "The panel is divided: decide whose answer counts."
            steps.append((text, "#camps", "Camps"))
        effect = analysis.raters.without_excluded if analysis.fit.rated else None
        if effect is not None and effect.matters:
            text = "The excluded raters change the result: look at them, and decide."
            steps.append((text, "/raters?verdict=exclude", "Raters"))
        plan = None if self.feedback is None else self.feedback.state()
        if plan is not None and plan.actions:
            n = len(plan.actions)
            text = f"{counted(n, 'change')} {'is' if n == 1 else 'are'} planned for the project."
            steps.append((text, "/feedback", "Feedback"))
        if settled:
            steps.append(("The best item is known: you can stop here.", "#stop", "When to stop"))
        if outlook is not None and outlook.best_worth is not None and not settled:
            text = f"Go on asking: {outlook.best_worth.best_text}."
            steps.append((text, "/pairs", "Next pairs"))
        elif outlook is not None and outlook.worth is not None and outlook.worth.n_open:
            text = f"Or go on for the other ranks: {outlook.worth.open_text}."
            steps.append((text, "/pairs", "Next pairs"))
        return steps

    def _headlines(self, studies: list[StudyEntry]) -> list[tuple[StudyEntry, Headline, list[str]]]:
        """The answer to each question, where there are several, and who is to be excluded."""
        found = []
        for one in studies if len(studies) > 1 else ():
            analysis = self.service.views[one.id].analysis
            if analysis is not None:
                told = answer(
                    analysis.leaderboard, analysis.n_groups, analysis.better, analysis.division
                )
                out = [row.rater for row in analysis.raters if row.verdict == "exclude"]
                found.append((one, told, out))
        return found

    def raters(self, request: Request) -> Response:
        """All raters: a chart, and a table in parts."""
        analysis = self._analysis(request)
        if analysis is None:
            return self._page(request, "raters.html.j2", analysis=None, raters=None)
        report, outlook = analysis.raters, self._view(request).outlooks.last()
        sort = request.query_params.get("sort", "verdict")
        sort = sort if sort in SORTS else "verdict"
        down = request.query_params.get("down") == "1"
        wanted = request.query_params.get("q", "")[:200]
        verdict = request.query_params.get("verdict", "")
        rows = [
            row
            for row in report
            if verdict in ("", row.verdict) and wanted.lower() in self._called(row.rater)
        ]
        rows.sort(key=SORTS[sort], reverse=down)
        paging = self._paging(request, len(rows), ROWS, "sort", "down", "q", "verdict")
        return self._page(
            request,
            "raters.html.j2",
            analysis=analysis,
            raters=report,
            rows=rows[paging.first : paging.last],
            paging=paging,
            sort=sort,
            down=down,
            wanted=wanted,
            verdict=verdict if verdict in _SEVERITY else "",
            n_verdicts={v: sum(r.verdict == v for r in report) for v in _SEVERITY},
            divided=analysis.division.divided,
            inter_rater=outlook and outlook.inter_rater,
            dots=scatter(report),
            narrow_dots=scatter(report, narrow=True),
            level=level_text(analysis.limits.level),
        )

    def _called(self, rater: str) -> str:
        """What a search finds a rater by."""
        found = self.service.names(rater) if self.service.names else None
        return f"{rater} {found.text}".lower() if found else rater.lower()

    async def rater(self, request: Request) -> Response:
        """One rater; what was shown is waited for beside the few threads that make pages."""
        if self._shows_content(request):
            return await asyncio.to_thread(self._rater, request)
        return await run_in_threadpool(self._rater, request)

    def _may_see(self, request: Request) -> bool:
        """Whether a reader may ask what raters were shown, which is not the page's own."""
        return self.rules.page_token is None or self._can_write(request)

    def _shows_content(self, request: Request) -> bool:
        return bool(request.query_params.get("content")) and self._may_see(request)

    def _rater(self, request: Request) -> Response:
        """One rater over all studies: the verdicts, and the answers in one of them."""
        name = request.query_params.get("name", "")
        chosen, studies = self._studies(request)
        rows = {one.id: row for one in studies if (row := self._row(one.id, name)) is not None}
        if rows and chosen.id not in rows:
            chosen = next(one for one in studies if one.id in rows)
        row, view = rows.get(chosen.id), self.service.views[chosen.id]
        analysis = view.analysis
        if analysis is None or row is None:
            return self._page(request, "rater.html.j2", 404, row=None, name=name)
        outlook = view.outlooks.last()
        found = None if outlook is None else outlook.inter_rater
        others = () if found is None else found.raters
        given = self._paging(request, 10**9, ANSWERS, "name", "content")
        said, n = answers_of(
            view.engine.store.path, name, analysis.fit, study=chosen.id,
            first=given.first, most=ANSWERS, link=self._link(),
            place=self.webhook.reader.answer_place,
        )  # fmt: skip
        places = {one.place for one in said if one.place is not None}
        asked = self._shows_content(request)
        contents, missing = self.service.contents(places) if asked else ({}, [])
        return self._page(
            request,
            "rater.html.j2",
            analysis=analysis,
            study=chosen,
            of_studies=[(one, rows[one.id]) for one in studies if one.id in rows],
            row=row,
            name=name,
            shared=next((one for one in others if one.rater == name), None),
            journal=view.engine.store.lead_journal(name),
            said=said,
            has_content=bool(places) and bool(self.service.projects),
            may_see=self._may_see(request),
            asked=asked,
            still=asked,
            contents=contents,
            missing=missing,
            camp=camp_sentence(analysis.division, name) if analysis.division.divided else None,
            paging=self._paging(request, n, ANSWERS, "name", "content"),
            level=level_text(analysis.limits.level),
        )

    def _row(self, study: int, rater: str) -> RaterRow | None:
        """A rater in a study."""
        analysis = self.service.views[study].analysis
        rows = () if analysis is None else analysis.raters
        return next((row for row in rows if row.rater == rater), None)

    def pairs(self, request: Request) -> Response:
        """Pairwise win probabilities, and the next pairs to compare."""
        analysis, view = self._analysis(request), self._view(request)
        if analysis is None or analysis.better is None:
            return self._page(request, "pairs.html.j2", analysis=analysis, cells=None, pairs=None)
        board, better = analysis.leaderboard, analysis.better
        shown = min(MATRIX, len(board))
        open_ = (1 - board.level) / 2
        outlook = view.outlooks.last()
        apart = frozenset() if outlook is None else outlook.apart
        names = [row.item for row in board[:shown]]
        cells = [
            [
                None if a == b else _cell(float(better[i, j]), open_, (a, b) in apart)
                for j, b in enumerate(names)
            ]
            for i, a in enumerate(names)
        ]
        is_open = (better > open_) & (better < 1 - open_)
        np.fill_diagonal(is_open, val=False)
        return self._page(
            request,
            "pairs.html.j2",
            analysis=analysis,
            board=board,
            cells=cells,
            pairs=analysis.pairs(PAIRS) if len(board) > 1 else None,
            outlook=outlook,
            n_open=int(is_open.sum()) // 2,
            n_pairs=len(board) * (len(board) - 1) // 2,
            monitoring=None if outlook is None else outlook.section.monitoring,
            level=level_text(board.level),
        )

    def slices(self, request: Request) -> Response:
        """The leaderboard for each value of a tag, side by side."""
        analysis, view = self._analysis(request), self._view(request)
        if analysis is None:
            return self._page(request, "slices.html.j2", analysis=None, tags=None)
        tags = view.slices.tags()
        wanted = request.query_params.get("tag", "")
        tag = wanted if tags and wanted in tags else (tags or ("",))[0]
        found = view.slices.last(tag) if tag else None
        rows = found.study.by_item() if found else []
        paging = self._paging(request, len(rows), ROWS, "tag")
        held = view.held.last() if view.engine.covariates else None
        equal = held if isinstance(held, Analysis) else None
        before = {} if equal is None else {row.item: row for row in equal.without_covariates or ()}
        return self._page(
            request,
            "slices.html.j2",
            analysis=analysis,
            covariates=view.engine.covariates,
            equal=equal,
            refused=held if isinstance(held, str) else None,
            before=before,
            effects=[]
            if equal is None
            else [(row, unit_text(row.covariate, row.unit)) for row in equal.effects],
            effect_lines=[] if equal is None else effect_lines(equal),
            tags=tags,
            tag=tag,
            found=found,
            rows=rows[paging.first : paging.last],
            lines=slice_lines(found.study) if found else [],
            paging=paging,
            level=level_text(analysis.limits.level),
        )

    def download(self, request: Request) -> Response:
        """A table of the page as a file."""
        table, kind = request.path_params["table"], request.path_params["kind"]
        analysis, view = self._analysis(request), self._view(request)
        rows = None if kind not in TYPES else self._rows(table, request, analysis, view)
        if rows is None:
            return _said(404, "there is no such table", {})
        study = self._studies(request)[0].name
        name = file_name(table, kind, study)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        text = table_file(table, kind, rows, analysis, study)
        return Response(text, headers=headers, media_type=TYPES[kind])

    def _rows(
        self, table: str, request: Request, analysis: Analysis | None, view: View
    ) -> Iterable[Mapping[str, Any]] | None:
        """The rows of a table; None of one that is not there."""
        name = request.query_params.get("name", "")
        if table == "sources":
            return [asdict(entry) for entry in self.service.engine.store.ledger()]
        if table == "plan":
            actions = self.feedback.state().actions if self.feedback else ()
            return [{"kind": a.kind, "target": a.target, "reason": a.reason} for a in actions]
        if table == "verdicts":
            found = [(one.name, self._row(one.id, name)) for one in self._studies(request)[1]]
            return [{"study": study, **dict(row)} for study, row in found if row is not None]
        if analysis is not None and table == "answers":
            said, _ = answers_of(
                view.engine.store.path, name, analysis.fit,
                study=view.engine.study, first=0, most=10**9, link=self._link(),
            )  # fmt: skip
            return [asdict(one) for one in said]
        if analysis is not None and table == "slices":
            sliced = view.slices.last(request.query_params.get("tag", ""))
            return [dict(cell) for cell in sliced.study.cells] if sliced else []
        made = TABLES.get(table)
        return None if made is None else [] if analysis is None else made(analysis, view)

    def log(self, request: Request) -> Response:
        """What came in, and what was left out."""
        store = self.service.engine.store
        entries = sorted(store.ledger(), key=lambda e: -e.at)
        paging = self._paging(request, len(entries), ROWS)
        refused = refused_events(store)
        return self._page(
            request,
            "log.html.j2",
            entries=entries[paging.first : paging.last],
            study_names={one.id: one.name for one in store.studies()},
            camp_changes=list(self._view(request).camp_changes),
            notes=list(dict.fromkeys(note for entry in entries for note in entry.notes))[:NOTES],
            paging=paging,
            received=dict(self.webhook.n_received),
            n_refused=self.webhook.n_refused,
            waiting=n_waiting(store),
            refused=sum(kind.n for kind in refused),
            reasons=refused[:NOTES],
        )

    # -- feedback

    def plan(self, request: Request) -> Response:
        """What would be written to the labelling project."""
        state = None if self.feedback is None else self.feedback.state()
        link = None
        if state is not None and self.base_url and state.project is not None:
            link = partial(self.webhook.reader.task_url, self.base_url, state.project)
        return self._page(request, "feedback.html.j2", state=state, link=link)

    def dry_run(self, _: Request) -> Response:
        """Make a new plan; nothing is written."""
        if self.feedback is not None:
            self.feedback.plan()
        return RedirectResponse("/feedback", 303)

    async def apply(self, request: Request) -> Response:
        """Apply the plan that was shown; needs the token."""
        return await self._written(request, "plan", lambda feedback, plan: feedback.apply(plan))

    async def undo(self, request: Request) -> Response:
        """Undo the changes that were shown; needs the token."""
        return await self._written(request, "standing", lambda feedback, mark: feedback.undo(mark))

    async def _written(
        self, request: Request, field: str, write: Callable[[Feedback, str], object]
    ) -> Response:
        if not self._can_write(request):
            return Response(
                "writing needs a login; open /login and give the token of this page\n", 403
            )
        mark = await _field(request, field)
        if isinstance(mark, Response):
            return mark
        if self.feedback is not None:
            write(self.feedback, mark)
        return RedirectResponse("/feedback", 303)

    async def word(self, request: Request) -> Response:
        """Take a lead's own decision about a rater; needs the token."""
        if not self._can_write(request):
            return _said(403, "writing needs a login; open /login and give the token", {})
        form = await _form(request)
        if isinstance(form, Response):
            return form
        name, verdict, reason, by = (
            form.get(field, "").strip() for field in ("name", "verdict", "reason", "by")
        )
        shown = [view for view in self.service.views.values() if view.analysis is not None]
        if not any(view.analysis and name in view.analysis.fit.raters for view in shown):
            return _said(400, "there is no such rater", {})
        if verdict not in ("keep", "exclude", "") or not reason or not by:
            return _said(400, "a decision needs keep or exclude, a reason and a name", {})
        store = self.service.engine.store
        store.add_lead_word(
            LeadWord(name, cast("Any", verdict), reason[:MOST_WORDS], by[:100], store.clock())
        )
        for view in shown:
            await asyncio.to_thread(view.publish, now=True)
        return RedirectResponse(f"/rater?{urlencode({'name': name})}", 303)

    async def login(self, request: Request) -> Response:
        """Show the token once; from then on the browser is known."""
        if request.method != "POST" or self.rules.page_token is None:
            return self._page(request, "login.html.j2", wrong=False)
        token = await _field(request, "token")
        if isinstance(token, Response):
            return token
        client = request.scope.get("client")
        wait_s = self._tries.wait_s(client)
        if wait_s:
            # Not even looked at: else the limit would be none.
            return _said(429, f"too many wrong tokens; try again in {ceil(wait_s)} s",
                                  {"Retry-After": str(ceil(wait_s))})  # fmt: skip
        if not self.rules.knows_token(token):
            self._tries.failed(client)
            return self._page(request, "login.html.j2", 401, wrong=True)
        self._tries.passed(client)
        answer_ = RedirectResponse("/", 303)
        answer_.set_cookie(COOKIE, self.rules.session, httponly=True, samesite="strict")
        return answer_

    # -- how it does, for programs

    def status(self, _: Request) -> Response:
        """What `bbq status` says, and the health of the service."""
        found = status_of(self.service.engine.store.path).document()
        shown = {**found, "health": self.service.health().document()}
        return Response(report_json(shown), media_type="application/json")

    def metrics(self, _: Request) -> Response:
        """The same in numbers, as Prometheus reads them."""
        return Response(metrics_text(self.service), media_type=METRICS_TYPE)

    # -- news

    async def live(self, _: Request) -> Response:
        """The number of each change, as it happens."""

        async def lines() -> AsyncIterator[bytes]:
            async for number in self.service.news.numbers():
                yield b": still here\n\n" if number is None else b"data: %d\n\n" % number

        return StreamingResponse(lines(), media_type="text/event-stream")


async def _field(request: Request, name: str) -> str | Response:
    """A field of a small form; nothing if the form has none."""
    form = await _form(request)
    return form if isinstance(form, Response) else form.get(name, "")


async def _form(request: Request) -> dict[str, str] | Response:
    """A small form; nothing if it is not small or not one of ours.

    A form that does not come in time gets an answer instead.
    """
    body = b""
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MOST_FORM:
                    return {}
    except TimeoutError:
        return _said(408, "the form did not come in time", {"Connection": "close"})
    return {key: value[0] for key, value in parse_qs(body.decode("utf-8", "replace")).items()}


def _said(status: int, text: str, headers: Mapping[str, str]) -> Response:
    return Response(f"{text}\n", status, headers, media_type="text/plain")


@dataclass(frozen=True)
class Cell:
    """P(row better than column), with the step of its colour."""

    p: float
    step: int
    is_open: bool
    #: Significant under continuous monitoring.
    is_apart: bool


def _cell(p: float, open_: float, is_apart: bool) -> Cell:  # noqa: FBT001
    return Cell(p, min(6, int(p * 7)), open_ < p < 1 - open_, is_apart)
