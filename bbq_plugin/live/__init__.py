"""Answers as they come in: the store, the engine that refits, the daemon and the hook."""
