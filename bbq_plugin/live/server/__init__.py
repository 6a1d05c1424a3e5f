"""`bbq serve`: takes the events of a labelling tool, and shows the leaderboard as it moves.

`guard` says who may ask, `webhook` takes events, `worker` works them off, `view` is what there is
to see, `pages` and `svg` show it. Needs the extra `serve`.
"""
