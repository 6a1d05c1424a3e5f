"""`bbq serve`: takes the events of a labelling tool, and shows the leaderboard as it moves.

`service` takes events and answers requests, `access_control` says who may ask, `live.event_ingest`
works events off, `served_project` pulls and gives feedback, `page_state` is what there is to see,
`pages` and `page_charts` show it. Needs the extra `serve`.
"""
