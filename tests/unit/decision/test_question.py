"""Questions as System One asks them."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.factories import make_choice, make_noul, make_score
from worker.decision.question import Choice, Noul, Option, Question, Score

questions: TypeAdapter[Any] = TypeAdapter(Question)


def test_options_keep_the_order_of_the_request() -> None:
    """Order carries meaning: options are never sorted, structured text keeps its fields' order."""
    described = {"z": 1, "a": [2, None]}
    question = make_choice(criteria={"z": None, "a": described, "m": "text"})

    assert (Option("z", None), Option("a", described), Option("m", "text")) == question.options()
    assert ["z", "a"] == list(question.options()[1].description)


def test_levels_are_keyed_by_their_number() -> None:
    """The levels of a score run from low to high and are called "0", "1", and so on."""
    expected = (Option("0", "low"), Option("1", {"text": "high"}))

    assert expected == make_score(criteria=["low", {"text": "high"}]).options()


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        (None, (None, None)),
        ({}, (None, None)),
        ({"false": "no", "true": "yes"}, ("yes", "no")),
        ({"false": "no"}, (None, "no")),
        ({"true": None, "false": ["no"]}, (None, ["no"])),
    ],
)
def test_true_comes_first(criteria: Any, expected: tuple[Any, Any]) -> None:
    """A noul has two outcomes, true first, however many are described and in which order."""
    options = make_noul(criteria=criteria).options()

    assert ("true", "false") == tuple(option.key for option in options)
    assert expected == tuple(option.description for option in options)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"type": "choice", "criteria": {"only": None}}, Choice),
        ({"type": "choice", "criteria": {str(n): None for n in range(255)}}, Choice),
        ({"type": "choice", "instructions": None, "criteria": {"a": "x", "b": {}}}, Choice),
        ({"type": "choice", "instructions": {"q": "?"}, "criteria": {" ": None}}, Choice),
        ({"type": "score", "criteria": ["only"]}, Score),
        ({"type": "score", "criteria": ["same"] * 10}, Score),
        ({"type": "noul", "criteria": {"true": "it rains"}}, Noul),
        ({"type": "noul", "instructions": ["?"]}, Noul),
    ],
)
def test_what_system_one_allows_is_accepted(body: Any, kind: type) -> None:
    """One option, 255 options, ten levels, structured text and missing instructions are fine."""
    assert kind is type(questions.validate_python(body))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": "boolean", "instructions": "?"},
        {"type": "box"},
        {"type": "choice"},
        {"type": "choice", "criteria": {}},
        {"type": "choice", "criteria": None},
        {"type": "choice", "criteria": ["a", "b"]},
        {"type": "choice", "criteria": {"a": 1, "b": None}},
        {"type": "choice", "criteria": {"": None, "b": None}},
        {"type": "choice", "criteria": {str(n): None for n in range(256)}},
        {"type": "choice", "criteria": {"a": None}, "weight": 2},
        {"type": "choice", "instructions": 5, "criteria": {"a": None}},
        {"type": "score"},
        {"type": "score", "criteria": []},
        {"type": "score", "criteria": ["low", None]},
        {"type": "score", "criteria": {"0": "low"}},
        {"type": "score", "criteria": ["same"] * 11},
        {"type": "noul"},
        {"type": "noul", "instructions": ""},
        {"type": "noul", "criteria": {"true": None, "false": ""}},
        {"type": "noul", "instructions": "?", "criteria": {"maybe": "x"}},
        {"type": "noul", "instructions": True},
    ],
)
def test_what_nobody_can_answer_is_refused(body: Any) -> None:
    """Unknown types and fields, too few or too many options, and empty questions are refused."""
    with pytest.raises(ValidationError):
        questions.validate_python(body)


def test_a_question_cannot_be_changed() -> None:
    """A question is a value: what was validated stays as it was."""
    with pytest.raises(ValidationError, match="frozen"):
        make_noul().instructions = "another"
