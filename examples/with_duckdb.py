"""Votes in SQL, results in SQL: DuckDB reads the file and joins the leaderboard. A notebook.

    python examples/with_duckdb.py

It takes `pip install 'bbq-plugin[frames]' duckdb`. Polars works the same way: `from_frame` takes
its frames and queries, and `bbq.leaderboard(fit).to_frame("polars")` gives one.
"""

# %% Votes in a table, one of them without an answer
from __future__ import annotations

import duckdb

import bbq_plugin as bbq

study = bbq.simulate(items=4, raters=12, comparisons=600, ties=0.1, guessers=0.2, seed=3)
rows = [(c.rater, c.left, c.right, c.outcome) for c in study.comparisons()]
base = duckdb.connect()
base.execute("CREATE TABLE votes (judge TEXT, model_a TEXT, model_b TEXT, winner TEXT)")
base.executemany("INSERT INTO votes VALUES (?, ?, ?, ?)", [*rows, ("rater-1", "x", "y", None)])

# %% A query is a data frame like any other; what was skipped is counted
query = base.sql("SELECT * FROM votes WHERE judge IS NOT NULL")
data = bbq.Comparisons.from_frame(
    query, rater="judge", left="model_a", right="model_b", outcome="winner"
)
print(data, dict(data.skip_reasons))

# %% The leaderboard in SQL, through Arrow
fit = bbq.fit(data)
board = bbq.leaderboard(fit).to_arrow()
print(
    base.sql("""
        SELECT rank, item, round(rating) AS rating, count(*) AS votes
        FROM board JOIN votes ON item IN (model_a, model_b)
        GROUP BY ALL ORDER BY rank
    """)
)
