"""What looks wrong with a question set."""

from typing import Any

import pytest

from worker.decision.question_set import QuestionSet
from worker.quality.lint import lint

GOOD = {
    "team": {
        "type": "choice",
        "instructions": "Who handles this?",
        "criteria": {"billing": "invoices", "tech": "crashes", "none": None},
    },
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "furious"]},
    "refund": {"type": "noul", "instructions": "Is money wanted back?"},
}


def rules(questions: dict[str, Any], labels: int | None = None) -> list[tuple[str, bool]]:
    one = QuestionSet.model_validate({"name": "desk", "version": 1, "questions": questions})
    return [(finding.rule, finding.is_error) for finding in lint(one, labels=labels)]


def choice(**criteria: str | None) -> dict[str, Any]:
    return {"q": {"type": "choice", "instructions": "Which?", "criteria": criteria}}


def test_a_good_set_has_no_findings() -> None:
    """Nothing is said about what is well written."""
    assert [] == rules(GOOD, labels=3)


@pytest.mark.parametrize(
    ("questions", "labels", "expected"),
    [
        (choice(bill=None, Billing=None, other=None), None, ("option_is_prefix", False)),
        (choice(a=None, b=None, c=None), None, ("no_way_out", False)),
        (
            choice(a="Same thing", b="same thing ", none=None),
            None,
            ("duplicated_description", True),
        ),
        (choice(a=None, b=None, none_of_these=None), 2, ("too_many_options", True)),
        (
            {"q": {"type": "score", "instructions": "How?", "criteria": ["low", "low"]}},
            None,
            ("duplicated_description", True),
        ),
        ({**GOOD, "again": GOOD["refund"]}, None, ("duplicated_question", True)),
        (
            {"q": {"type": "choice", "criteria": {"a": "x", "b": "y"}}},
            None,
            ("no_instructions", False),
        ),
    ],
)
def test_each_rule(
    questions: dict[str, Any], labels: int | None, expected: tuple[str, bool]
) -> None:
    """A set with one fault has one finding; those that spoil every answer are errors."""
    assert [expected] == rules(questions, labels)


def test_findings_name_the_place_and_no_text() -> None:
    """A finding can be shown anywhere."""
    one = QuestionSet.model_validate(
        {"name": "desk", "version": 3, "questions": choice(a="secret", b="secret", none=None)}
    )
    (finding,) = lint(one)

    assert "desk@3: questions.q.criteria" == finding.where
    assert "options 1 and 2 have the same description" == finding.message
