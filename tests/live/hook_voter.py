"""A nursery of voters that are killed: run by test_hook_kill.py, once for all of them.

It imports everything once and forks a voter for each line `STORE THREADS` of its input. A voter
prints `started`, then each key after its vote has returned, until it is killed.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import bbq_plugin as bbq
from bbq_plugin.analysis import leaderboard

HOOK, _FIT = bbq.Hook, (bbq.fit, leaderboard)


def vote_for_ever(hook: bbq.Hook, me: int) -> None:
    n = 0
    while True:
        n += 1
        key = hook.vote(
            rater=f"rater {me}", left="abcd"[n % 4], right="wxyz"[n % 3], outcome="left"
        )
        say(key)


def say(text: object) -> None:
    os.write(1, f"{text}\n".encode())


def main() -> None:
    say("ready")
    for line in sys.stdin:
        store, threads, out = line.rstrip("\n").split("\t")
        pid = os.fork()
        if pid == 0:
            # Its own file for what it prints: a pipe could lose nothing, but would mix voters.
            os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
            hook = HOOK(Path(store), refresh_every_s=0.05, priors="paper")
            say("started")
            for me in range(1, int(threads)):
                threading.Thread(target=vote_for_ever, args=(hook, me), daemon=True).start()
            vote_for_ever(hook, 0)
        say(pid)
        # Collected here, because the one who kills is not the parent.
        os.waitpid(pid, 0)
        say("gone")


if __name__ == "__main__":
    main()
