"""What the daemon writes after a refresh: the files of `bbq fit`, and the history beside them.

Every file is whole at any instant: whoever reads one sees the last or the new one. The files are
replaced one after the other, so for a moment they may be of two refreshes; each says in itself of
how many comparisons it is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from bbq_plugin.analysis import leaderboard, rater_report, stopping
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.model import Fit
from bbq_plugin.report.atomic import remove_leftovers, write_atomically
from bbq_plugin.report.csv import rows_csv
from bbq_plugin.report.history import history_rows, most_points
from bbq_plugin.report.json import Origin, report_dict, report_json
from bbq_plugin.report.pseudonyms import pseudonym_key, pseudonymised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bbq_plugin.analysis import Leaderboard, RaterReport
    from bbq_plugin.analysis.stopping import Stopping
    from bbq_plugin.config import OutputSettings, Settings
    from bbq_plugin.data.history import HistoryPoint
    from bbq_plugin.live.engine import Engine

__all__ = ["Written", "judged", "output_key", "write_outputs", "written"]


@dataclass(frozen=True)
class Judged:
    """A fit with what was made of it, under the names that may be shown."""

    fit: Fit
    board: Leaderboard
    raters: RaterReport
    stop: Stopping


@dataclass(frozen=True)
class Written:
    """What was written, and what is to be said about what was not."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]
    judged: Judged


def write_outputs(
    engine: Engine,
    settings: Settings,
    at: float,
    *,
    how: str = "full",
    origin: Origin | None = None,
) -> Written:
    """Put the leaderboard of now on record, and write all outputs.

    ``at`` is the time in seconds since 1970, ``how`` what `Engine.refresh` said.
    """
    found = judged(engine.fit, settings)
    n = found.fit.data.n_comparisons
    engine.store.add_history(at, n, how, history_rows(found.board))
    history = engine.store.history(most_points(len(found.board)))
    return written(found, history, settings, origin)


def output_key(settings: Settings) -> tuple[bytes | None, list[str]]:
    """The key of the pseudonyms, or None if names are shown, and what is to be said about it.

    A missing key is refused; a daemon asks at its start, and not after the first votes.
    """
    wanted: OutputSettings = settings.outputs
    if not wanted.pseudonymise and wanted.pseudonym_key_file is None:
        return None, []
    return pseudonym_key(wanted.pseudonym_key_file, lasting=True)


def judged(fit: Fit, settings: Settings) -> Judged:
    """The leaderboard and the raters of a fit, as the settings want them."""
    key, _ = output_key(settings)
    if key is not None:
        # Not replace(): a fit that follows the store makes some of its fields when asked.
        known = {one.name: getattr(fit, one.name) for one in fields(Fit)}
        fit = Fit(**known | {"data": pseudonymised(fit.data, key)})
    model = settings.model
    board = leaderboard(
        fit,
        intervals=cast("Any", model.intervals),
        level=model.level,
        scale=cast("Any", model.scale),
        seed=model.seed,
    )
    thresholds = settings.raters
    raters = rater_report(
        fit, model.level, false_rate=thresholds.false_rate, least=thresholds.least
    )
    return Judged(fit, board, raters, stopping(fit, board, seed=model.seed))


def written(
    found: Judged,
    history: Sequence[HistoryPoint],
    settings: Settings,
    origin: Origin | None = None,
) -> Written:
    """Write the files that the settings name, each whole."""
    origin = origin or Origin(seed=settings.model.seed)
    folder = settings.path("out")
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, frozenset(settings.outputs.write))
    files, notes = [], []
    for name in settings.outputs.write:
        try:
            text = _MAKERS[name](found, history, origin)
        except (ImportError, UnsupportedError) as missing:
            notes.append(f"{name} is left out: {missing}")
            continue
        write_atomically(folder / name, text)
        files.append(folder / name)
    return Written(tuple(files), tuple(notes), found)


def _document(found: Judged, history: Sequence[HistoryPoint], origin: Origin) -> str:
    fit = found.fit
    return report_json(
        report_dict(fit.data, fit, found.board, found.raters, origin, history, stop=found.stop)
    )


def _page(found: Judged, history: Sequence[HistoryPoint], origin: Origin) -> str:
    from bbq_plugin.report.html import report_html  # noqa: PLC0415 (an extra)

    fit = found.fit
    return report_html(
        fit.data,
        fit,
        found.board,
        found.raters,
        command=origin.command,
        history=history,
        stop=found.stop,
    )


def _leaderboard(found: Judged, history: Sequence[HistoryPoint], origin: Origin) -> str:  # noqa: ARG001
    return rows_csv(found.board)


def _raters(found: Judged, history: Sequence[HistoryPoint], origin: Origin) -> str:  # noqa: ARG001
    return rows_csv(found.raters)


_MAKERS: dict[str, Callable[[Judged, Sequence[HistoryPoint], Origin], str]] = {
    "report.json": _document,
    "leaderboard.csv": _leaderboard,
    "raters.csv": _raters,
    "report.html": _page,
}
