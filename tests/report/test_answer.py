from __future__ import annotations

import pytest

import bbq_plugin as bbq
from bbq_plugin.data.dataset import Comparisons
from bbq_plugin.report.summary import Headline, Name, answer, name
from bbq_plugin.text import p_equals


def wins(**counts: int) -> list[tuple[str, str, str]]:
    """`ab=3`: a beats b three times."""
    return [("ann", pair[0], pair[1]) for pair, n in counts.items() for _ in range(n)]


def answer_to(records: list[tuple[str, str, str]], groups: int = 1) -> Headline:
    fit = bbq.fit(Comparisons.from_records(records), model="bayes-bt")
    return answer(bbq.leaderboard(fit), groups)


def test_a_clear_winner_of_two_is_named_with_its_probability() -> None:
    found = answer_to(wins(ab=90, ba=10))
    assert found.text() == "a is better than b, P > 0.99."
    assert found.settled


def test_two_that_are_alike_are_not_distinguishable() -> None:
    found = answer_to(wins(ab=11, ba=10))
    assert found.text().startswith(
        "a and b are not distinguishable at 95%. a is ahead, P(best) = 0.5"
    )
    assert not found.settled


def test_the_best_is_named_and_so_are_those_that_are_not_distinguishable() -> None:
    found = answer_to(wins(ab=90, ba=10, ac=90, ca=10, bc=50, cb=49))
    assert found.text() == "a is best, P > 0.99. b and c are not distinguishable."


def test_a_full_order_is_called_decided() -> None:
    found = answer_to(wins(ab=90, ba=10, ac=95, ca=5, bc=90, cb=10))
    assert found.text() == "a is best, P > 0.99. The order of the other 2 items is decided."


def test_that_nothing_is_decided_is_said() -> None:
    found = answer_to(wins(ab=2, ba=1, bc=2, cb=1, ca=1, ac=1))
    assert "".join(found.headline) == (
        "Nothing is decided yet: none of the 3 items is distinguishable from the others."
    )


def test_two_open_pairs_are_both_named() -> None:
    levels = [(x, y) for x, y in ("ab", "ac", "ad", "ae", "bd", "be", "cd", "ce")]
    clear = [pair for x, y in levels for pair in wins(**{x + y: 90, y + x: 10})]
    found = answer_to([*clear, *wins(bc=55, cb=50, de=55, ed=50)])
    assert found.text() == "a is best, P > 0.99. b and c are not distinguishable, nor are d and e."


def test_a_tie_at_the_top_of_many_is_counted_and_not_listed() -> None:
    pairs = [(a, b) for a in "abcdef" for b in "abcdef" if a != b]
    records = [("ann", a, b) for a, b in pairs for _ in range(5)]
    records += [("ann", a, "z") for a in "abcdef" for _ in range(40)]
    assert "".join(answer_to(records).headline) == (
        "a, b, c and 3 more are not distinguishable at 95%."
    )


def test_groups_that_never_met_have_no_common_best() -> None:
    found = answer_to(wins(ab=90, cd=80), groups=2)
    assert found.text().startswith("There is no overall best item: the items form 2 groups")
    assert not found.settled


def test_names_in_a_sentence_are_harmless_and_marked_as_names() -> None:
    found = name("a\u202eb")
    assert found == "a\\u202eb"
    assert isinstance(found, Name)


@pytest.mark.parametrize(
    ("p", "said"), [(1.0, "> 0.99"), (0.9949, "= 0.99"), (0.5, "= 0.50"), (0.0, "< 0.01")]
)
def test_nothing_estimated_is_certain(p: float, said: str) -> None:
    assert p_equals(p) == said
