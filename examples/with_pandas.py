"""Votes from a data frame, results as data frames. A notebook in cells; pandas is not required."""

# %% Votes, as they may lie in a data frame
from __future__ import annotations

import pandas as pd

import bbq_plugin as bbq

study = bbq.simulate(items=5, raters=25, comparisons=2000, guessers=0.2, spread=0.8, seed=1)
votes = pd.DataFrame(
    {
        "worker": [c.rater for c in study.comparisons()],
        "first": [c.left for c in study.comparisons()],
        "second": [c.right for c in study.comparisons()],
        "answer": [1 if c.outcome == "left" else 2 for c in study.comparisons()],
    }
)
print(votes.head())

# %% Into the model: say which column is what, and what its values mean
roles = {"rater": "worker", "left": "first", "right": "second", "outcome": "answer"}
meaning = {1: "left", 2: "right"}
data = bbq.Comparisons.from_frame(votes, **roles, values=meaning)
fit = bbq.fit(data, priors="auto")

# %% The leaderboard as a data frame; a notebook shows `bbq.leaderboard(fit)` as a table too
board = bbq.leaderboard(fit).to_frame().set_index("item")
print(board[["rank", "rating", "rating_lower", "rating_upper", "p_best"]].round(2))

# %% The raters, the worst first
raters = bbq.rater_report(fit).to_frame().set_index("rater")
print(raters.sort_values("quality")[["n", "quality", "agreement", "verdict"]].head(8).round(2))

# %% Without those to be excluded
kept = raters.index[raters["verdict"] != "exclude"]
votes_kept = votes[votes["worker"].isin(kept)]
again = bbq.fit(bbq.Comparisons.from_frame(votes_kept, **roles, values=meaning), priors="auto")
change = pd.Series(again.theta, again.items) - pd.Series(fit.theta, fit.items)
print("Largest change of theta:", round(float((change - change.mean()).abs().max()), 3), "nats")
