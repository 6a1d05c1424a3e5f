"""Which control answers the question, and where the items' names are: found in the first tasks."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from bbq_adapters.label_studio import names
from bbq_adapters.label_studio.names import Keys, Listed
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bbq_adapters.label_studio.adapter import Meaning, ReadingOptions
    from bbq_adapters.label_studio.files import ExportedTask
    from bbq_adapters.label_studio.names import Source


def typed(labels: Mapping[str, str]) -> str:
    """Labels as one would type them, for a message."""
    if any("," in label for label in labels):
        return repr(msgspec.json.encode(labels).decode())
    return ",".join(f"{label}={meaning}" for label, meaning in labels.items())


#: The bucket of what was not placed anywhere.
NOT_PLACED = "_"

#: How many controls or labels a message shows.
SHOWN = 12


@dataclass(slots=True)
class Control:
    """One control. `kind` is "" where the answers do not say, or do not agree."""

    name: str
    kinds: set[str] = field(default_factory=set)
    to_names: set[str] = field(default_factory=set)
    buckets: set[str] = field(default_factory=set)
    #: The labels of Choices, or the ids of a Ranker, with the data of their task.
    said: list[tuple[list[str], dict[str, Any]]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Its type, as results name it."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else ""

    def labels(self) -> list[str]:
        """All the labels or ids that were said, once each."""
        return list(dict.fromkeys(label for labels, _ in self.said for label in labels))


def collected(sample: Sequence[ExportedTask]) -> dict[str, Control]:
    """The controls of these tasks by name, without those of skipped annotations."""
    found: dict[str, Control] = {}
    for task in sample:
        for answer in task.answers:
            if answer.cancelled:
                continue
            for result in answer.results:
                control = found.setdefault(result.control, Control(result.control))
                # A flat export shows no type for a single choice: other rows may.
                if result.kind:
                    control.kinds.add(result.kind)
                if result.kind == "ranker":
                    control.buckets.update(ranked_ids(result.value) or ())
                if result.to_name:
                    control.to_names.add(result.to_name)
                shown = task.shown_beside(result.control)
                control.said.append((_said(result.kind, result.value), shown))
    return found


def _said(kind: str, value: Any) -> list[str]:
    if kind in ("choices", ""):
        return chosen_labels(value) or []
    if kind == "ranker":
        return [own for ids in (ranked_ids(value) or {}).values() for own in ids]
    return []


def chosen_labels(value: Any) -> list[str] | None:
    """The labels of a Choices result; of nested ones the innermost; None if it holds none."""
    if not isinstance(value, list):
        return None
    inner = [path[-1] if isinstance(path, list) and path else path for path in value]
    labels = [label for label in inner if isinstance(label, str)]
    return labels if len(labels) == len(inner) else None


def ranked_ids(value: Any) -> dict[str, list[str]] | None:
    """The ids in each bucket of a Ranker result, or None if it has another shape."""
    if not isinstance(value, dict) or not value:
        return None
    buckets: dict[str, list[str]] = {}
    for bucket, inside in value.items():
        if not isinstance(inside, list):
            return None
        ids = [name for own in inside if (name := names.name_of(own)) is not None]
        if len(ids) < len(inside):
            return None
        buckets[bucket] = ids
    return buckets


def described(controls: dict[str, Control]) -> str:
    """The controls with some of their labels, for a message."""
    shown = []
    for control in list(controls.values())[:SHOWN]:
        labels = ", ".join(repr(label[:30]) for label in control.labels()[:4])
        kind = control.kind or "text"
        shown.append(f"{control.name!r} ({kind}{': ' + labels if labels else ''})")
    return f"the answers have {', '.join(shown)}" if shown else "no answer has a result"


Way = Literal["pairwise", "places", "listed", "ranker", "ratings"]


@dataclass(frozen=True, slots=True)
class Question:
    """How to read the answers of this file."""

    way: Way
    controls: tuple[str, ...]
    #: None for a Ranker whose list is not in the data: its ids are the names.
    source: Source | None


def make_plan(
    sample: Sequence[ExportedTask], options: ReadingOptions, file: str
) -> Question | None:
    """The plan for a file that starts with these tasks; None if nobody answered in them."""
    if not sample:
        return None
    controls = collected(sample)
    if options.control:
        way, chosen = _told(controls, options, sample, file)
    else:
        way, chosen = _found(controls, options, sample, file)
    return Question(way, chosen, _source(way, chosen, controls, options, sample, file))


def meaning(label: str, labels: Mapping[str, Meaning]) -> Meaning | None:
    """What a label means: as told, else as well known, else None."""
    told = labels.get(label.strip())
    if told is None and not labels:
        told = names.label_meaning(label)
    return {"left": 1, "right": 2}.get(told, told) if isinstance(told, str) else told


def _told(
    controls: dict[str, Control], options: ReadingOptions, sample: Sequence[ExportedTask], file: str
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
    controls: dict[str, Control], options: ReadingOptions, sample: Sequence[ExportedTask], file: str
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


def _way(control: Control, options: ReadingOptions, *, told: bool) -> Way | None:
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
        known = control.kind or told or options.labels or any(map(names.is_verdict, labels))
        return "places" if known else None
    if told and options.labels:
        return "places"
    return "listed" if _lists_of(control) else None


def _is_weak(
    candidate: tuple[Way, tuple[str, ...]], controls: dict[str, Control], options: ReadingOptions
) -> bool:
    way, chosen = candidate
    control = controls[chosen[0]]
    if way == "listed":
        # A column of a flat export whose text happens to stand in some list.
        return not control.kind
    bare = all(map(names.is_bare, control.labels()))
    return way == "places" and not options.labels and bare


def _rated_together(controls: dict[str, Control]) -> Iterator[tuple[str, ...]]:
    """Ratings that differ only in a side, by their own name or by what they are about."""
    ratings = [control for control in controls.values() if control.kind == "rating"]
    by_name = names.families(control.name for control in ratings)
    if by_name:
        yield from by_name
        return
    about = {next(iter(c.to_names)): c.name for c in ratings if len(c.to_names) == 1}
    if len(about) == len(ratings):
        yield from (tuple(about[to] for to in family) for family in names.families(about))


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
    options: ReadingOptions,
    sample: Sequence[ExportedTask],
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


def _check_buckets(
    control: Control, options: ReadingOptions, sample: Sequence[ExportedTask], file: str
) -> None:
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


def _most_places(control: Control, options: ReadingOptions) -> int | None:
    """Two where a label speaks of sides or ties; labels that only count may go on counting."""
    labels = options.labels or dict.fromkeys(control.labels())
    meanings = [meaning(label, options.labels) for label in labels]
    if any(isinstance(one, int) and one > 2 for one in meanings):
        return None
    tied = "tie" in meanings or "both_bad" in meanings
    said = [str(value) for value in options.labels.values()] or list(labels)
    return 2 if tied or any(map(names.is_sided, said)) else None


def _list_source(
    way: Way, control: Control, options: ReadingOptions, sample: Sequence[ExportedTask], file: str
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


def _naming_fields(key: str, sample: Sequence[ExportedTask]) -> list[str]:
    """Fields that name something else than the entry's identity does."""
    found: dict[str, None] = {}
    for task in sample:
        for entry in names.entries(names.lookup(task.data, key)):
            if isinstance(entry, dict):
                own = names.identity(entry)
                for one, value in entry.items():
                    if names.strongly_names_an_item(one) and names.name_of(value) not in (
                        None,
                        own,
                    ):
                        found[one] = None
    return list(found)


def _identities_are_names(key: str, sample: Sequence[ExportedTask]) -> bool:
    """Whether the values of Choices look like names; texts with blanks are what was shown."""
    shown = [own for task in sample for own in names.Listed(key).by_identity(task.data)]
    return all(not any(map(str.isspace, own)) and len(own) <= 60 for own in shown)


def _quoted(candidate: tuple[Way, tuple[str, ...]]) -> str:
    return " with ".join(map(repr, candidate[1]))


def _unclear(control: Control, sample: Sequence[ExportedTask], file: str) -> FormatError:
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
    problem: str, sample: Sequence[ExportedTask], file: str, value: object, remedy: str
) -> FormatError:
    return FormatError(problem, file, sample[0].line, value, remedy)


# Controls that can compare. Choices and Ratings may be about something else.
_SURE = ("Pairwise", "Ranker")

_PERHAPS = ("Choices", "Rating")

Controls = dict[str, dict[str, Any]]


def controls_of(parsed: Any, options: ReadingOptions, name: str) -> list[str]:
    """The controls of a configuration that compare, surest first; refuse if there is none."""
    controls = {str(key): one for key, one in dict(parsed or {}).items() if isinstance(one, dict)}
    known = [*_SURE, *_PERHAPS]
    able = [control for control in controls if controls[control].get("type") in known]
    if not able:
        listed = ", ".join(f"{key!r} ({one.get('type')})" for key, one in controls.items())
        raise FormatError(
            f"no control of the labelling configuration compares items; it has {listed or 'none'}",
            name,
            value=sorted(controls)[:SHOWN],
            remedy="expected Pairwise, Ranker, Choices of a side, or two Ratings",
        )
    if options.control:
        return [control for control in options.control if control in able] or able
    sure = [control for control in able if controls[control].get("type") in _SURE]
    sided = [
        control
        for control in able
        if controls[control].get("type") == "Choices" and _sided(controls[control], options)
    ]
    return sure or sided or able


def _sided(control: dict[str, Any], options: ReadingOptions) -> bool:
    labels = [str(label) for label in control.get("labels") or ()]
    said = [meaning(label, options.labels) for label in labels]
    return len(labels) > 1 and None not in said and any(map(names.is_verdict, labels))


def planned(
    sample: Sequence[ExportedTask], candidates: Sequence[str], options: ReadingOptions, name: str
) -> Question | None:
    """How to read the answers of these tasks, with the configuration's word on the control."""
    if not options.control and len(candidates) == 1 and candidates[0] in collected(sample):
        options = replace(options, control=tuple(candidates))
    return make_plan(sample, options, name)


def described_plan(
    plan: Question | None, candidates: Sequence[str], parsed: Any, *, looked: bool = True
) -> str:
    """What was found, in words; without having `looked`, nothing is said about answers."""
    controls = dict(parsed or {})
    chosen = list(plan.controls if plan else candidates)
    words_ = [f"control {one!r} ({_type(controls, one)}{_about(controls, one)})" for one in chosen]
    if plan is None:
        return " or ".join(words_) + ("; no answers yet" if looked else "")
    source = plan.source
    if source is None:
        return f"{', '.join(words_)}, items named by the control's own ids"
    if isinstance(source, Keys):
        return f"{', '.join(words_)}, items named by {' and '.join(source.keys)}"
    field = f", field {source.field}" if source.field else ""
    return f"{', '.join(words_)}, items named by the list {source.key}{field}"


def _type(controls: Controls, name: str) -> str:
    return str(controls.get(name, {}).get("type", "not in the configuration"))


def _about(controls: Controls, name: str) -> str:
    to_names = [str(one) for one in controls.get(name, {}).get("to_name") or ()]
    return f" of {' and '.join(to_names)}" if to_names else ""


def fingerprint(label_config: str, options: ReadingOptions) -> str:
    """Changes when answers have to be read in another way."""
    said = msgspec.json.encode((label_config, options), order="sorted")
    return sha256(said).hexdigest()[:16]


def packed(plan: Question) -> dict[str, Any]:
    """A plan to be kept."""
    source = plan.source
    kept: dict[str, Any] = {"way": plan.way, "controls": list(plan.controls)}
    if isinstance(source, Keys):
        kept["keys"] = list(source.keys)
    elif source is not None:
        kept["list"], kept["field"] = source.key, source.field
    return kept


def unpacked(kept: Mapping[str, Any] | None) -> Question | None:
    """A plan that was kept."""
    if not kept:
        return None
    source: Keys | Listed | None = None
    if "keys" in kept:
        source = Keys(tuple(kept["keys"]))
    elif "list" in kept:
        source = Listed(kept["list"], kept.get("field"))
    return Question(kept["way"], tuple(kept["controls"]), source)
