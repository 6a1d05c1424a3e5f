"""`bbq fit`, `bbq raters`, `bbq pairs` and `bbq evaluate`: what is made of a fit."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from bbq_plugin.cli import options as fitting
from bbq_plugin.cli.main import Command
from bbq_plugin.cli.options import Choice, Input, reading_options
from bbq_plugin.cli.output import (
    chosen_format,
    emit,
    framed,
    progress,
    show,
    tell,
    width_of,
    working,
)
from bbq_plugin.config import JUDGED_MODEL, KEYS_BY_NAME
from bbq_plugin.errors import StoreBusyError, UnsupportedError, UsageError
from bbq_plugin.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from bbq_plugin.analysis import Analysis
    from bbq_plugin.analysis.slices import SlicedStudy
    from bbq_plugin.data.dataset import Comparisons
    from bbq_plugin.data.records import Person
    from bbq_plugin.report.documents import Origin


# More raters than this on a screen are noise; the JSON report has all of them.
RATERS_SHOWN = 15
# And more than this in a document, unless all are asked for.
MOST_LISTED = 10_000
# Of the answers: a tag with more values has slices of an answer or two.
MOST_SLICES_OF = 0.3
# A prepared set of more is fitted part by part.
ROWS_IN_MEMORY = 5_000_000


@click.command(cls=Command)
@fitting.options_of(
    "model",
    "solver",
    "priors",
    "camps",
    "ties",
    "intervals",
    "cluster",
    "repeats",
    "level",
    "scale",
    "covariate",
)
@click.option(
    "--top-k",
    metavar="K",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Forecast when the best K items will be known.",
)
@fitting.for_camp_option
@click.option(
    "--engine",
    default="auto",
    show_default=True,
    help="Where a prepared set is fitted: memory, local (part by part, in bounded memory), dask (a "
    "cluster that is started and ended), or dask://HOST:PORT. auto: memory, and local beyond 5 "
    "million rows.",
)
@click.option(
    "--by",
    metavar="TAG",
    help="A leaderboard for each value of this tag, partially pooled: a slice of few answers is "
    "shrunk towards all answers.",
)
@click.option("--by-alone", is_flag=True, help="Fit each value of --by by its own answers alone.")
@click.option(
    "--target",
    multiple=True,
    metavar="TAG=VALUE:SHARE,…",
    help="A leaderboard for this mix of the values of a tag, such as language=en:0.5,de:0.5. "
    "Implies --by TAG.",
)
@fitting.output_options(
    {
        "table": "for people",
        "json": "the whole report",
        "csv": "the leaderboard",
        "html": "a page to send and print",
    }
)
@fitting.all_option
@click.option(
    "--charts",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the charts as files, for a paper.",
)
@reading_options
def fit(
    source: Input,
    by: str | None,
    by_alone: bool,  # noqa: FBT001 (click passes by keyword)
    target: tuple[str, ...],
    engine: str,
    output_format: str | None,
    output: Path | None,
    show_all: bool,  # noqa: FBT001
    charts: Path | None,
    **options: Any,
) -> None:
    """Fit and print leaderboard and raters.

    FILES are fitted together. They may be patterns; - is standard input.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv", "html")
    if len(target) > 1:
        raise UsageError(
            f"--target is given {len(target)} times, and a leaderboard has one mix; give all shares"
            " of one tag at once, such as --target language=en:0.5,de:0.5"
        )
    shares = _shares(target[0]) if target else None
    if shares is not None:
        if by not in (None, shares[0]):
            raise UsageError(f"--target is about the slices by {shares[0]!r}; give no other --by")
        if by_alone:
            raise UsageError("--target mixes pooled slices; leave --by-alone out")
        by = shares[0]
    # Answers to other questions: there is no ranking of all of them, to which they could be pooled.
    of_study = by == "study" and source.store is not None and source.study is None
    by_alone = by_alone or of_study
    if by_alone and by is None:
        raise UsageError("--by-alone says how --by fits; name a tag with --by")
    if chosen == "html" and by_alone and output is None:
        raise UsageError("a page is written for each value; name it with -o report.html")
    fitting.check_intervals(options["model"], options["intervals"], options["cluster"])
    origin = source.origin()
    if by is not None and not by_alone:
        with _parted(source, engine, by, chosen, charts, options["covariate"]):
            study = _print_sliced(source, by, shares, chosen, output, origin, show_all, options)
        _write_all_charts(charts, {"": study.overall, **study.analyses}, study)
        return
    with _parted(source, engine, by, chosen, charts, options["covariate"]) as parted:
        if parted is not None:
            groups = {"": parted}
        else:
            kept = options["cluster"], options["covariate"]
            groups = {"": source.read(*kept)} if by is None else source.read_by(by, kept[1])
            _check_top_k(options["top_k"], max(data.n_items for data in groups.values()))
        results = {
            value: _analysed(replace(source, study=value) if of_study else source, data, **options)
            for value, data in groups.items()
        }
        if by is None:
            _print_one(results[""], chosen, output, origin, show_all=show_all)
        else:
            _print_groups(by, results, chosen, output, origin, show_all=show_all)
        _write_all_charts(charts, results)


def _check_top_k(top_k: int, n_items: int) -> None:
    """Refuse a number that was given, and that all items are not more than."""
    given = click.get_current_context().get_parameter_source("top_k")
    if given is ParameterSource.COMMANDLINE and top_k >= n_items:
        raise UsageError(f"--top-k {top_k}: of {n_items:,} items K is from 1 to {n_items - 1:,}")


def _write_all_charts(
    charts: Path | None, results: dict[str, Analysis], slices: SlicedStudy | None = None
) -> None:
    if charts is None:
        return
    if slices is not None:
        from bbq_plugin.report.charts import FILE, slices_spec, write_specs

        write_specs(charts, {"slices": slices_spec(slices, FILE, narrow=False)})
    for value, result in results.items():
        _write_charts(charts / file_part(value) if value else charts, result)


@contextmanager
def _parted(
    source: Input, engine: str, by: str | None, chosen: str, charts: Path | None,
    covariates: tuple[str, ...] = (),
) -> Iterator[Any]:  # fmt: skip
    """The prepared set to be fitted part by part, with its engine; None: all in memory."""
    prepared = source.prepared()
    if prepared is None:
        if engine not in ("auto", "memory"):
            raise UsageError(f"--engine {engine} fits prepared sets; make one with bbq prepare")
        yield None
        return
    asked = {
        "--by": by, "--covariate": covariates, "--charts": charts,
        "--format html": chosen == "html", "--where": source.where, "--rename": source.rename,
        "--drop-rater": source.drop_rater, "--pseudonymise": source.key,
    }  # fmt: skip
    in_memory = [option for option, value in asked.items() if value]
    if engine == "auto":
        large = prepared.n_rows > ROWS_IN_MEMORY and prepared.has_raters and not in_memory
        engine = "local" if large else "memory"
    if engine == "memory":
        yield None
        return
    if in_memory:
        raise UsageError(f"{in_memory[0]} needs all votes in memory: use --engine memory")
    from bbq_plugin.scale.engines import opened_engine

    n_passes = 0
    with opened_engine(engine, tell) as opened, progress("Pass over the parts") as move:

        def heard(done: int, of: int) -> None:
            nonlocal n_passes
            n_passes += done == 1
            move(completed=done, total=of, description=f"{n_passes}")

        opened.heard = heard
        by_engine = prepared.by(opened)
        yield by_engine
        # Until here a second run would begin from the last finished pass.
        by_engine.forget_passes()


def _shares(text: str) -> tuple[str, dict[str, float]]:
    """`language=en:0.5,de:0.5` as a tag and the share of each value."""
    tag, equals, rest = text.partition("=")
    shares: dict[str, float] = {}
    for part in rest.split(","):
        value, colon, share = part.rpartition(":")
        try:
            number = float(share)
        except ValueError:
            colon = ""
        if not (equals and tag.strip() and colon and value.strip()) or value.strip() in shares:
            raise UsageError(
                f"--target is {text!r}; expected a tag and shares, such as language=en:0.5,de:0.5"
            )
        shares[value.strip()] = number
    return tag.strip(), shares


def _check_slices(by: str, groups: dict[str, Comparisons], options: Any) -> None:
    """Refuse before the fit what cannot be pooled, and note slices that say nothing."""
    from bbq_plugin.model.fit import check_together

    check_together(
        model=options["model"], solver="auto", priors="auto", camps="auto", ties="half",
        has_raters=None, pooled=True,
    )  # fmt: skip
    n = sum(data.n_comparisons for data in groups.values())
    if len(groups) > MOST_SLICES_OF * n:
        tell(
            f"{by} has {len(groups):,} values in {n:,} answers, so that most slices have one or "
            f"two answers; a column of numbers may be a covariate: --covariate {by}"
        )


def _print_sliced(
    source: Input, by: str, shares: tuple[str, dict[str, float]] | None, chosen: str,
    output: Path | None, origin: Origin, show_all: bool, options: Any,  # noqa: FBT001
) -> SlicedStudy:  # fmt: skip
    """All answers, and the slices by a tag beside each other."""
    groups = source.read_by(by, options["covariate"])
    _check_slices(by, groups, options)
    overall = _analysed(source, source.read(options["cluster"], options["covariate"]), **options)
    with working("Pooling slices"):
        from bbq_plugin.analysis.slices import SlicedStudy

        study = SlicedStudy(by, overall, groups)
        mix = None if shares is None else study.target(shares[1])
        _ = study.cells
    from bbq_plugin.report.documents import grouped_csv, report_json, sliced_dict

    if chosen == "json":
        emit(report_json(sliced_dict(study, mix, origin)), output)
    elif chosen == "csv":
        emit(grouped_csv(study.analyses), output)
        _warn(study.analyses.values())
    elif chosen == "html":
        from bbq_plugin.report.html_report import report_html

        with working("Drawing"):
            page = report_html(overall, command=origin.command, slices=study, mix=mix)
        emit(page, output)
    else:
        from bbq_plugin.report.summary import rescaled_text, slice_lines
        from bbq_plugin.report.terminal_tables import MOST_ROWS, leaderboard_table, slices_table

        width, limit = width_of(output), None if show_all else MOST_ROWS
        slices: list[RenderableType] = [*slice_lines(study)]
        if len(study.groups) > 1:
            slices.insert(0, slices_table(study, limit=limit, width=width))
        if mix is not None:
            said = ", ".join(
                f"{plain(name)} {share:.0%}" for name, share in study.shares.items() if share
            )
            title = f"With other shares of {plain(by)}: {said}"
            slices.append(leaderboard_table(mix, limit=limit, width=width, title=title))
            slices += [line for line in (rescaled_text(study),) if line]
        show(_tables(overall, origin, width, show_all=show_all, slices=slices), output)
    return study


def _analysed(
    source: Input,
    data: Comparisons,
    *,
    model: Any,
    solver: Any,
    priors: str | None,
    camps: Any,
    ties: Any,
    intervals: Any,
    cluster: Any,
    repeats: Any,
    level: float,
    scale: Any,
    top_k: int,
    for_camp: int | None,
    covariate: tuple[str, ...],
) -> Analysis:
    fitted = fitting.fitted(
        data, model=model, priors=priors, solver=solver, camps=camps, ties=ties,
        cluster=cluster, repeats=repeats, covariates=covariate,
    )  # fmt: skip
    excluded, _ = fitting.excluded_before(source, data, None)
    with working("Computing intervals") if not fitted.in_parts else nullcontext():
        from bbq_plugin.analysis import Analysis, Limits

        limits = Limits(
            level, intervals=intervals, scale=scale, top_k=top_k, seed=source.seed,
            for_camp=for_camp,
        )  # fmt: skip
        result = Analysis(fitted, limits, excluded, words=fitting.lead_words(source))
        # Here and below, where the user is told what takes the time.
        _ = result.leaderboard
    with working("Judging raters") if not fitted.in_parts else nullcontext():
        _ = result.raters
    with working("Looking ahead"):
        _ = result.stopping.forecast.milestones, result.fragility
    return result


def _warn(results: Iterable[Analysis]) -> None:
    """What a CSV file has no place for."""
    from bbq_plugin.report.documents import all_warnings

    said = (text for result in results for text in all_warnings(result))
    tell(*dict.fromkeys(said), what="Warning")


def _print_one(
    result: Analysis, chosen: str, output: Path | None, origin: Origin, *, show_all: bool
) -> None:
    from bbq_plugin.report.documents import boards_csv, report_dict, report_json

    if chosen == "json":
        most = None if show_all else MOST_LISTED
        emit(report_json(report_dict(result, origin, most_raters=most)), output)
    elif chosen == "csv":
        emit(boards_csv(result), output)
        _warn([result])
    elif chosen == "html":
        emit(_page(result, origin), output)
    else:
        show(_tables(result, origin, width_of(output), show_all=show_all), output)


def _print_groups(
    tag: str,
    results: dict[str, Analysis],
    chosen: str,
    output: Path | None,
    origin: Origin,
    *,
    show_all: bool,
) -> None:
    from bbq_plugin.report.documents import grouped_csv, groups_dict, report_dict, report_json

    if chosen == "json":
        most = None if show_all else MOST_LISTED
        documents = {
            value: report_dict(result, origin, most_raters=most)
            for value, result in results.items()
        }
        emit(report_json(groups_dict(tag, documents, origin)), output)
    elif chosen == "csv":
        emit(grouped_csv(results), output)
        _warn(results.values())
    elif chosen == "html" and output is not None:
        for value, result in results.items():
            page = output.with_stem(f"{output.stem}-{file_part(value)}")
            emit(_page(result, origin, f"{tag}: {value}"), page)
            tell(f"{tag} = {value} is in {page}")
    else:
        parts = (
            part
            for value, result in results.items()
            for part in _tables(
                result, origin, width_of(output), f"{tag}: {value}", show_all=show_all
            )
        )
        show(parts, output)


def _tables(
    result: Analysis, origin: Origin, width: int, heading: str | None = None, *, show_all: bool,
    slices: Sequence[RenderableType] = (),
) -> Iterator[RenderableType]:  # fmt: skip
    from rich.text import Text

    from bbq_plugin.report.documents import all_warnings
    from bbq_plugin.report.summary import (
        answer,
        camp_title,
        clusters_text,
        effect_lines,
        fragility_sentence,
        stopping_lines,
        taste_sentences,
    )
    from bbq_plugin.report.terminal_tables import (
        MOST_ROWS,
        effects_table,
        leaderboard_table,
        raters_table,
        reason_lines,
    )

    if heading is not None:
        yield Text(f"\n{plain(heading)}", style="bold")
    board, raters = result.leaderboard, result.raters
    most_items, most_raters = (None, None) if show_all else (MOST_ROWS, RATERS_SHOWN)
    tables: list[RenderableType] = []
    if result.division.divided:
        told = answer(board, result.n_groups, result.better, result.division)
        tables.append(Text(told.text(), style="bold"))
    else:
        tables += [Text("".join(one)) for one in taste_sentences(result.division)]
    # Each camp first: the panel as a whole may hold an opinion that no rater has.
    tables += [
        leaderboard_table(
            one, limit=most_items, width=width, title=camp_title(result.division, one)
        )
        for one in result.camp_boards
    ]
    title = (
        f"Whole panel, {len(result.camp_boards)} camps, by win share"
        if result.camp_boards
        else None
    )
    tables.append(leaderboard_table(board, limit=most_items, width=width, title=title))
    tables += [line for line in (clusters_text(board),) if line]
    if result.effects:
        tables += [effects_table(result), *effect_lines(result)]
    tables += slices
    tables += stopping_lines(result.stopping)
    if result.fragility is not None:
        tables.append("".join(fragility_sentence(result.fragility)))
    if result.fit.rated:
        tables.append(raters_table(raters, most_raters, width=width))
        tables += reason_lines(raters, most_raters, width=width)
    yield from framed(result.fit, origin, all_warnings(result), tables)


def _page(result: Analysis, origin: Origin, title: str | None = None) -> str:
    """The report as one HTML file."""
    from bbq_plugin.report.html_report import report_html

    with working("Drawing"):
        return report_html(result, title=title, command=origin.command)


def _write_charts(folder: Path, result: Analysis) -> None:
    from bbq_plugin.report.charts import write_charts

    folder.mkdir(parents=True, exist_ok=True)
    with working("Drawing"):
        write_charts(folder, result)
    tell(f"the charts are in {folder}")


def file_part(value: str) -> str:
    """A tag's value as a part of a file name; a hash keeps changed values distinct."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", value)[:40] or "_"
    if safe == value:
        return safe
    return f"{safe}-{blake2b(value.encode('utf-8'), digest_size=3).hexdigest()}"


_DECISIONS: dict[str, Literal["keep", "exclude", ""]] = {
    "keep": "keep", "exclude": "exclude", "model": "",
}  # fmt: skip


@click.command(cls=Command)
@fitting.option_of(JUDGED_MODEL)
@fitting.options_of("priors", "camps", "ties", "level", "false_rate", "least")
@fitting.before_option
@fitting.option_of("threshold")
@fitting.output_options(
    {
        "table": "for people",
        "json": "all of it",
        "csv": "one line per rater",
        "html": "the page of bbq fit, with a page for each excluded rater and 20 of those watched",
    }
)
@click.option(
    "--set",
    "decided",
    multiple=True,
    metavar="RATER=VERDICT",
    help="Decide about a rater yourself: keep or exclude; model: as the model says. Kept in the "
    "store, with --because. Repeatable.",
)
@click.option("--because", help="The reason of --set.")
@click.option("--by", help="Who decides. Default: the user name.")
@click.option(
    "--show-names",
    is_flag=True,
    help="Add the names and e-mail addresses of raters, requested from the Label Studio of the "
    "store.",
)
@fitting.all_option
@reading_options
def raters(
    source: Input,
    decided: tuple[str, ...],
    because: str | None,
    by: str | None,
    model: Any,
    priors: Any,
    camps: Any,
    ties: Any,
    level: float,
    false_rate: float,
    least: int,
    threshold: float,
    before: Path | None,
    output_format: str | None,
    output: Path | None,
    show_names: bool,  # noqa: FBT001 (click passes by keyword)
    show_all: bool,  # noqa: FBT001
) -> None:
    """Report which raters to keep, to watch and to exclude.

    Each rater of FILES is compared with the ranking of the other raters, and gets a verdict with
    reasons, and quality, agreement, left rate and median time.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv", "html")
    if decided or because or by:
        _decide(source, decided, because, by)
    people = _people(source, chosen) if show_names else {}
    data = source.read()
    if not data.has_raters:
        raise UnsupportedError("these data have no rater names, so no rater can be judged")
    excluded, gone = fitting.excluded_before(source, data, before)
    fit = fitting.fitted(data, model=model, priors=priors, camps=camps, ties=ties)
    with working("Judging"):
        from bbq_plugin.analysis import Analysis, Limits

        limits = Limits(level, false_rate, least, threshold, seed=source.seed)
        result = Analysis(fit, limits, excluded, words=fitting.lead_words(source))
        found = result.raters
    from bbq_plugin.report.documents import (
        distinct,
        raters_dict,
        report_json,
        rows_csv,
        verdict_counts,
    )
    from bbq_plugin.report.terminal_tables import (
        MOST_ROWS,
        raters_table,
        reason_lines,
        verdict_lines,
        way_back_lines,
    )

    origin = source.origin()
    if gone:
        found.warnings = (*found.warnings, gone)
    if chosen == "json":
        document = raters_dict(result, origin)
        if show_names:
            document["raters"] = [_named(row, people) for row in document["raters"]]
        emit(report_json(document), output)
    elif chosen == "csv":
        emit(
            rows_csv([_named(dict(row), people) for row in found] if show_names else found), output
        )
        tell(*found.warnings, what="Warning")
    elif chosen == "html":
        emit(_page(result, origin, "Raters"), output)
    else:
        width, limit = width_of(output), None if show_all else MOST_ROWS
        counts = verdict_counts(found)
        tables: list[RenderableType] = [
            ", ".join(f"{verdict} {n:,}" for verdict, n in counts.items()),
            found.rule,
            *verdict_lines(found),
            *([f"{result.inter_rater.text}."] if result.inter_rater else []),
            raters_table(found, limit, width=width, names=people),
            *reason_lines(found, limit, width=width),
            *way_back_lines(found, limit),
        ]
        warnings = distinct(data.warnings, fit.warnings, found.warnings)
        show(framed(fit, origin, warnings, tables), output)


def _people(source: Input, chosen: str) -> Mapping[str, Person]:
    """Who the raters are, from the server that the answers of the store came from."""
    from bbq_plugin.store import Store
    from bbq_plugin.store.project_sync import servers

    if source.store is None:
        raise UsageError("--show-names asks the Label Studio of a store; name it with --store")
    if source.key is not None or chosen == "html":
        other = "--pseudonymise" if source.key is not None else "--format html"
        raise UsageError(f"--show-names and {other} do not go together; leave out one of them")
    with Store(source.store, writable=False) as store:
        urls = {url for url, _ in servers(store)}
    known = os.environ.get("LABEL_STUDIO_URL") or (urls.pop() if len(urls) == 1 else None)
    ask = fitting.people_of(known)
    with working("Asking for names"):
        return ask()


def _named(row: dict[str, Any], people: Mapping[str, Person]) -> dict[str, Any]:
    """A row with the name and the address beside the rater."""
    person = people.get(row["rater"])
    about = {"name": person.name if person else "", "email": person.email if person else ""}
    return {"rater": row["rater"], **about, **row}


def _decide(source: Input, decided: tuple[str, ...], because: str | None, by: str | None) -> None:
    """Put down in the store what the lead has decided about raters."""
    from getpass import getuser

    from bbq_plugin.data.records import LeadWord
    from bbq_plugin.errors import did_you_mean
    from bbq_plugin.store import Store

    if source.store is None:
        raise UsageError("--set is kept in a store; name it with --store")
    if not decided or not because or not because.strip():
        raise UsageError("--set RATER=VERDICT and --because REASON go together; give both")
    words = []
    for text in decided:
        rater, _, verdict = text.rpartition("=")
        if verdict not in _DECISIONS:
            raise UsageError(f"--set {text}: expected RATER=keep, RATER=exclude or RATER=model")
        words.append((rater, _DECISIONS[verdict]))
    try:
        opened = Store(source.store)
    except StoreBusyError as error:
        raise StoreBusyError(
            f"{error}. If that is bbq serve, decide on the rater's page; that needs the token "
            "(--page-token-file)"
        ) from error
    with opened as store:
        known = store.rater_names()
        for rater, _ in words:
            if rater not in known:
                hint = did_you_mean(rater, known)
                raise UsageError(f"there is no rater {rater!r} in the store{hint}")
        for rater, verdict in words:
            word = LeadWord(
                rater, verdict, because.strip(), (by or getuser()).strip(), store.clock()
            )
            store.add_lead_word(word)
            tell(word.text)


@click.command(cls=Command)
@fitting.options_of("model", "priors", "camps", "ties", "cluster", "repeats", "false_rate", "least")
@fitting.before_option
@click.option(
    "-n",
    "--number",
    "n",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many pairs.",
)
@click.option(
    "--goal",
    type=Choice(["ranking", "best", "top-k"]),
    help="What to find out: the whole ranking, the best item, or the best K. "
    "Default: ranking; with --top-k, top-k.",
)
@click.option(
    "--top-k", metavar="K", type=click.IntRange(1), help="How many items count as the best."
)
@fitting.for_camp_option
@click.option("--among", metavar="ITEM", multiple=True, help="Only these items. Repeatable.")
@click.option(
    "--rater",
    "raters",
    metavar="NAME",
    multiple=True,
    help="A rater who is available. Each pair is then assigned to one of them, but to none that "
    "'bbq raters' with the same --false-rate, --least and --before excludes. Repeatable.",
)
@click.option("--all-raters", is_flag=True, help="All raters of FILES are available.")
@click.option(
    "--item-keys",
    metavar="LEFT,RIGHT",
    default="model_left,model_right",
    show_default=True,
    help="Keys of the task data for the names of the items (--format label-studio); one key "
    "alone is a list.",
)
@click.option(
    "--rater-key", metavar="KEY", help="Key of the task data for the rater (label-studio)."
)
@click.option(
    "--scores",
    is_flag=True,
    help="Add predictions whose scores order the tasks, lowest first (label-studio).",
)
@fitting.output_options(
    {
        "table": "for people",
        "json": "all of it",
        "csv": "one line per pair",
        "label-studio": "tasks to import",
    }
)
@fitting.all_option
@reading_options
def pairs(
    source: Input,
    model: Any,
    priors: Any,
    camps: Any,
    ties: Any,
    cluster: Any,
    repeats: Any,
    false_rate: float,
    least: int,
    before: Path | None,
    n: int,
    goal: Any,
    top_k: int | None,
    for_camp: int | None,
    among: tuple[str, ...],
    raters: tuple[str, ...],
    all_raters: bool,  # noqa: FBT001 (click passes by keyword)
    item_keys: str,
    rater_key: str | None,
    scores: bool,  # noqa: FBT001
    output_format: str | None,
    output: Path | None,
    show_all: bool,  # noqa: FBT001
) -> None:
    """List the pairs to compare next.

    These are the pairs of items in FILES with the most expected information, given the quality of
    the raters. Each item is on the left and on the right about equally often.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv", "label-studio")
    if chosen != "label-studio" and (rater_key is not None or scores):
        raise UsageError("--rater-key and --scores are for --format label-studio")
    for option, given in (("--rater-key", rater_key), ("--before", before)):
        if given is not None and not (raters or all_raters):
            raise UsageError(
                f"{option} needs the raters who are available; add --rater NAME or --all-raters"
            )
    if goal == "top-k" and top_k is None:
        raise UsageError("--goal top-k does not say how many are the best; add --top-k K")
    if goal not in (None, "top-k") and top_k is not None:
        raise UsageError(
            f"--top-k is for --goal top-k, not for --goal {goal}; leave one of them out"
        )
    data = source.read(cluster)
    available = _available(source, data, raters, everyone=all_raters)
    more = {"camps": camps, "ties": ties, "cluster": cluster, "repeats": repeats}
    fit = fitting.fitted(data, model=model, priors=priors, **more)
    excluded, gone = fitting.excluded_before(source, data, before)
    with working("Choosing"):
        from bbq_plugin.analysis import Analysis, Limits

        limits = Limits(false_rate=false_rate, least=least, seed=source.seed)
        words = fitting.lead_words(source)
        found = Analysis(fit, limits, excluded, words=words).pairs(
            n,
            goal=goal or ("ranking" if top_k is None else "top-k"),
            top_k=top_k,
            among=among or None,
            raters=available,
            camp=for_camp,
        )
    from bbq_plugin.report.documents import distinct, pairs_dict, report_json, rows_csv
    from bbq_plugin.report.terminal_tables import MOST_ROWS, pairs_table

    origin = source.origin()
    if gone:
        found.warnings = (gone, *found.warnings)
    warnings = distinct(data.warnings, fit.warnings, found.warnings)
    if chosen == "json":
        emit(report_json(pairs_dict(fit, found, origin)), output)
    elif chosen == "csv":
        emit(rows_csv(found), output)
        tell(*warnings, what="Warning")
    elif chosen == "label-studio":
        from bbq_plugin.analysis import prediction_scores
        from bbq_plugin.plugins import tool
        from bbq_plugin.protocols import PairTasks

        shown = [(row.left, row.right) for row in found]
        asked = PairTasks(
            shown,
            item_keys.split(","),
            rater_key=rater_key,
            raters=[row.rater for row in found],
            scores=prediction_scores(found, shown) if scores else None,
        )
        emit(tool(chosen).import_tasks(asked), output)
        tell(*warnings, what="Warning")
    else:
        limit = None if show_all else MOST_ROWS
        tables = [pairs_table(found, limit=limit, width=width_of(output))]
        show(framed(fit, origin, warnings, tables), output)


def _available(
    source: Input, data: Comparisons, named: tuple[str, ...], *, everyone: bool
) -> list[str] | None:
    """The raters to choose from, under the names that the data have here."""
    if everyone and not data.has_raters:
        raise UsageError("--all-raters: these data have no rater names; give them with --rater")
    if not (named or everyone):
        return None
    return [*map(source.rater_name, named), *(data.raters if everyone else ())]


@click.command(cls=Command)
@click.option(
    "--resamples",
    type=click.IntRange(2),
    default=200,
    show_default=True,
    help="How many resamples of the raters to draw; the paper has 10000.",
)
@click.option(
    "--model",
    "models",
    type=Choice(KEYS_BY_NAME["model"].words),
    multiple=True,
    default=("bbq", "bayes-bt", "crowd-bt"),
    help="Only this model. Repeatable. Default: bbq, bayes-bt and crowd-bt.",
)
@fitting.option_of("priors", default="paper", show_default=True)
@fitting.option_of(
    "camps",
    default=1,
    help="How many rankings the panel has, for --model bbq: auto, or a number up to 6. "
    "The other models have one.",
)
@click.option(
    "--more",
    "more",
    type=click.IntRange(1),
    multiple=True,
    metavar="N",
    help="Forecast what N more raters would bring. Repeatable. Default: a quarter, half, once and "
    "twice as many as there are.",
)
@click.option(
    "--by",
    metavar="TAG",
    help="Show quality against agreement for each value of this tag, such as screened or country.",
)
@fitting.output_options(
    {
        "table": "for people",
        "json": "all of it",
        "csv": "one line per model",
        "html": "a page with all charts",
    }
)
@click.option(
    "--charts",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the charts as files, for a paper.",
)
@reading_options
def evaluate(
    source: Input,
    resamples: int,
    models: tuple[str, ...],
    priors: Any,
    camps: Any,
    more: tuple[int, ...],
    by: str | None,
    output_format: str | None,
    output: Path | None,
    charts: Path | None,
) -> None:
    """Measure how stable the ranking of each model is.

    The raters of FILES are resampled with replacement, each model is fitted again, and its ranking
    is compared with the ranking on all data: by Kendall's tau, and by whether the same item is
    best. The same for fewer raters and for fewer comparisons of each; under other priors; and a
    forecast for more raters.
    """
    chosen = chosen_format(output_format, output, "table", "json", "csv", "html")
    data = source.read(() if by is None else (by,))
    if not data.has_raters:
        raise UnsupportedError(
            "these data have no rater names; evaluate resamples the raters, so it needs them"
        )
    if camps not in ("auto", 1) and "bbq" not in models:
        raise UsageError(f"--camps {camps} is for --model bbq; add that, or leave --camps out")
    fits = [
        fitting.fitted(
            data,
            model=model,
            priors=None if model in ("crowd-bt", "bbq-signed") else priors,
            camps=camps if model == "bbq" else 1,
            # The same for all models: the others know no other.
            ties="half",
        )
        for model in dict.fromkeys(models)
    ]
    from bbq_plugin.analysis.stability import SIZES, evaluation

    steps = (resamples + 2 * SIZES) * len(fits)
    with progress("Resampling", steps) as update:
        found = evaluation(
            fits, resamples, source.seed, group=by, more=more,
            advance=lambda n: update(advance=n),
        )  # fmt: skip
    from bbq_plugin.report.documents import distinct, evaluation_dict, report_json, rows_csv
    from bbq_plugin.report.summary import evaluation_lines
    from bbq_plugin.report.terminal_tables import stability_table

    origin = source.origin()
    if chosen == "json":
        emit(report_json(evaluation_dict(data, found, origin)), output)
    elif chosen == "csv":
        emit(rows_csv(found.stability), output)
    elif chosen == "html":
        from bbq_plugin.report.html_report import evaluation_html

        with working("Drawing"):
            page = evaluation_html(found, data, origin.command)
        emit(page, output)
    else:
        tables: list[RenderableType] = [stability_table(found.stability)]
        tables += [line for some in evaluation_lines(found).values() for line in some]
        show(framed(fits[0], origin, distinct(data.warnings, fits[0].warnings), tables), output)
    if charts is not None:
        from bbq_plugin.report.charts import evaluation_specs, write_specs

        with working("Drawing"):
            write_specs(
                charts, {name: spec(narrow=False) for name, spec in evaluation_specs(found).items()}
            )
        tell(f"the charts are in {charts}")
