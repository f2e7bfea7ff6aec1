"""What `submit` asks: checked as a worker would, before anything is sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.factories import QUESTIONS
from worker.cli.submit import _fields
from worker.errors import UsageError

SECRET = "jane-doe"


def fields(**options: Any) -> dict[str, Any]:
    return _fields({"questions": None, "question_set": None, "metadata": ()} | options)


def refusal(**options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        fields(**options)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_questions_are_read_from_json_and_yaml(tmp_path: Path) -> None:
    """Alone or under their key, in their order; a question may itself be called questions."""
    alone = write(tmp_path / "a.json", json.dumps(QUESTIONS))
    keyed = write(tmp_path / "b.yaml", json.dumps({"state": "x", "questions": QUESTIONS}))
    called = write(tmp_path / "c.json", json.dumps({"questions": QUESTIONS["refund"]}))

    assert {"questions": QUESTIONS} == fields(questions=alone) == fields(questions=keyed)
    assert {"questions": {"questions": QUESTIONS["refund"]}} == fields(questions=called)


def test_a_set_and_metadata_are_passed_on() -> None:
    """The worker has the set; a value may hold an equals sign."""
    expected = {"question_set": "triage@2", "metadata": {"a": "b=c", "d": ""}}

    assert expected == fields(question_set="triage@2", metadata=("a=b=c", "d="))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.yaml", "a: {b\n", "q.yaml: line 2 column 1: "),
        ("q.json", '{"a": 1, "a": 2}', "the object repeats a key"),
        ("q.json", "[]", "questions"),
        ("q.json", "{}", "questions: must not be empty"),
        ("q.yaml", "q: {type: choice, criteria: {no: 1}}", "questions.q.criteria.no"),
        ("q.yaml", "q: {type: choice}", "questions.q.criteria"),
        ("q.yaml", f"q: {{type: {SECRET}}}", "questions.q: type must be one of"),
    ],
)
def test_wrong_questions_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    """With the place, and before a thousand tickets are rejected for it."""
    assert message in refusal(questions=write(tmp_path / name, text))


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    """One of set and questions; metadata as a ticket takes it; a file that is there."""
    too_many = tuple(f"k{n}=v" for n in range(17))
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"\xfc")

    assert "one of --question-set and --questions" in refusal()
    assert "one of" in refusal(question_set="x", questions=latin)
    assert "KEY=VALUE" in refusal(question_set="x", metadata=("=v",))
    assert "metadata" in refusal(question_set="x", metadata=too_many)
    assert "not UTF-8 at byte 0" in refusal(questions=latin)
    assert "cannot read" in refusal(questions=tmp_path / "none.yaml")
