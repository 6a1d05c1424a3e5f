"""What the daemon writes after a refresh: the files of `bbq fit`, and the history beside them.

Every file is complete at any instant: a reader sees the last one or the new one. The files are
replaced one after the other, so for a moment they may be of two refreshes; each says in itself of
how many comparisons it is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

from bbq_plugin.analysis import Analysis, Limits
from bbq_plugin.errors import UnsupportedError
from bbq_plugin.model import Fit
from bbq_plugin.report.documents import (
    Origin,
    boards_csv,
    remove_leftovers,
    report_dict,
    report_json,
    rows_csv,
    write_atomically,
)
from bbq_plugin.report.history import history_rows, most_points
from bbq_plugin.report.pseudonyms import pseudonym, pseudonym_key, pseudonymised
from bbq_plugin.store.studies import MAIN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bbq_plugin.config import OutputName, Settings
    from bbq_plugin.data.records import HistoryPoint
    from bbq_plugin.store import Store


@dataclass(frozen=True)
class Written:
    """The files that were written, and notes about those that were not."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def limits_of(settings: Settings) -> Limits:
    """The limits that a configuration states."""
    model, raters = settings.model, settings.raters
    return Limits(
        level=model.level,
        false_rate=raters.false_rate,
        least=raters.least,
        intervals=cast("Any", model.intervals),
        scale=cast("Any", model.scale),
        seed=model.seed,
    )


def output_key(settings: Settings) -> tuple[bytes | None, list[str]]:
    """The key of the pseudonyms, or None if names are shown, and what is to be said about it.

    A missing key is refused; a daemon asks at its start, and not after the first votes.
    """
    wanted = settings.outputs
    if not wanted.pseudonymise and wanted.pseudonym_key_file is None:
        return None, []
    return pseudonym_key(wanted.pseudonym_key_file, lasting=True)


def remove_results(settings: Settings) -> list[str]:
    """Every answer was taken back: the results that are there would be of others."""
    out = settings.path("out")
    gone = [name for name in settings.outputs.write if (out / name).exists()]
    for name in gone:
        (out / name).unlink()
    return list(gone)


class Outputs:
    """The files of one analysis, under the names that may be shown."""

    def __init__(
        self, store: Store, analysis: Analysis, settings: Settings, study: int = MAIN
    ) -> None:
        self._store, self._analysis, self._settings = store, analysis, settings
        self._study = study
        key, _ = output_key(settings)
        #: The same under the names that may be shown.
        self.shown = analysis if key is None else _pseudonymous(analysis, key)

    def record(self, how: str) -> None:
        """Add the leaderboard to the store's history; ``how`` is what `Engine.refresh` said.

        The history is that without covariates, as the server writes it: they may be named later.
        """
        board = self.shown.without_covariates or self.shown.leaderboard
        n, rows = self._analysis.fit.data.n_comparisons, history_rows(board)
        self._store.add_history(self._analysis.at, n, how, rows, self._study)

    def write(self, origin: Origin | None = None) -> Written:
        """Put down in the store who is excluded, and write the files that the settings name."""
        names = zip(self._analysis.fit.raters, self.shown.raters, strict=True)
        excluded = [name for name, row in names if row.model_verdict == "exclude"]
        self._store.keep_excluded(excluded, self._study)
        origin = origin or Origin(seed=self._settings.model.seed)
        most = most_points(len(self.shown.leaderboard))
        history = self._store.history(most, self._study)
        folder, wanted = self._settings.path("out"), self._settings.outputs.write
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder, frozenset(wanted))
        files, notes = [], []
        for name in wanted:
            try:
                text = _content(name, self.shown, history, origin)
            except (ImportError, UnsupportedError) as missing:
                notes.append(f"{name} is left out: {missing}")
                continue
            write_atomically(folder / name, text)
            files.append(folder / name)
        return Written(tuple(files), tuple(notes))


def _pseudonymous(analysis: Analysis, key: bytes) -> Analysis:
    fit = _pseudonymous_fit(analysis.fit, key)
    before = {pseudonym(name, key) for name in analysis.previously_excluded}
    words = {
        pseudonym(name, key): word.pseudonymous(pseudonym(name, key))
        for name, word in analysis.words.items()
    }
    return Analysis(fit, analysis.limits, before, words=words, at=analysis.at)


def _pseudonymous_fit(fit: Fit, key: bytes) -> Fit:
    # Not replace(): a fit that follows the store makes some of its fields when asked.
    known = {one.name: getattr(fit, one.name) for one in fields(Fit)}
    if fit.held is not None:
        known["held"] = replace(fit.held, plain=_pseudonymous_fit(fit.held.plain, key))
    return Fit(**known | {"data": pseudonymised(fit.data, key)})


def _content(
    name: OutputName, found: Analysis, history: Sequence[HistoryPoint], origin: Origin
) -> str:
    if name == "report.json":
        return report_json(report_dict(found, origin, history))
    if name == "report.html":
        from bbq_plugin.report.html_report import report_html  # noqa: PLC0415 (an extra)

        return report_html(found, command=origin.command, history=history)
    return boards_csv(found) if name == "leaderboard.csv" else rows_csv(found.raters)
