"""What to write into a project: the state that verdicts ask for, less the state that there is.

Each kind of action compares what should be with what is, so that a second run plans nothing. What
an earlier run wrote is told from what people set by the journal: the values before its first
entry are the project's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log10
from typing import TYPE_CHECKING, Any

import msgspec

from bbq_plugin.data.records import Action, FeedbackPlan
from bbq_plugin.errors import UsageError
from bbq_plugin.text import chance as percent
from bbq_plugin.text import counted

if TYPE_CHECKING:
    from bbq_plugin.data.records import JournalEntry, PlanWorth
    from bbq_plugin.protocols import FeedbackGoals, PairTasks

    #: What the journal says, by kind and target.
    _Past = dict[tuple[str, str], list[JournalEntry]]

#: Names that raters may read: Community has no roles, so every rater sees every tab.
TABS = {"excluded": "Second look", "watched": "Spot check"}
#: The version of the predictions that a push makes, and the project serves.
SERVED = "next-comparisons"
#: Predictions that are no longer among the most informative: no project serves this version.
RETIRED = "next-comparisons-past"
OUR_VERSIONS = (SERVED, RETIRED)
#: That of the predictions in a file of new tasks.
IMPORTED = "bbq pairs"
UNCERTAINTY = "Uncertainty sampling"
#: A task is asked again if its answers change the result with at least this chance.
USEFUL = 0.01
_SHOWN = 3


@dataclass(frozen=True)
class ServerAnswer:
    """One annotation, as far as feedback needs it."""

    id: int
    rater: str
    cancelled: bool


@dataclass(frozen=True)
class ServerTask:
    """One task, as far as feedback needs it."""

    id: int
    overlap: int
    is_labeled: bool
    answers: tuple[ServerAnswer, ...]
    items: tuple[str, ...]
    #: Score by id of the predictions that push made, as they are now.
    predictions: Mapping[int, tuple[str, float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerState:
    """The project as it is on the server."""

    tasks: tuple[ServerTask, ...]
    model_version: str
    sampling: str
    #: Title and filters by id.
    tabs: Mapping[int, tuple[str, Any]]
    enterprise: bool
    #: The project serves the scores of `bbq serve` as a model, which a push keeps fresh.
    own_model: bool = False
    #: On Enterprise, the raters who are paused, by us or by a user.
    paused: frozenset[str] = frozenset()
    #: How many answers the project wants of a task, and of which share of them; the others get one.
    overlap: int = 1
    cohort_percent: int = 100

    @property
    def overlaps(self) -> tuple[int, ...]:
        """The overlaps that the project itself gives its tasks."""
        return (self.overlap,) if self.cohort_percent >= 100 else (self.overlap, 1)


def planned(
    now: ServerState, goals: FeedbackGoals, entries: Iterable[JournalEntry]
) -> FeedbackPlan:
    """All actions: cancellations first, for they change what relabelling has to do."""
    past: _Past = {}
    for entry in entries:
        past.setdefault((entry.action.kind, entry.action.target), []).append(entry)
    notes: list[str] = []
    relabels, worth = _relabels(now, goals, past, notes)
    actions = [
        *_cancels(now, goals, past),
        *relabels,
        *_tabs(now, goals, past),
        *_pauses(now, goals, past),
    ]
    why_not = _not_predicted(now, goals)
    if why_not is None:
        again = {action.ref for action in relabels if action.kind == "relabel"}
        actions += _predictions(now, goals, past, again if "relabel" in goals.kinds else set())
    elif "predict" in goals.kinds:
        notes.append(why_not)
    kept = [action for action in actions if action.is_of(goals.kinds)]
    return FeedbackPlan(tuple(kept), tuple(notes), worth)


# -- answers of excluded raters


def _relabels(
    now: ServerState, goals: FeedbackGoals, past: _Past, notes: list[str]
) -> tuple[list[Action], PlanWorth | None]:
    """Tasks to ask again, the most useful first, and what that buys.

    Tasks of the same items are looked at together: one answer more may change nothing where all
    of them would. What was asked for before stays asked for.
    """
    asked: dict[frozenset[str], int] = {}
    found = []
    for task in now.tasks:
        action, n = _relabel(task, now, goals, past)
        if action is not None:
            found.append((task, action, n))
            if n:
                same = frozenset(task.items)
                asked[same] = asked.get(same, 0) + n
    if "relabel" not in goals.kinds:
        return [action for _, action, _ in found], None
    chances = _chances(asked, goals)
    chosen, n_left, by_chance = [], 0, {}
    for task, action, n in found:
        by_chance[action.target] = chance = chances.get(frozenset(task.items)) if n else 1.0
        ours = n and ("relabel", action.target) in past
        if ours or chance is None or goals.relabel == "all" or chance >= USEFUL:
            chosen.append((task, action, n))
        else:
            n_left += 1
    # What is not known comes first: an item without any comparison.
    order = {target: inf if one is None else one for target, one in by_chance.items()}
    chosen.sort(key=lambda one: -order[one[1].target])
    if n_left:
        notes.append(
            f"{counted(n_left, 'task')} of excluded raters {'is' if n_left == 1 else 'are'} left "
            f"out: the chance that new answers change the result is below {USEFUL:.0%} for each "
            "pair of items; bbq push --relabel all asks for them too"
        )
    queued = [(task.items, n) for task, _, n in chosen if n]
    n_unknown = sum(not items for items, _ in queued)
    if n_unknown and goals.relabel != "all":
        notes.append(
            f"for {counted(n_unknown, 'task')} of excluded raters it is not known whether new "
            "answers can change the result, so all are asked again; bbq pull tells which items "
            "the tasks show"
        )
    if queued and not now.enterprise:
        notes.append(
            "Label Studio Community serves these tasks to excluded raters too; their answers do "
            "not close a task, the next push asks again until another rater has answered"
        )
    actions = [_with_chance(action, by_chance[action.target], n) for _, action, n in chosen]
    known = goals.worth is not None and bool(queued)
    return actions, goals.worth.together(queued) if goals.worth and known else None


def _chances(
    asked: Mapping[frozenset[str], int], goals: FeedbackGoals
) -> dict[frozenset[str], float | None]:
    """The chance that answers change the result, by the items they are about."""
    if goals.worth is None:
        return {}
    return {items: goals.worth.chance(sorted(items), n) for items, n in asked.items() if items}


def _with_chance(action: Action, chance: float | None, n: int) -> Action:
    if chance is None or not n:
        return action
    return replace(action, reason=f"{action.reason}; chance to change the result {percent(chance)}")


def _cancels(now: ServerState, goals: FeedbackGoals, past: _Past) -> list[Action]:
    found = []
    for task in now.tasks:
        for answer in task.answers:
            target = f"annotation {answer.id}"
            ours = past.get(("cancel", target))
            if answer.rater in goals.excluded:
                if goals.cancel and not answer.cancelled:
                    reason = f"by rater {answer.rater}: {goals.excluded[answer.rater]}"
                    before = {"was_cancelled": False}
                    after = {"was_cancelled": True, "task": task.id}
                    of = (answer.rater,)
                    found.append(
                        Action("cancel", target, reason, before, after, answer.id, raters=of)
                    )
            elif ours:
                found.append(_release(ours, target, f"rater {answer.rater} is no longer excluded"))
    return found


def _relabel(
    task: ServerTask, now: ServerState, goals: FeedbackGoals, past: _Past
) -> tuple[Action | None, int]:
    """Enough room for as many answers of others as the project wants; how many it asks for."""
    target = f"task {task.id}"
    ours = past.get(("relabel", target), [])
    last = max((answer.id for answer in task.answers), default=0)
    given = [answer for answer in task.answers if not answer.cancelled]
    bad = [answer for answer in given if answer.rater in goals.excluded]
    cancelled = any(
        answer.cancelled and ("cancel", f"annotation {answer.id}") in past
        for answer in task.answers
    )
    wanted = _wanted(task, now, len(bad), ours)
    if not ours and not task.is_labeled and task.overlap > now.overlap + len(bad):
        # Room enough for now; whose it is shows when it is used up.
        return None, 0
    if goals.cancel and bad:
        bad, cancelled = [], True
    n_good = sum(answer.rater not in goals.excluded for answer in given)
    if not bad and not cancelled:
        if ours and last <= int((ours[-1].action.before or {})["last_answer"]):
            return _release(ours, target, "no excluded rater has answered it any more"), 0
        return None, 0
    if n_good >= wanted:
        return None, 0
    overlap = wanted + len(bad)
    if task.overlap == overlap and (not task.is_labeled or not bad):
        return None, 0
    reason = f"it has {n_good} of {wanted} answers without {_named(bad)}"
    before = {"overlap": task.overlap, "is_labeled": task.is_labeled, "last_answer": last}
    after = {"overlap": overlap, "is_labeled": False}
    raters = tuple(sorted({answer.rater for answer in bad}))
    action = Action("relabel", target, reason, before, after, task.id, raters=raters)
    return action, wanted - n_good


def _wanted(task: ServerTask, now: ServerState, n_bad: int, ours: list[JournalEntry]) -> int:
    """How many answers the task should have, before room was made for others."""
    if ours:
        # An overlap that people have set since is the project's own again.
        still = task.overlap == ours[-1].action.after["overlap"]
        return int((ours[0].action.before or {})["overlap"]) if still else task.overlap
    if task.overlap in now.overlaps:
        return task.overlap
    # What this store knows nothing of, and is what a push would have written, was written by a
    # push from another store: counted as the project's own, each store would ask for more.
    made = [own for own in now.overlaps if own < task.overlap <= own + n_bad]
    return max(made, default=task.overlap)


def _named(bad: list[ServerAnswer]) -> str:
    raters = sorted({answer.rater for answer in bad}, key=lambda own: (len(own), own))
    more = f" and {len(raters) - _SHOWN} more" if len(raters) > _SHOWN else ""
    who = "rater" if len(raters) == 1 else "raters"
    return f"{who} {', '.join(raters[:_SHOWN])}{more}" if raters else "the cancelled ones"


def _release(ours: list[JournalEntry], target: str, reason: str) -> Action:
    first, last = ours[0].action, ours[-1].action
    before, ids = dict(first.before or {}), tuple(entry.id for entry in ours)
    return Action("release", target, reason, last.after, before, last.ref, ids, first.kind)


# -- tabs


def _tabs(now: ServerState, goals: FeedbackGoals, past: _Past) -> list[Action]:
    found = []
    lists = {"excluded": goals.excluded, "watched": goals.watched}
    present = {answer.rater for task in now.tasks for answer in task.answers}
    for which, title in TABS.items():
        raters = sorted(int(r) for r in lists[which] if r in present and r.isdigit())
        target = f"tab {title}"
        ours = past.get(("tab", target), [])
        ref = next((entry.action.ref for entry in reversed(ours) if entry.action.ref), None)
        if ref is not None and ref not in now.tabs:
            # A user has deleted it, and is not to get it back every hour.
            continue
        if not raters:
            if ours:
                found.append(_release(ours, target, "no rater is on the list any more"))
            continue
        after = {"title": title, "filters": _filters(raters)}
        named = tuple(map(str, raters))
        reason = f"tasks answered by {counted(len(raters), f'{which} rater')}"
        if ref is None:
            # A user's own tab that is the same does as well, and is not ours to remove.
            if (title, after["filters"]) not in now.tabs.values():
                found.append(Action("tab", target, reason, None, after, raters=named))
        elif now.tabs[ref][1] != after["filters"]:
            before = {"title": now.tabs[ref][0], "filters": now.tabs[ref][1]}
            found.append(Action("tab", target, reason, before, after, ref, raters=named))
    return found


def _filters(raters: list[int]) -> dict[str, Any]:
    """Tasks that any of these answered; the value must be a number, a list gives an error 500."""
    one = {"filter": "filter:tasks:annotators", "operator": "contains", "type": "List"}
    return {"conjunction": "or", "items": [{**one, "value": rater} for rater in raters]}


# -- raters who are paused, on Enterprise


def _pauses(now: ServerState, goals: FeedbackGoals, past: _Past) -> list[Action]:
    if not now.enterprise:
        return []
    found = [
        Action("pause", f"rater {rater}", reason, None, {"rater": rater}, raters=(rater,))
        for rater, reason in goals.excluded.items()
        if rater.isdigit() and rater not in now.paused and ("pause", f"rater {rater}") not in past
    ]
    found += [
        _release(ours, target, "no longer excluded")
        for (kind, target), ours in past.items()
        if kind == "pause" and target.removeprefix("rater ") not in goals.excluded
    ]
    return found


# -- what to serve next


def _not_predicted(now: ServerState, goals: FeedbackGoals) -> str | None:
    if goals.sampling:
        return None
    if now.sampling != UNCERTAINTY:
        return (
            f"the project's sampling is {now.sampling!r}, so its tasks are not served by their "
            "expected information; bbq push --uncertainty-sampling switches it"
        )
    if now.model_version not in ("", SERVED) and not now.own_model:
        return (
            f"the project serves its tasks by the predictions of {now.model_version!r}, which "
            "are not changed; --uncertainty-sampling replaces them"
        )
    return None


def _predictions(
    now: ServerState, goals: FeedbackGoals, past: _Past, again: Collection[int | None]
) -> list[Action]:
    """The most informative open tasks, and only these, get a score.

    With several raters Label Studio draws at random among the tasks that have a score, so a
    score on every task would serve them in any order.
    """
    queued = [
        (inf if bits is None else bits, task)
        for task in now.tasks
        # Whether it waits for an answer, now or once this plan is applied.
        if task.items and (not task.is_labeled or task.id in again)
        for bits in [goals.information_bits(task.items)]
    ]
    queued.sort(key=lambda one: (-one[0], one[1].id))
    chosen = {task.id: bits for bits, task in queued[: goals.n_informative]}
    # A task that waits for no answer is not served, whatever its score.
    scored = [
        _prediction(task, chosen.get(task.id), past)
        for task in now.tasks
        if not task.is_labeled or task.id in again
    ]
    found = [action for action in scored if action is not None]
    wanted = {"model_version": SERVED, "sampling": UNCERTAINTY}
    have = {"model_version": now.model_version, "sampling": now.sampling}
    if chosen and have != wanted:
        reason = "serve the tasks with the highest expected information first"
        found.append(Action("project", "project", reason, have, wanted))
    return found


def served_score(bits: float) -> float:
    """A score by expected information: 0 for a bit and more, 1 for a billionth; lowest first.

    Three digits of the logarithm tell apart what differs by 2%, however little it is; what moves
    by less is not written again.
    """
    return 1.0 if bits <= 1e-9 else round(min(1.0, max(0.0, -log10(bits) / 9)), 3)


def _prediction(task: ServerTask, bits: float | None, past: _Past) -> Action | None:
    target = f"prediction for task {task.id}"
    ours = past.get(("predict", target), [])
    ref = next((entry.action.ref for entry in reversed(ours) if entry.action.ref), None)
    if ref is not None and ref not in task.predictions:
        return None
    if bits is None:
        if ref is None or task.predictions[ref][0] == RETIRED:
            return None
        version, score = task.predictions[ref]
        before = {"model_version": version, "score": score}
        after = {"model_version": RETIRED, "score": score, "task": task.id}
        return Action("predict", target, "no longer among the most informative", before, after, ref)
    # The lowest score is served first.
    after = {"model_version": SERVED, "score": served_score(bits)}
    reason = (
        "shows an item that has no comparison yet"
        if bits == inf
        else f"expected information: {1000 * bits:.1f} millibits"
    )
    written = {**after, "task": task.id}
    if ref is None:
        # One that this store knows nothing of was made from another: a second would be served too.
        return None if task.predictions else Action("predict", target, reason, None, written)
    version, score = task.predictions[ref]
    before = {"model_version": version, "score": score}
    if before == after:
        return None
    return Action("predict", target, reason, before, written, ref)


# -- new tasks, as a file to import


def import_tasks(asked: PairTasks) -> str:
    """One task for each pair, with the items' names where the adapter's option `items` finds them.

    Two keys name the item shown first and the other; one key is a list, or a field of its entries
    (`images.model`). Dots stand for nested data. With `scores` each task has a prediction without
    a result, so that a project that serves the lowest prediction score first serves it in order.
    """
    keys, rater_key, scores = asked.keys, asked.rater_key, asked.scores
    _check_keys(keys, rater_key)
    tasks = []
    for number, pair in enumerate(asked.pairs):
        data: dict[str, Any] = {}
        if len(keys) == 2:
            for key, name in zip(keys, pair, strict=True):
                _put(data, key, name)
        else:
            key, _, field_name = keys[0].rpartition(".")
            # A control knows the entries of its list by their ids.
            entries = [{"id": str(at), field_name: name} for at, name in enumerate(pair, start=1)]
            _put(data, key or field_name, entries if key else list(pair))
        if rater_key is not None:
            _put(data, rater_key, asked.raters[number])
        task: dict[str, Any] = {"data": data}
        if scores is not None:
            prediction = {"model_version": IMPORTED, "score": scores[number], "result": []}
            task["predictions"] = [prediction]
        tasks.append(task)
    return msgspec.json.format(msgspec.json.encode(tasks), indent=2).decode() + "\n"


def _check_keys(keys: Sequence[str], rater_key: str | None) -> None:
    used = [*keys, rater_key] if rater_key is not None else [*keys]
    if len(keys) not in (1, 2):
        raise UsageError(f"keys={keys!r}: give two keys, left and right, or one that is a list")
    for key in used:
        if not key or not all(part.strip() for part in key.split(".")):
            raise UsageError(f"{key!r} is no key of task data; give a name such as model_left")
    for key in used:
        inside = [other for other in used if other is not key and f"{other}.".startswith(f"{key}.")]
        if inside:
            raise UsageError(f"{key!r} and {inside[0]!r} are the same place; give each its own")


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
    data[last] = value
