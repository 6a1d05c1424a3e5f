"""Potato: the answers in a project's folder, and what goes back into it."""

from bbq_adapters.potato.project import PotatoAdapter

__all__ = ["PotatoAdapter"]
