"""Past one machine: prepared data sets on disk, and fits over an engine that maps over their parts.

The SQL of DuckDB stands in this room and nowhere else.
"""
