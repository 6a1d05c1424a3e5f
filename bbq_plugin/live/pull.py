"""A pull: the answers of a project into the store, page by page.

Each page is stored in one transaction with the place it ends at.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bbq_plugin.data.records import Comparison, row_counts
from bbq_plugin.live.event_ingest import bound_questions, studied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from bbq_plugin.data.records import Record, TaskRef
    from bbq_plugin.protocols import Project, TaskPage
    from bbq_plugin.store import Change
    from bbq_plugin.store.project_sync import Memory
    from bbq_plugin.store.studies import Named
    from bbq_plugin.store.transaction import Transaction


@dataclass
class Pulled:
    """What a pull has done so far."""

    n_tasks: int = 0
    n_total: int = 0
    n_pages: int = 0
    n_new: int = 0
    n_changed: int = 0
    n_retracted: int = 0
    n_skipped: int = 0


def pull(
    project: Project,
    memory: Memory,
    *,
    everything: bool = False,
    most_tasks: int | None = None,
    progress: Callable[[Pulled], object] | None = None,
    on_change: Callable[[Change], None] | None = None,
    alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    named: Named = lambda *_: None,
) -> Pulled:
    """Bring the store up to date; `on_change` gets what each page changed, once it is stored.

    Each question of the project has a study, which `named` may name. Both happen inside `alone()`,
    where others change the store as well. Interrupted at any moment, or after `most_tasks`, the
    next pull goes on after the last page that was stored.
    """
    done = Pulled()
    for page in project.pages(memory, everything=everything):
        with alone():
            with memory.store.transaction() as transaction:
                _store(page, transaction, memory, done, named)
            if on_change is not None:
                on_change(transaction.change)
        done.n_pages += 1
        done.n_tasks, done.n_total = page.n_done, max(page.n_total, page.n_done)
        if progress is not None:
            progress(done)
        if most_tasks is not None and done.n_tasks >= most_tasks:
            break
    return done


def _store(
    page: TaskPage, transaction: Transaction, memory: Memory, done: Pulled, named: Named
) -> None:
    for task in page.tasks:
        # An event may have told of an answer that is newer than the page.
        lost = sorted(memory.task_keys(task.task) - set(task.keys))
        done.n_retracted += transaction.retract(lost, None, as_of=task.at)[0]
    newer: dict[TaskRef, list[str]] = {}
    for gone in page.gone:
        # The id of an answer is not used twice: what was on a page and is deleted stays out. That
        # of a task may be (SQLite), and events may tell of the new task before this page is stored.
        paged = memory.page_keys(gone)
        done.n_retracted += transaction.retract(sorted(paged), None, for_good=True)[0]
        told = sorted(memory.told_keys(gone) - paged)
        n_retracted, newer[gone] = transaction.retract_known(told, page.last_id)
        done.n_retracted += n_retracted
    bound = bound_questions(transaction, page, str(memory.project), named=named)
    for study, records in studied(page, bound).items():
        _unbury(page, records, study, transaction)
        tally = transaction.add(
            records, "pull", memory.name, memory.store.clock(), study=study,
            adapter=memory.tool, wholes=False, counted=False,
        )  # fmt: skip
        done.n_new += tally.n_new
        done.n_changed += tally.n_changed
        done.n_retracted += tally.n_retracted
        counts = row_counts(records)
        done.n_skipped += counts.total() - counts[""]
        if not page.tasks:
            # All of the project is on this page.
            transaction.recount("pull", memory.name, study, counts, anew=True)
    memory.save_page(transaction, page.state, page.tasks, newer, bound)


def _unbury(
    page: TaskPage, records: Sequence[Record], study: int, transaction: Transaction
) -> None:
    """Answers that count again: the rater's later one, which stood in their place, was deleted.

    The server's word is newer than what was taken back before the task last changed.
    """
    as_of = {key: task.at for task in page.tasks for key in task.keys}
    again = {(record.slate or record.key) for record in records if isinstance(record, Comparison)}
    transaction.readmit(((key, as_of[key]) for key in again if key in as_of), study)
