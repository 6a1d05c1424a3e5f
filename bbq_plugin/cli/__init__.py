"""The command line: it parses, calls and prints. The work is done elsewhere."""

from bbq_plugin.cli.main import main

__all__ = ["main"]
