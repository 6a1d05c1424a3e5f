"""`bbq inspect` and `bbq formats`: what is in a file, and what can be read."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import STDIN, Input, expanded, reading_options, table_or_json_option
from bbq_plugin.cli.output import check_writable, emit, plain_table, show, tell, working
from bbq_plugin.cli.suggested_commands import TRY, completed, words_of
from bbq_plugin.errors import BBQError, UsageError
from bbq_plugin.text import counted, listed, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType

    from bbq_plugin.data.mappings import Inspection, Reading
    from bbq_plugin.data.records import Comparison
    from bbq_plugin.plugins import Description
    from bbq_plugin.scale.prepared_set import PreparedSet


SCHEMA = "bbq.inspect/1"
# Rows that are shown as comparisons in words.
_SHOWN = 5
# Rows by which another reading is tried.
_TRIED = 1000
_MOST_COLUMNS = 40
_LONGEST_SAMPLE = 40


@click.command(cls=Command)
@table_or_json_option
@click.option(
    "--save-mapping",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write how the file is read as a table [mapping], for --mapping and bbq.toml.",
)
@reading_options
def inspect(source: Input, output_format: str, save_mapping: Path | None) -> None:
    """Show what is in FILES, and what would be made of them.

    Nothing is fitted. Each file is shown with its columns, how they would be read and why, the
    first comparisons in words, and what speaks against it. The last line is the command to type.
    """
    if source.store is not None:
        raise UsageError("bbq inspect looks into FILES, and --store has none; use bbq status")
    if (prepared := source.prepared()) is not None:
        if save_mapping is not None:
            raise UsageError("--save-mapping is for FILES; a prepared set has no columns to name")
        _show_set(prepared, output_format)
        return
    check_writable(save_mapping)
    # The folder of a project is one thing, however many annotators it has.
    files = [
        name
        for typed in source.files
        for name in ([typed] if Path(typed).is_dir() else expanded((typed,)))
    ]
    if STDIN in files:
        raise UsageError("bbq inspect reads a file several times; save standard input as a file")
    if save_mapping is not None and len(files) > 1:
        raise UsageError("--save-mapping takes one file; a mapping is of one kind of file")
    with working("Inspecting"):
        found = [_inspected(source, name) for name in files]
    if save_mapping is not None:
        _save(found[0], save_mapping)
    if output_format == "json":
        from bbq_plugin.report.documents import report_json

        emit(report_json({"schema": SCHEMA, "files": found}), None)
    else:
        for document in found:
            show(_screen(document), None)
            for line in _command_lines(document):
                # Not by the console, which would break it: it is to be pasted.
                click.echo(line)


def _show_set(prepared: PreparedSet, output_format: str) -> None:
    """What a prepared set holds, by its manifest; no vote is read."""
    batches = [
        {
            "retracts": batch.retracts, "n_comparisons": batch.n_comparisons,
            "n_ties": batch.n_ties, "files": [one.file for one in batch.inputs],
            "skip_reasons": batch.skipped,
        }
        for batch in prepared.manifest.batches
    ]  # fmt: skip
    document = {
        "path": prepared.path, "n_comparisons": prepared.n_comparisons,
        "n_items": len(prepared.items), "n_raters": prepared.n_raters, "n_rows": prepared.n_rows,
        "n_parts": prepared.n_parts, "keep": prepared.keep, "batches": batches,
    }  # fmt: skip
    if output_format == "json":
        from bbq_plugin.report.documents import report_json

        emit(report_json({"schema": SCHEMA, "files": [], "set": document}), None)
        return
    lines = [
        f"{prepared.path}: a prepared set",
        f"  {prepared.held}",
        f"  kept besides rater, items and outcome: {', '.join(prepared.keep) or 'nothing'}",
    ]
    for number, batch in enumerate(prepared.manifest.batches, start=1):
        done = "retracted" if batch.retracts else "added"
        files = listed([one.file for one in batch.inputs])
        lines.append(f"  batch {number}: {done} {counted(batch.n_comparisons, 'comparison')}"
                     f" of {files}")  # fmt: skip
        lines += [f"    left out: {n:,} × {why}" for why, n in batch.skipped.items()]
    for line in lines:
        click.echo(plain(line))
    click.echo(shlex.join(["bbq", "fit", prepared.path]))


def _inspected(source: Input, name: str) -> dict[str, Any]:
    """Everything about one file, as it is printed."""
    from bbq_plugin.data.files import files_of, inspected, opened
    from bbq_plugin.data.mappings import spelled
    from bbq_plugin.plugins import OPENING, chosen_adapter

    files = files_of(name)
    with opened(files[0], source.options) as file:
        packing, encoding = file.unpacked.packing, file.unpacked.encoding
        head = file.head
        said = inspected(file, name, source.options)
    if Path(name).is_dir():
        packing, held = [], f"a project's folder, {counted(len(files), 'file')} with answers"
        said = replace(said, format=held, n_rows=0, sampled=False, columns=(), problem="")
    try:
        adapter, why = chosen_adapter(source.adapter, head, str(files[0]))
    except BBQError:
        reading = said.readings[0] if said.readings else None
        known = False
    else:
        if Path(name).is_dir():
            why = f"the answers of a project of {adapter.name}"
        reading, known = _of_adapter(adapter.name, why, source, said), True
    document: dict[str, Any] = {
        "file": name,
        "format": " of ".join(reversed([*packing, said.format])) if said.format else "",
        "encoding": encoding,
        "n_rows": said.n_rows,
        "sampled": said.sampled,
        "columns": [asdict(column) for column in said.columns],
        "reading": _reading_dict(reading),
        "others": [] if known else [_reading_dict(one) for one in said.readings[1:]],
        "comparisons": [],
        "counts": None,
        "problem": "" if known else said.problem,
        "commands": [],
    }
    if reading is None:
        return document
    readings = [reading] if known else list(said.readings)
    opening = {key: value for key, value in source.options.items() if key in OPENING}
    refusals = _try_out(name, reading, opening, document, named=not known or bool(source.adapter))
    if known and (better := [one for error in refusals for one in getattr(error, "readings", ())]):
        # As `bbq fit` proposes them.
        known, readings = False, better
        document["reading"] = _reading_dict(better[0])
        document["problem"] = said.problem
        refusals = _try_out(name, better[0], opening, document)
    allowed = [next(iter(getattr(error, "more_words", ())), None) for error in refusals]
    # A command that is refused again helps nobody.
    kept = [one for one in readings if one is readings[0] or _is_read(name, one, opening)]
    if None in allowed:
        kept = []
    more = [word for words in allowed for word in words or ()]
    if not known:
        document["others"] = [_reading_dict(one) for one in kept[1:]]
    typed = [word for key, value in source.options.items()
             for word in ("-O", f"{key}={spelled(value)}")]  # fmt: skip
    for one in kept:
        words = [] if known and source.adapter is None else words_of(one, typed)
        document["commands"].append(completed(["fit", name, *typed], [*words, *more]))
    document["commands"] = [one for one in document["commands"] if one]
    return document


def _of_adapter(name: str, why: str, source: Input, said: Inspection) -> Reading:
    """The reading by an adapter that is named, or that recognises the file."""
    from bbq_plugin.data.mappings import Reading

    if name == "table" and said.readings:
        first = said.readings[0]
        return replace(first, options={**first.options, **source.options})
    return Reading(name, dict(source.options), "certain", why)


def _reading_dict(reading: Reading | None) -> dict[str, Any] | None:
    return None if reading is None else asdict(reading)


def _try_out(
    name: str,
    reading: Reading,
    opening: Mapping[str, Any],
    document: dict[str, Any],
    *,
    named: bool = True,
) -> list[BBQError]:
    """Read the file so, and note what comes of it; why a command that reads it so is refused.

    `opening` says how the file is opened. Where the adapter is not `named`, it recognises the file.
    """
    from bbq_plugin.data.files import check_board, files_of, read, records
    from bbq_plugin.data.records import Comparison

    options = {**reading.options, **opening}
    adapter = reading.adapter or None if named else None
    refusals: list[BBQError] = []
    with suppress(BBQError):
        found = records(files_of(name)[0], adapter, **options)
        first = islice((one for one in found if isinstance(one, Comparison)), _SHOWN)
        document["comparisons"] = [in_words(one) for one in first]
    try:
        data = read([name], adapter, max_skipped=1.0, force=True, **options)
        document["counts"] = {
            "n_comparisons": data.n_comparisons,
            "n_items": len(data.items),
            "n_raters": len(data.raters),
            "n_ties": data.n_ties + data.n_both_bad,
            "n_skipped": sum(data.skip_reasons.values()),
            "skip_reasons": dict(data.skip_reasons),
        }
        document["notes"] = list(data.warnings)
        if data.skip_reasons:
            try:
                read([name], adapter, force=True, **options)
            except BBQError as error:
                refusals.append(error)
        check_board(data)
    except BBQError as error:
        refusals.append(error)
    if refusals:
        # Not where to look: this is the place.
        document["problem"] = "; ".join(_in_short(one) for one in refusals)
    return refusals


def _in_short(error: BBQError) -> str:
    """Why a file is refused, without a remedy that the last line has anyway."""
    shown = getattr(error, "for_command_line", error.__str__)()
    return shown.split("; see what is in")[0]


def _is_read(name: str, reading: Reading, opening: Mapping[str, Any]) -> bool:
    """Whether the first rows of the file can be read so."""
    from bbq_plugin.data.files import files_of, records
    from bbq_plugin.data.records import Comparison

    try:
        options = {**reading.options, **opening}
        found = records(files_of(name)[0], reading.adapter or None, **options)
        return any(isinstance(one, Comparison) for one in islice(found, _TRIED))
    except BBQError:
        return False


def in_words(one: Comparison) -> str:
    """A comparison as a sentence."""
    left, right = one.left, one.right
    if one.outcome in ("tie", "both_bad"):
        how = "equal" if one.outcome == "tie" else "both bad"
        return f"{one.rater or 'a rater'} finds {left} and {right} {how}"
    winner, loser = (left, right) if one.outcome == "left" else (right, left)
    return f"{one.rater or 'a rater'} prefers {winner} to {loser}"


def _save(document: dict[str, Any], path: Path) -> None:
    from bbq_plugin.data.mappings import Reading, mapping_toml
    from bbq_plugin.report.documents import write_atomically

    said = document["reading"]
    if said is None:
        raise BBQError(f"{document['file']}: {document['problem']}; so there is no mapping to save")
    reading = Reading(
        said["adapter"], said["options"], said["confidence"], said["shape"], doubts=said["doubts"]
    )
    write_atomically(path, mapping_toml(reading))
    tell(f"the mapping is in {path}; read files so with --mapping {path}")


# -- for people


def _screen(document: dict[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(plain(document["file"]), style="bold")
    about = [document["format"]]
    if document["n_rows"] or document["columns"]:
        about += [document["encoding"], counted(document["n_rows"], "row")]
    yield Text(plain("  " + ", ".join(part for part in about if part)))
    if document["sampled"]:
        yield Text("  Only the first rows were looked at for roles.")
    yield from _columns(document)
    yield from _reading_lines(document)


def _columns(document: dict[str, Any]) -> Iterator[RenderableType]:
    columns = document["columns"]
    if not columns:
        return
    rows = [
        (
            column["name"],
            f"{column['n_distinct']:,}",
            f"{column['n_empty']:,}",
            " · ".join(_short(sample) for sample in column["samples"]),
        )
        for column in columns[:_MOST_COLUMNS]
    ]
    if len(columns) > _MOST_COLUMNS:
        rows.append((f"… {len(columns) - _MOST_COLUMNS} more", "", "", ""))
    heads = ("column", "distinct", "empty", "samples")
    yield plain_table(heads, rows, {"distinct", "empty"}, indented=True)


def _short(text: str) -> str:
    text = text.replace("\x1f", ", ")
    return text if len(text) <= _LONGEST_SAMPLE else text[: _LONGEST_SAMPLE - 1] + "…"


def _reading_lines(document: dict[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    reading = document["reading"]
    if reading is None:
        yield Text(plain(f"No votes: {document['problem']}"), style="yellow")
        return
    sure = {"certain": "certain", "likely": "likely, not certain", "possible": "possible"}
    yield Text(plain(f"Read as: {reading['shape']} ({sure[reading['confidence']]})"), style="bold")
    roles = [(one["role"], one["column"], one["sure"], one["why"]) for one in reading["roles"]]
    if roles:
        yield plain_table(("role", "column", "sure", "why"), roles, indented=True)
    if document["comparisons"]:
        yield Text("First comparisons:")
        yield from (Text(plain(f"  {line}")) for line in document["comparisons"])
    counts = document["counts"]
    if counts:
        parts = [
            counted(counts["n_comparisons"], "comparison"), counted(counts["n_items"], "item"),
            counted(counts["n_raters"], "rater"), counted(counts["n_ties"], "tie"),
            f"{counts['n_skipped']:,} skipped",
        ]  # fmt: skip
        yield Text(", ".join(parts))
        for reason, n in counts["skip_reasons"].items():
            yield Text(plain(f"  skipped {n:,} ×: {reason}"))
    against = [*reading["doubts"], *document.get("notes", ()), document["problem"]]
    for doubt in filter(None, against):
        yield Text(plain(f"But: {doubt}"), style="yellow")


def _command_lines(document: dict[str, Any]) -> Iterator[str]:
    """Other readings, and at the end the command of this one."""
    if not document["commands"]:
        return
    first, *rest = document["commands"]
    for command, other in zip(rest, document["others"], strict=False):
        yield plain(f"If {other['difference']}:")
        yield f"  {command}"
    yield TRY + first


FORMATS_SCHEMA = "bbq.formats/1"


@click.command(cls=Command)
@click.argument("adapter", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with the schema bbq.formats/1.")
def formats(adapter: str | None, as_json: bool) -> None:  # noqa: FBT001 (click passes by keyword)
    """List what can be read, or describe one ADAPTER."""
    from bbq_plugin.plugins import describe

    found = describe(adapter)
    if as_json:
        from dataclasses import asdict

        from bbq_plugin.report.documents import report_json

        document = {"schema": FORMATS_SCHEMA, "adapters": [asdict(one) for one in found]}
        emit(report_json(document), None)
    else:
        show(_format_tables(found), None)


def _format_tables(found: tuple[Description, ...]) -> Iterator[RenderableType]:
    from rich.text import Text

    for one in found:
        yield Text.assemble((plain(one.name), "bold"), f"  {plain(one.summary)}")
        yield Text(f"  {plain(one.recognised)}")
        if one.options:
            heads = ("option", "takes", "default", "meaning")
            rows = ((each.name, each.takes, each.default, each.help) for each in one.options)
            yield plain_table(heads, rows, indented=True)
        yield Text("")
