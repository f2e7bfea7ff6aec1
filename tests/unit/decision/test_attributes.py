"""The SNS message attributes of an outcome."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import (
    make_choice,
    make_noul,
    make_outcome,
    make_score,
    make_scored,
)
from worker.decision.attributes import Attribute, outcome_attributes

# What SNS takes as a name, and the characters that SQS and SNS take in a value.
NAME = re.compile(r"(?!aws|amazon)(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)", re.IGNORECASE)
ALLOWED = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


def choice_of(name: str) -> Any:
    return make_scored(make_choice(criteria={name: None}), 1.0)


def attributes(**answers: Any) -> dict[str, Attribute]:
    return outcome_attributes(make_outcome(answers=answers))


def test_a_decided_outcome() -> None:
    """Status, disposition, model and the answers by type: choice as text, the rest as numbers."""
    found = attributes(
        desk=make_scored(make_choice(), 0.9, 0.1),
        heat=make_scored(make_score(), 0.45, 0.5, 0.05),
        refund=make_scored(make_noul(), 2 / 3, 1 / 3),
    )

    assert {
        "status": Attribute("String", "decided"),
        "disposition": Attribute("String", "review"),
        "model": Attribute("String", "tiny"),
        "answer.desk": Attribute("String", "money"),
        "answer.heat": Attribute("Number", "0.60000"),
        "answer.refund": Attribute("Number", "0.66667"),
    } == found


def test_a_rejection_has_no_disposition() -> None:
    """A rejection can be told apart, and carries neither disposition nor answers."""
    outcome = make_outcome(status="rejected", answers=None, disposition=None)

    assert {
        "status": Attribute("String", "rejected"),
        "model": Attribute("String", "tiny"),
    } == outcome_attributes(outcome)


def test_at_most_three_answers_are_carried() -> None:
    """The first three in request order; raw delivery to SQS drops what has more than ten."""
    found = attributes(**{f"q{n}": make_scored(make_noul(), 0.5, 0.5) for n in range(20)})

    assert ["answer.q0", "answer.q1", "answer.q2"] == [
        name for name in found if name.startswith("answer.")
    ]
    assert len(found) <= 10


@pytest.mark.parametrize("question_id", ["a.b", "a b", "ü", "😀", "x" * 250, "a\n", "a/b", ":"])
def test_ids_that_sns_refuses_are_skipped(question_id: str) -> None:
    """One odd id must not cost the whole message: it is left out, and others move up."""
    noul = make_scored(make_noul(), 0.5, 0.5)
    found = attributes(**{"one": noul, question_id: noul, "two": noul, "three": noul})

    assert ["answer.one", "answer.two", "answer.three"] == list(found)[-3:]
    assert f"answer.{question_id}" not in found


@pytest.mark.parametrize("question_id", ["A-z_09", "-", "AWS", "x" * 249])
def test_ids_that_sns_takes_are_carried(question_id: str) -> None:
    """Letters, digits, hyphen and underscore, up to a name of 256 characters."""
    found = attributes(**{question_id: make_scored(make_noul(), 0.5, 0.5)})

    assert f"answer.{question_id}" in found


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.0, "0.00000"),
        (1.0, "1.00000"),
        (1e-9, "0.00000"),
        (0.123456, "0.12346"),
        (0.999999, "1.00000"),
    ],
)
def test_numbers_have_five_decimals(number: float, expected: str) -> None:
    """Filter policies compare numbers to five decimals, never in scientific notation."""
    found = attributes(q=make_scored(make_noul(), number, 1 - number))

    assert Attribute("Number", expected) == found["answer.q"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("Größe 😀", "Größe 😀"),
        ("a\x00b\x1fc", "abc"),
        ("tab\there", "tab\there"),
        ("\x00", "-"),
        (" ", "-"),
        (" a ", "a"),
        ("x" * 300, "x" * 256),
    ],
)
def test_a_choice_is_a_value_that_sns_takes(option: str, expected: str) -> None:
    """Characters that SNS refuses are left out; a value is never empty and not too long."""
    assert Attribute("String", expected) == attributes(q=choice_of(option))["answer.q"]


names = st.text(st.characters(codec="utf-8", exclude_characters="\ufffe\uffff"), min_size=1)
ids = names | st.from_regex(r"[A-Za-z0-9_-]{1,250}", fullmatch=True)


@given(st.dictionaries(ids, names, min_size=1, max_size=12))
def test_every_attribute_is_one_that_sns_takes(options: dict[str, str]) -> None:
    """Whatever questions and options are called, names, values and their number are valid."""
    answers = {question_id: choice_of(name) for question_id, name in options.items()}
    found = attributes(**answers)

    assert len(found) <= 10
    assert all(NAME.fullmatch(name) for name in found)
    assert all(ALLOWED.fullmatch(attribute.value) for attribute in found.values())


@pytest.mark.parametrize("character", ["\ufffe", "\uffff"])
def test_noncharacters_are_left_out(character: str) -> None:
    """SQS and SNS take U+E000 to U+FFFD, so the last two of the plane are refused."""
    assert "ab" == attributes(q=choice_of(f"a{character}b"))["answer.q"].value
