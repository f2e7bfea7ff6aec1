"""Verdicts and a ticket's disposition."""

import itertools

import pytest
from pydantic import ValidationError

from worker.decision.policy import NO_POLICY, Verdict, most_cautious


def verdicts(*dispositions: str) -> list[Verdict]:
    return [Verdict.model_validate({"disposition": d, "reasons": ()}) for d in dispositions]


@pytest.mark.parametrize(
    ("dispositions", "expected"),
    [
        (["accept"], "accept"),
        (["accept", "accept"], "accept"),
        (["accept", "review"], "review"),
        (["review", "abstain"], "abstain"),
        (["accept", "abstain"], "abstain"),
        (["accept", "review", "abstain"], "abstain"),
    ],
)
def test_the_most_cautious_verdict_decides(dispositions: list[str], expected: str) -> None:
    """Abstain beats review beats accept, in whatever order the verdicts come."""
    orders = itertools.permutations(dispositions)

    assert {expected} == {most_cautious(iter(verdicts(*order))) for order in orders}


def test_without_a_policy_nothing_is_accepted() -> None:
    """A score becomes an action only through a written policy."""
    assert ("review", ("no_policy",), None) == (
        NO_POLICY.disposition,
        NO_POLICY.reasons,
        NO_POLICY.threshold,
    )


def test_a_disposition_is_one_of_three() -> None:
    """There is no fourth thing to do with an answer."""
    with pytest.raises(ValidationError):
        verdicts("ignore")
