"""The worker's own wording."""

import pytest

from tests.factories import make_choice, make_noul, make_prompt, make_score, make_wording
from worker.errors import Rejected

QUESTIONS = {"a": make_choice(), "b": make_score(), "c": make_noul()}


def test_as_given_unless_asked_otherwise() -> None:
    """One view of each question, labels in order; the probes are the prompt's."""
    worded = make_wording().word({"mail": "x"}, QUESTIONS)

    assert make_prompt().probes('{"mail": "x"}') == worded.probes
    assert [((0, 1),), ((0, 1, 2),), ((0, 1),)] == [
        tuple(view.order for view in asked.views) for asked in worded.questions
    ]
    assert ((100,), (101,), (102,)) == worded.questions[1].views[0].labels


def test_orders_are_for_all_but_scales() -> None:
    """Levels are shown from low to high, as the prompt says they are."""
    worded = make_wording().word("x", QUESTIONS, 2)

    assert [2, 1, 2] == [len(asked.views) for asked in worded.questions]
    shown = [view.prompt[1].text for view in worded.questions[0].views]
    assert "A. money: invoices\nB. tech\n" in shown[0]
    assert "A. tech\nB. money: invoices\n" in shown[1]


def test_too_many_options_are_rejected_with_their_place() -> None:
    """The question's criteria."""
    with pytest.raises(Rejected) as caught:
        make_wording(2).word("x", QUESTIONS)

    assert ("too_many_options", "questions.b.criteria") == (caught.value.code, caught.value.where)
