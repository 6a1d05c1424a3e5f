"""`bbq.toml`: one table of keys gives the file, the options, the variables and the documentation.

    settings = load(Path("bbq.toml"), os.environ, {"settle_s": 5.0})
    settings.settle_s, settings.read.adapter, settings.path("store")

What is given by hand counts before the environment, that before the file, that before the default.
"""

from bbq_plugin.live.config.loading import load, unknown_variables
from bbq_plugin.live.config.settings import (
    KEYS,
    FeedbackSettings,
    Key,
    ModelSettings,
    OutputSettings,
    RaterSettings,
    ReadSettings,
    Settings,
)

__all__ = [
    "KEYS",
    "FeedbackSettings",
    "Key",
    "ModelSettings",
    "OutputSettings",
    "RaterSettings",
    "ReadSettings",
    "Settings",
    "load",
    "unknown_variables",
]
