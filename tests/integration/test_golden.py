"""Golden outcomes: a change of prompt, label or formula shows as a diff of a file."""

import pytest

from tests.golden.answers import outcome_of
from tests.golden.cases import COMMAND, Case, differences, read_cases

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.stem)
async def test_an_outcome_is_still_what_it_was(case: Case) -> None:
    """In every field but timings, runtime and hardware; numbers within 1e-5."""
    found = list(differences(case.outcome, await outcome_of(case)))

    assert [] == found, "\n".join([f"if it is meant, run {COMMAND} and read the diff:", *found])


def test_a_difference_is_told_with_its_place() -> None:
    """In a number beyond the tolerance, a word, a missing field, an order, a length."""
    tree = {"answers": {"q": {"noul": 0.5}}, "reasons": ["a", "b"], "status": "decided"}
    others = [
        tree | {"answers": {"q": {"noul": 0.50002}}},
        tree | {"status": "rejected"},
        {"answers": tree["answers"], "reasons": ["a", "b"]},
        dict(reversed(tree.items())),
        tree | {"reasons": ["a"]},
        tree | {"reasons": ["a", "c"]},
    ]
    places = [[line.partition(":")[0] for line in differences(tree, one)] for one in others]

    assert [
        ["outcome.answers.q.noul"],
        ["outcome.status"],
        ["outcome"],
        ["outcome"],
        ["outcome.reasons"],
        ["outcome.reasons.1"],
    ] == places
    assert [] == list(differences(tree, tree | {"answers": {"q": {"noul": 0.500009}}}))


def test_the_golden_tickets_cover_what_outcomes_are_made_of() -> None:
    """Types of question, orders, structure, templates, every disposition, a rejection."""
    outcomes = [case.outcome for case in CASES]
    answers = [answer for one in outcomes for answer in one.get("answers", {}).values()]

    assert 10 <= len(CASES)
    assert {"choice", "score", "noul"} == {answer["type"] for answer in answers}
    assert {"accept", "review", "abstain"} == {one["verdict"]["disposition"] for one in answers}
    assert {"decided", "rejected"} == {one["status"] for one in outcomes}
    assert {str, dict, list} == {type(case.tree["ticket"]["state"]) for case in CASES}
    assert {"plain", "chat", "openjev", "lev", "nimble"} <= {case.tree["model"] for case in CASES}
    assert {None, 2, 3} == {one["provenance"]["prompt"].get("orders") for one in outcomes}
