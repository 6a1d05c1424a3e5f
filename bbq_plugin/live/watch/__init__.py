"""The daemon: a folder is watched, what arrives is read, and the results are written anew."""

from bbq_plugin.live.watch.daemon import Daemon
from bbq_plugin.live.watch.log import Log

__all__ = ["Daemon", "Log"]
