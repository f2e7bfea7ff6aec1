"""What people decided: how it is told, and what becomes of the answers."""

import json
from typing import Any

import pytest

from tests.factories import make_choice, make_noul, make_outcome, make_score, make_scored
from worker.decision.feedback import Feedback, parse_feedback
from worker.errors import Rejected
from worker.metrics import REGISTRY
from worker.overrides import OTHER, REMEMBERED_TICKETS, Overrides

SECRET = "jane-doe"
OUTCOME = make_outcome(
    answers={
        "desk": make_scored(make_choice(), 0.9, 0.1),
        "heat": make_scored(make_score(), 0.1, 0.2, 0.7),
        "refund": make_scored(make_noul(), 0.5, 0.5),
    }
)


def told(**fields: Any) -> Feedback:
    tree = {"ticket_id": "t-1", "question": "desk", "decided": "money"} | fields
    return parse_feedback(json.dumps(tree))


def overrides() -> Overrides:
    found = Overrides(lambda: frozenset(("desk", "heat", "refund")))
    found.note(OUTCOME)
    return found


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [("desk", "money", "tech"), ("heat", 2, "0"), ("refund", True, "false")],
)
def test_an_answer_is_upheld_or_overturned(question: str, right: Any, wrong: Any) -> None:
    """Levels by number and truth values as JSON has them, or as distributions name them."""
    assert "upheld" == overrides().take(told(question=question, decided=right))
    assert "overturned" == overrides().take(told(question=question, decided=wrong))


def test_it_is_counted_by_question_and_disposition() -> None:
    """Once, however often the message comes; a person may change her mind."""
    found = overrides()
    labels = {"question": "desk", "disposition": "review", "result": "overturned"}
    before = REGISTRY.get_sample_value("decision_feedback_total", labels) or 0
    results = [found.take(told(decided=decided)) for decided in ("tech", "tech", "money", "tech")]

    assert ["overturned", "repeated", "upheld", "overturned"] == results
    assert 2 == REGISTRY.get_sample_value("decision_feedback_total", labels) - before
    assert {"desk": {"overturned": 2, "upheld": 1}} == found.told()


def test_the_message_can_tell_what_was_answered() -> None:
    """By whichever worker, and before whatever restart; what is remembered here counts more."""
    found = overrides()
    by_message = told(ticket_id="t-2", answer="tech", disposition="accept")

    assert "overturned" == found.take(by_message)
    assert "repeated" == found.take(by_message)
    assert "upheld" == found.take(told(answer="tech"))
    assert "unknown" == found.take(told(ticket_id="t-3"))


def test_questions_of_no_set_share_one_name() -> None:
    """Tickets may bring any, and metrics must stay few."""
    found = Overrides()
    found.note(OUTCOME)
    found.take(told(decided="tech"))

    assert {OTHER: {"overturned": 1}} == found.told()


def test_only_so_many_tickets_are_remembered() -> None:
    """The oldest are forgotten first."""
    found = overrides()
    for number in range(REMEMBERED_TICKETS):
        found.note(make_outcome(ticket_id=f"more-{number}"))

    assert "unknown" == found.take(told())
    assert "upheld" == found.take(told(ticket_id="more-0"))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"ticket_id": ""}, "ticket_id"),
        ({"ticket_id": "x" * 129}, "ticket_id"),
        ({"question": 7}, "question"),
        ({"decided": None}, "decided"),
        ({"decided": 0.5}, "decided"),
        ({"decided": ""}, "decided"),
        ({"disposition": SECRET}, "disposition"),
    ],
)
def test_what_is_no_feedback_is_named_by_its_place(change: dict[str, Any], where: str) -> None:
    """Without a word of it."""
    with pytest.raises(Rejected) as caught:
        told(**change)
    assert "invalid_feedback" == caught.value.code
    assert caught.value.where.startswith(where)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("body", ["", "[]", "{", '{"ticket_id": "a", "ticket_id": "b"}'])
def test_what_is_no_object_is_refused(body: str) -> None:
    """As strictly as tickets."""
    with pytest.raises(Rejected):
        parse_feedback(body)
