"""Which answers belong together: those of one rater, and those on one prompt, scene or slate.

Answers that share something nobody modelled (a rater's taste, a scene that suits one item) tell
less than as many answers of their own. A *way* of clustering gives every row a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bbq_plugin.data.records import is_subject, is_task_number
from bbq_plugin.errors import UsageError, did_you_mean
from bbq_plugin.text import listed

if TYPE_CHECKING:
    from bbq_plugin.data.dataset import Comparisons


RATER, SLATE = "rater", "slate"
#: A tag with fewer values is no way of clustering that could be found without being named.
LEAST_FOUND = 8


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """One way of clustering: its name, and the cluster of each row, counted from 0."""

    name: str
    code: NDArray[np.int64] | NDArray[np.int32]

    @property
    def n(self) -> int:
        """How many clusters there are."""
        return int(self.code.max()) + 1 if self.code.size else 0


def checked_cluster(cluster: str | Sequence[str]) -> tuple[str, ...]:
    """``auto``, ``none`` or names of tags as `clusters_of` takes them."""
    given = cluster.split(",") if isinstance(cluster, str) else cluster
    names = tuple(dict.fromkeys(name.strip() for name in given if isinstance(name, str)))
    if not names or len(names) < len(set(given)) or not all(names):
        raise UsageError(
            f"cluster={cluster!r}: expected 'auto', 'none' or names of tags, such as 'rater,scene'"
        )
    for word in ("auto", "none"):
        if word in names and len(names) > 1:
            raise UsageError(f"cluster={cluster!r}: {word!r} stands alone")
    return names


def clusters_of(data: Comparisons, wanted: tuple[str, ...]) -> list[Clusters]:
    """The ways of clustering these answers, of at most two kinds; none of them has one cluster."""
    if wanted == ("none",):
        return []
    if wanted == ("auto",):
        names = [RATER] if data.n_raters > 1 else []
        found = found_tag(data)
        names += [] if found is None else [found]
    else:
        names = list(wanted)
        if len(names) > 2:
            raise UsageError(
                f"cluster={','.join(names)}: at most two, such as 'rater,scene'; "
                "a way inside another one adds nothing"
            )
    ways = [Clusters(name, _codes(data, name)) for name in names]
    return [way for way in ways if way.n > 1]


def _codes(data: Comparisons, name: str) -> NDArray[np.int64] | NDArray[np.int32]:
    if name in data.tags:
        return _apart(data.tags[name])
    if name == RATER and data.has_raters:
        return data.rater
    if name == SLATE and data.answers is not None and data.answers.slate is not None:
        return _apart(np.where(data.answers.slate == 0, -1, data.answers.slate))
    known = [*([RATER] if data.has_raters else []), *data.tags]
    has = f"the data have: {listed(known)}" if known else "the data have no raters and no tags"
    raise UsageError(f"cluster={name}: there is no such tag{did_you_mean(name, known, has)}")


def _apart(code: NDArray[Any]) -> NDArray[np.int64]:
    """Codes from 0 on; a row without a value (below 0) is a cluster of its own."""
    alone = code == -1
    _, dense = np.unique(code, return_inverse=True)
    dense = dense.astype(np.int64).ravel()
    if alone.any():
        dense[alone] = dense.max() + 1 + np.arange(int(alone.sum()))
        _, dense = np.unique(dense, return_inverse=True)
    return np.asarray(dense, dtype=np.int64)


def found_tag(data: Comparisons) -> str | None:
    """The only tag that names what a question was about and repeats; None if there are several.

    It has at least LEAST_FOUND values, nearly every answer has one, and each comes on average
    twice or more, from several raters. The number of a task counts where nothing else does: tasks
    may share their prompt.
    """
    likely = [name for name, code in data.tags.items() if is_subject(name) and _repeats(data, code)]
    found = [name for name in likely if not is_task_number(name)] or likely
    return found[0] if len(found) == 1 else None


def _repeats(data: Comparisons, code: NDArray[np.int32]) -> bool:
    there = code >= 0
    if there.mean() < 0.95:
        return False
    value, rater = code[there].astype(np.int64), data.rater[there]
    n = np.unique(value).size
    if n < LEAST_FOUND or n * 2 > value.size:
        return False
    if not data.has_raters:
        return True
    pairs = np.unique(value * max(1, data.n_raters) + rater).size
    return bool(pairs >= 1.5 * n)
