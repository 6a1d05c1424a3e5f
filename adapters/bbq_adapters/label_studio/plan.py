"""Which control answers the question, and where the items' names are: decided on the first tasks.

A control that could compare in more than one way, several controls that compare, and
labels or keys whose meaning is not plain are refused with what was found and the option
that says it.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bbq_adapters.label_studio import names, words
from bbq_adapters.label_studio.controls import NOT_PLACED, SHOWN, Control, collected, described
from bbq_adapters.label_studio.options import typed
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bbq_adapters.label_studio.names import Source
    from bbq_adapters.label_studio.options import Meaning, Options
    from bbq_adapters.label_studio.tasks import Task

Way = Literal["pairwise", "places", "listed", "ranker", "ratings"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read the answers of this file."""

    way: Way
    controls: tuple[str, ...]
    #: None for a Ranker whose list is not in the data: its ids are the names.
    source: Source | None


def make_plan(sample: Sequence[Task], options: Options, file: str) -> Plan | None:
    """The plan for a file that starts with these tasks; None if nobody answered in them."""
    if not sample:
        return None
    controls = collected(sample)
    if options.control:
        way, chosen = _told(controls, options, sample, file)
    else:
        way, chosen = _found(controls, options, sample, file)
    return Plan(way, chosen, _source(way, chosen, controls, options, sample, file))


def meaning(label: str, labels: Mapping[str, Meaning]) -> Meaning | None:
    """What a label means: as told, else as well known, else None."""
    told = labels.get(label.strip())
    if told is None and not labels:
        told = words.meaning(label)
    return {"left": 1, "right": 2}.get(told, told) if isinstance(told, str) else told


def _told(
    controls: dict[str, Control], options: Options, sample: Sequence[Task], file: str
) -> tuple[Way, tuple[str, ...]]:
    for name in options.control:
        if name not in controls:
            close = difflib.get_close_matches(name, controls, n=1)
            raise _refusal(
                f"no answer has the control {name!r}; {described(controls)}",
                sample,
                file,
                name,
                f"did you mean {close[0]!r}?" if close else "name a control that the answers have",
            )
    chosen = options.control
    if len(chosen) > 1:
        if any(controls[name].kind != "rating" for name in chosen):
            raise _refusal(
                f"several controls can be read together only if all are Ratings; "
                f"{described(controls)}",
                sample,
                file,
                list(chosen),
                "name one control, or the Ratings of the items in the order they are shown",
            )
        return "ratings", chosen
    control = controls[chosen[0]]
    way = _way(control, options, told=True)
    if way is None:
        raise _unclear(control, sample, file)
    return way, chosen


def _found(
    controls: dict[str, Control], options: Options, sample: Sequence[Task], file: str
) -> tuple[Way, tuple[str, ...]]:
    candidates: list[tuple[Way, tuple[str, ...]]] = [
        (way, (control.name,))
        for control in controls.values()
        if (way := _way(control, options, told=False))
    ]
    candidates += [("ratings", family) for family in _rated_together(controls)]
    sure = [one for one in candidates if not _is_weak(one, controls, options)]
    candidates = sure or candidates
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise _refusal(
            f"several controls compare items: {', '.join(map(_quoted, candidates))}",
            sample,
            file,
            [",".join(chosen) for _, chosen in candidates],
            f"say which with the option control={','.join(candidates[0][1])}",
        )
    choices = [c for c in controls.values() if c.kind == "choices" and c.labels()]
    if len(choices) == 1:
        raise _unclear(choices[0], sample, file)
    raise _refusal(
        f"no control of these answers compares items; {described(controls)}",
        sample,
        file,
        sorted(controls)[:SHOWN],
        "expected Pairwise, Ranker, two Ratings, or Choices of a side; say which control and what "
        "its labels mean with the options control=NAME and labels=LABEL=left,LABEL=right,LABEL=tie",
    )


def _way(control: Control, options: Options, *, told: bool) -> Way | None:
    """How this control compares, or None if it does not."""
    if control.kind == "pairwise":
        return "pairwise"
    if control.kind == "ranker":
        return "ranker"
    labels = control.labels() if control.kind in ("choices", "") else []
    if not labels:
        return None
    if all(meaning(label, options.labels) is not None for label in labels):
        # A column of a flat export may be data: "A" or "model-a" proves nothing.
        known = control.kind or told or options.labels or any(map(words.is_verdict, labels))
        return "places" if known else None
    if told and options.labels:
        return "places"
    return "listed" if _lists_of(control) else None


def _is_weak(
    candidate: tuple[Way, tuple[str, ...]], controls: dict[str, Control], options: Options
) -> bool:
    way, chosen = candidate
    control = controls[chosen[0]]
    if way == "listed":
        # A column of a flat export whose text happens to stand in some list.
        return not control.kind
    bare = all(map(words.is_bare, control.labels()))
    return way == "places" and not options.labels and bare


def _rated_together(controls: dict[str, Control]) -> Iterator[tuple[str, ...]]:
    """Ratings that differ only in a side, by their own name or by what they are about."""
    ratings = [control for control in controls.values() if control.kind == "rating"]
    by_name = words.families(control.name for control in ratings)
    if by_name:
        yield from by_name
        return
    about = {next(iter(c.to_names)): c.name for c in ratings if len(c.to_names) == 1}
    if len(about) == len(ratings):
        yield from (tuple(about[to] for to in family) for family in words.families(about))


def _lists_of(control: Control) -> list[str]:
    """The lists in the data out of which all of this control's labels come."""
    keys = dict.fromkeys(key for _, data in control.said for key in data)
    return [key for key in keys if _offers(key, control)]


def _offers(key: str, control: Control) -> bool:
    own_list = names.Listed(key)
    shown = [(labels, own_list.by_identity(data)) for labels, data in control.said if labels]
    inside = [labels for labels, offered in shown if offered and set(labels) <= offered.keys()]
    # One odd answer, which the server would accept, must not hide the list.
    return bool(inside) and len(inside) * 2 > len(shown)


def _source(
    way: Way,
    chosen: tuple[str, ...],
    controls: dict[str, Control],
    options: Options,
    sample: Sequence[Task],
    file: str,
) -> Source | None:
    if way == "ranker":
        _check_buckets(controls[chosen[0]], options, sample, file)
    if way in ("ranker", "listed"):
        return _list_source(way, controls[chosen[0]], options, sample, file)
    most: int | None = len(chosen) if way == "ratings" else 2
    if way == "places":
        most = _most_places(controls[chosen[0]], options)
    if not options.items:
        return names.found_keys(sample, most, file)
    source = names.told_keys(options.items, sample, file)
    if isinstance(source, names.Keys) and most not in (None, len(source.keys)):
        raise _refusal(
            f"the option items names {len(source.keys)} keys where {most} items are shown",
            sample,
            file,
            list(source.keys),
            f"name {most} keys, the first one first",
        )
    return source


def _check_buckets(control: Control, options: Options, sample: Sequence[Task], file: str) -> None:
    for bucket in options.buckets:
        if bucket not in control.buckets and bucket != NOT_PLACED:
            known = sorted(control.buckets - {NOT_PLACED})
            close = difflib.get_close_matches(bucket, known, n=1)
            raise _refusal(
                f"no answer has the bucket {bucket!r} that the option buckets names; "
                f"there are {', '.join(map(repr, known[:SHOWN])) or 'none'}",
                sample,
                file,
                bucket,
                f"did you mean {close[0]!r}?" if close else "name buckets that the answers have",
            )


def _most_places(control: Control, options: Options) -> int | None:
    """Two where a label speaks of sides or ties; labels that only count may go on counting."""
    labels = options.labels or dict.fromkeys(control.labels())
    meanings = [meaning(label, options.labels) for label in labels]
    if any(isinstance(one, int) and one > 2 for one in meanings):
        return None
    tied = "tie" in meanings or "both_bad" in meanings
    said = [str(value) for value in options.labels.values()] or list(labels)
    return 2 if tied or any(map(words.is_sided, said)) else None


def _list_source(
    way: Way, control: Control, options: Options, sample: Sequence[Task], file: str
) -> Source | None:
    if options.items:
        if len(options.items) > 1:
            raise _refusal(
                f"the option items names {len(options.items)} keys, but the items are one list; "
                f"{names.described(sample)}",
                sample,
                file,
                list(options.items),
                "name the list, or a field of its entries, such as items=images.model",
            )
        return names.told_list(options.items[0], sample, file)
    lists = _lists_of(control)
    if not lists:
        return None
    if len(lists) > 1:
        raise _refusal(
            f"several lists could be what was shown; {names.described(sample)}",
            sample,
            file,
            lists,
            f"say which with the option items={lists[0]}",
        )
    fields = _naming_fields(lists[0], sample)
    if fields or (way == "listed" and not _identities_are_names(lists[0], sample)):
        raise _refusal(
            f"the entries of {lists[0]!r} do not clearly name the items; {names.described(sample)}",
            sample,
            file,
            fields or lists,
            "say what names them with the option items="
            + " or items=".join([*(f"{lists[0]}.{f}" for f in fields), lists[0]]),
        )
    return names.Listed(lists[0])


def _naming_fields(key: str, sample: Sequence[Task]) -> list[str]:
    """Fields that name something else than the entry's identity does."""
    found: dict[str, None] = {}
    for task in sample:
        for entry in names.entries(names.lookup(task.data, key)):
            if isinstance(entry, dict):
                own = names.identity(entry)
                for one, value in entry.items():
                    if words.strongly_names_an_item(one) and names.name_of(value) not in (
                        None,
                        own,
                    ):
                        found[one] = None
    return list(found)


def _identities_are_names(key: str, sample: Sequence[Task]) -> bool:
    """Whether the values of Choices look like names; texts with blanks are what was shown."""
    shown = [own for task in sample for own in names.Listed(key).by_identity(task.data)]
    return all(not any(map(str.isspace, own)) and len(own) <= 60 for own in shown)


def _quoted(candidate: tuple[Way, tuple[str, ...]]) -> str:
    return " with ".join(map(repr, candidate[1]))


def _unclear(control: Control, sample: Sequence[Task], file: str) -> FormatError:
    if control.kind not in ("choices", ""):
        return _refusal(
            f"the control {control.name!r} ({control.kind}) compares nothing by itself",
            sample,
            file,
            control.name,
            "a Rating needs a second one: control=RATING_LEFT,RATING_RIGHT",
        )
    labels = control.labels()[:SHOWN]
    pairs = dict(zip(labels, ("left", "right", "tie"), strict=False))
    example = typed(pairs) if pairs else "LABEL=left"
    return _refusal(
        f"the labels of the control {control.name!r} are not known: "
        + ", ".join(repr(label[:60]) for label in labels),
        sample,
        file,
        labels,
        "say what each means (left, right, tie, both_bad, skip, or the place 1, 2, 3 … of an "
        f"item) with the option labels, e.g. labels={example}",
    )


def _refusal(
    problem: str, sample: Sequence[Task], file: str, value: object, remedy: str
) -> FormatError:
    return FormatError(problem, file, sample[0].line, value, remedy)
