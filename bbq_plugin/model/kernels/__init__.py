"""Compiled passes over the data: every loop that touches the triples."""
