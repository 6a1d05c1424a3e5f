"""Votes from a data frame, results as data frames. A notebook in cells; pandas is not required."""

# %% Votes, as they may lie in a data frame
from __future__ import annotations

from dataclasses import asdict

import pandas as pd

import bbq_plugin as bbq

study = bbq.simulate(items=5, raters=25, comparisons=2000, guessers=0.2, spread=0.8, seed=1)
votes = pd.DataFrame(
    {
        "worker": [c.rater for c in study.comparisons()],
        "winner": [c.left if c.outcome == "left" else c.right for c in study.comparisons()],
        "loser": [c.right if c.outcome == "left" else c.left for c in study.comparisons()],
    }
)
print(votes.head())


# %% Into the model: names become codes once, so that millions of rows are no trouble
def from_pandas(
    frame: pd.DataFrame,
    *,
    rater: str | None = "rater",
    winner: str = "winner",
    loser: str = "loser",
    weight: str | None = None,
) -> bbq.Comparisons:
    """Comparisons from the named columns of a frame."""
    # One set of codes for both columns of items
    items = pd.concat([frame[winner], frame[loser]])
    item_codes, item_names = pd.factorize(items)
    n = len(frame)
    rater_codes, rater_names = (None, None) if rater is None else pd.factorize(frame[rater])
    return bbq.Comparisons.from_arrays(
        rater_codes,
        item_codes[:n],
        item_codes[n:],
        None if weight is None else frame[weight].to_numpy(),
        raters=None if rater_names is None else [str(name) for name in rater_names],
        items=[str(name) for name in item_names],
    )


data = from_pandas(votes, rater="worker")
fit = bbq.fit(data, priors="auto")

# %% The leaderboard as a data frame
board = pd.DataFrame([asdict(row) for row in bbq.leaderboard(fit)]).set_index("item")
print(board[["rank", "rating", "rating_lower", "rating_upper", "p_best"]].round(2))

# %% The raters, the worst first
raters = pd.DataFrame([asdict(row) for row in bbq.rater_report(fit)]).set_index("rater")
print(raters.sort_values("quality")[["n", "quality", "agreement", "verdict"]].head(8).round(2))

# %% Without those to be excluded
kept = raters.index[raters["verdict"] != "exclude"]
again = bbq.fit(from_pandas(votes[votes["worker"].isin(kept)], rater="worker"), priors="auto")
change = pd.Series(again.theta, again.items) - pd.Series(fit.theta, fit.items)
print("Largest change of theta:", round(float((change - change.mean()).abs().max()), 3), "nats")
