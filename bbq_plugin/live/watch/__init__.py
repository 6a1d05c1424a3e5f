"""The daemon: it watches a folder, reads what arrives and rewrites the results."""
