"""Compiles the kernels once, before every worker of the tests would do so: `make test` runs it.

What it compiles is kept on disk (numba's cache), so that a second run takes two seconds. A kernel
that it misses is compiled by the first test that needs it.
"""

from __future__ import annotations

import bbq_plugin as bbq


def main() -> None:
    """Fit every model, and ask for what is made of a fit."""
    study = bbq.simulate(items=6, raters=20, comparisons=2000, guessers=0.2, seed=1)
    data, votes = study.arrays(), list(study.comparisons())
    bbq.rater_report(bbq.fit(data, priors="auto"))
    bbq.rater_report(bbq.fit(data, model="bbq-signed"))
    bbq.fit(data).sample(20, seed=0)
    bbq.fit(data, solver="em")
    bbq.fit(data, model="bbq-signed", solver="em")
    bbq.fit(data, model="crowd-bt")
    for priors in (bbq.Priors(), "auto"):
        with bbq.Engine(priors=priors) as engine:
            engine.add(votes[:1900])
            engine.refresh(full=True)
            engine.add(votes[1900:])
            engine.refresh()


if __name__ == "__main__":
    main()
