"""Labelled cases: what a file of them says, and what is wrong with which line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.factories import make_choice, make_noul, make_score
from worker.errors import UsageError
from worker.quality.cases import load_cases
from worker.quality.expected import NoOption, option_index

QUESTIONS = {"desk": make_choice(), "heat": make_score(), "refund": make_noul()}


def write(path: Path, *lines: Any) -> Path:
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(text) + "\n")
    return path


def test_a_line_holds_a_state_and_the_right_answers(tmp_path: Path) -> None:
    """By question; one may be missing, and what has no id is called by its line."""
    path = write(
        tmp_path / "cases.jsonl",
        {"id": 7, "state": "a", "answers": {"desk": "tech", "heat": 2, "refund": True}},
        "",
        {"state": {"mail": "b"}, "answers": {"desk": None, "heat": "annoyed", "refund": "No"}},
        {"state": "c"},
    )
    steps: list[int] = []
    cases = load_cases(path, QUESTIONS, on_step=steps.append)
    assert [
        ("7", "a", {"desk": 1, "heat": 2, "refund": 0}),
        ("cases.jsonl:3", {"mail": "b"}, {"heat": 1, "refund": 1}),
        ("cases.jsonl:4", "c", {}),
    ] == [(case.case_id, case.state, case.expected) for case in cases]
    assert 3 == sum(steps)


def test_a_table_has_a_column_for_each_question(tmp_path: Path) -> None:
    """Called by the question, or ``answer.`` and the question as in collected tables."""
    path = write(
        tmp_path / "cases.csv",
        "id;text;answer.desk;refund;note",
        "x;hello;money;yes;",
        ";again;;false;odd",
    )
    cases = load_cases(path, QUESTIONS, column="text")
    assert [
        ("x", "hello", {"desk": 0, "refund": 0}),
        ("cases.csv:2", "again", {"refund": 1}),
    ] == [(case.case_id, case.state, case.expected) for case in cases]


def test_two_columns_for_one_question_must_agree(tmp_path: Path) -> None:
    """A blank one says nothing; the fault is named by the line of the file."""
    path = write(
        tmp_path / "cases.csv",
        "state,desk,answer.desk",
        '"a\nb",money,money',
        "c,tech,",
        "d,tech,money",
    )

    with pytest.raises(UsageError) as caught:
        load_cases(path, QUESTIONS)
    assert "cases.csv:5: answer.desk and desk: are two answers to one question" == str(caught.value)


def test_a_table_that_breaks_off_is_named(tmp_path: Path) -> None:
    """With the line on which the row begins that has no end."""
    path = write(tmp_path / "cases.csv", "state,desk", '"a\nb",money', '"c,tech', "d,tech")

    with pytest.raises(UsageError, match=r"^cases.csv:4: is not CSV from here on: "):
        load_cases(path, QUESTIONS)


def test_what_is_wrong_is_named_by_line_and_place(tmp_path: Path) -> None:
    """All of it, up to twenty lines, without a word of the state or of the answer."""
    path = write(
        tmp_path / "cases.jsonl",
        {"id": "x", "state": "secret", "answers": {"desk": "hidden"}},
        "{",
        {"state": ""},
        {"state": "secret", "answers": {"other": "hidden"}},
        {"id": "y", "state": "secret", "answers": {"heat": 3}},
        {"id": "z", "state": "fine"},
        {"id": "z", "state": "fine"},
    )
    with pytest.raises(UsageError) as caught:
        load_cases(path, QUESTIONS)
    message = str(caught.value)
    assert [1, 2, 3, 4, 5, 7] == [
        int(part.split(":")[1]) for part in message.split("; ") if part.startswith("cases")
    ]
    assert "cases.jsonl:1: answers.desk: is none of the 2 options" in message
    assert "cases.jsonl:5: answers.heat: must be a level from 0 to 2" in message
    assert "secret" not in message
    assert "hidden" not in message


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("cases.txt", "x", "cases are read from"),
        ("cases.csv", "text,desk\na,tech\n", "has no column state; it has text, desk"),
        ("cases.jsonl", "\n", "has no cases"),
    ],
)
def test_a_file_that_holds_no_cases_is_refused(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    """With what would be read instead."""
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=reason):
        load_cases(tmp_path / name, QUESTIONS)


@pytest.mark.parametrize(
    ("question", "value", "index"),
    [
        (make_choice(), " tech ", 1),
        (make_choice(criteria={"1": None, "2": None}), 2, 1),
        (make_score(), "2", 2),
        (make_score(criteria=["1", "0"]), "0", 1),
        (make_score(criteria=["1", "0"]), 0, 0),
        (make_noul(), "YES", 0),
        (make_noul(), False, 1),
        (make_noul(), "", None),
    ],
)
def test_an_answer_means_an_option(question: Any, value: Any, index: int | None) -> None:
    """A level's own text goes before its number."""
    assert index == option_index(question, value)


@pytest.mark.parametrize(
    ("question", "value"),
    [
        (make_choice(), True),
        (make_choice(), "Tech"),
        (make_score(), True),
        (make_score(), -1),
        (make_score(), 1.5),
        (make_noul(), 1),
        (make_noul(), "maybe"),
    ],
)
def test_an_answer_that_means_no_option_is_refused(question: Any, value: Any) -> None:
    """Nothing is guessed."""
    with pytest.raises(NoOption):
        option_index(question, value)
