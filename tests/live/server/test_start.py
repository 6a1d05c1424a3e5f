"""What a server has done before the first event comes, so that no event waits for it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.live.server.serving import SECRET, clean

if TYPE_CHECKING:
    from pathlib import Path

COMPILED_LATER = """
import json, random, sys
from numba.core.dispatcher import Dispatcher
from bbq_plugin.data.records import Comparison
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.server.service import warm_up
from bbq_plugin.live.server.page_state import View
from bbq_plugin.live.server.service import warm_up

def compiled():
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("bbq_plugin")]
    kernels = [f for m in modules for f in vars(m).values() if isinstance(f, Dispatcher)]
    return {f"{f.__module__}.{f.__name__}{s}" for f in kernels for s in f.signatures}

def answers(first, last):
    rng = random.Random(first)
    for n in range(first, last):
        a, b = rng.sample(range(12), 2)
        outcome = rng.choice(["left" if a < b else "right", "left", "tie"])
        yield Comparison(str(n), f"rater {rng.randrange(7)}", f"item {a}", f"item {b}", outcome)

engine = Engine(priors=sys.argv[1])
warm_up(engine)
before = compiled()
view = View(engine)
sizes = [1, 2, 40, 41, 1200, 1201, 1210, 1300, 1301, 1302]
for first, last in zip([0, *sizes], sizes):
    engine.add(answers(first, last))
    engine.refresh()
    view.publish()
engine.retract([str(n) for n in range(600, 610)])
engine.refresh()
view.publish()
view.record()
found = view.analysis
found.leaderboard, found.better, found.raters, found.pairs(), found.n_groups
print(json.dumps([len(before), sorted(compiled() - before)]))
"""


@pytest.mark.parametrize("priors", ["auto", "paper"])
def test_nothing_is_left_to_compile_when_events_come(priors: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPILED_LATER, priors],
        env=clean(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    n_before, later = json.loads(done.stdout)
    assert n_before
    assert later == []


SERVED = """
import gc, json, os, signal, sys
from bbq_plugin.live.engine import Engine
from bbq_plugin.live.server.service import listening, run
from bbq_plugin.live.server.service import Service
from bbq_plugin.live.server.access_control import AccessRules

def ready(address):
    print(json.dumps([gc.get_freeze_count(), gc.isenabled(), sys.getswitchinterval()]))
    os.kill(os.getpid(), signal.SIGTERM)

before = sys.getswitchinterval()
with Engine(sys.argv[1]) as engine:
    run(Service(engine, AccessRules(secret=sys.argv[2])), listening("127.0.0.1", 0), ready)
print(json.dumps([gc.get_freeze_count(), sys.getswitchinterval() == before]))
"""


def test_what_is_loaded_is_not_looked_through_for_garbage_while_it_serves(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVED, str(tmp_path / "state.db"), SECRET],
        env=clean(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    during, after = map(json.loads, done.stdout.splitlines())
    assert during[0] > 100_000, "modules and compiled code"
    assert during[1], "garbage that comes later is collected"
    assert during[2] < 0.005
    assert after == [0, True], "whoever called gets Python back as it was"
