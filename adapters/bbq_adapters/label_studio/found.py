"""What a project on a server is asked: the control of its labelling configuration, the plan.

The plan, which `plan.py` makes from the first answers, is kept with the pages, so that a page
with one odd answer is read like all others.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_adapters.label_studio import words
from bbq_adapters.label_studio.controls import SHOWN, collected
from bbq_adapters.label_studio.names import Keys, Listed
from bbq_adapters.label_studio.plan import Plan, make_plan, meaning
from bbq_plugin.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bbq_adapters.label_studio.options import Options
    from bbq_adapters.label_studio.tasks import Task

# Controls that can compare. Choices and Ratings may be about something else.
_SURE = ("Pairwise", "Ranker")
_PERHAPS = ("Choices", "Rating")

Controls = dict[str, dict[str, Any]]


def controls_of(parsed: Any, options: Options, name: str) -> list[str]:
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


def _sided(control: dict[str, Any], options: Options) -> bool:
    labels = [str(label) for label in control.get("labels") or ()]
    said = [meaning(label, options.labels) for label in labels]
    return len(labels) > 1 and None not in said and any(map(words.is_verdict, labels))


def planned(
    sample: Sequence[Task], candidates: Sequence[str], options: Options, name: str
) -> Plan | None:
    """How to read the answers of these tasks, with the configuration's word on the control."""
    if not options.control and len(candidates) == 1 and candidates[0] in collected(sample):
        options = replace(options, control=tuple(candidates))
    return make_plan(sample, options, name)


def described(
    plan: Plan | None, candidates: Sequence[str], parsed: Any, *, looked: bool = True
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


def fingerprint(label_config: str, options: Options) -> str:
    """Changes when answers have to be read in another way."""
    said = msgspec.json.encode((label_config, options), order="sorted")
    return sha256(said).hexdigest()[:16]


def packed(plan: Plan) -> dict[str, Any]:
    """A plan to be kept."""
    source = plan.source
    kept: dict[str, Any] = {"way": plan.way, "controls": list(plan.controls)}
    if isinstance(source, Keys):
        kept["keys"] = list(source.keys)
    elif source is not None:
        kept["list"], kept["field"] = source.key, source.field
    return kept


def unpacked(kept: Mapping[str, Any] | None) -> Plan | None:
    """A plan that was kept."""
    if not kept:
        return None
    source: Keys | Listed | None = None
    if "keys" in kept:
        source = Keys(tuple(kept["keys"]))
    elif "list" in kept:
        source = Listed(kept["list"], kept.get("field"))
    return Plan(kept["way"], tuple(kept["controls"]), source)
