"""The record of what each version asked."""

import pytest

from worker.decision.question_set import QuestionSet
from worker.errors import UsageError
from worker.quality.versions import check_versions, extend_record, read_record, write_record


def question_set(version: int = 1, instructions: str = "Is help wanted?") -> QuestionSet:
    question = {"type": "noul", "instructions": instructions}
    return QuestionSet.model_validate(
        {"name": "desk", "version": version, "questions": {"q": question}}
    )


def test_a_changed_wording_needs_a_new_version() -> None:
    """The same version with other words is an error that names the next version."""
    record = extend_record({}, [question_set()])
    (finding,) = check_versions([question_set(instructions="Is help needed?")], record)

    assert ("version_not_raised", True) == (finding.rule, finding.is_error)
    assert "raise it to 2" in finding.message
    assert [] == check_versions([question_set()], record)


def test_a_new_version_is_to_be_recorded() -> None:
    """It is no error, and recording it keeps what was recorded before."""
    record = extend_record({}, [question_set()])
    new = question_set(2, "Is help needed?")
    (finding,) = check_versions([new], record)
    extended = extend_record(record, [new])

    assert ("not_recorded", False) == (finding.rule, finding.is_error)
    assert ["desk@1", "desk@2"] == list(read_record(write_record(extended)))
    assert record["desk@1"] == extended["desk@1"]


def test_recording_changes_no_version() -> None:
    """What was recorded stays, whatever the file says now."""
    record = extend_record({}, [question_set()])

    assert record == extend_record(record, [question_set(instructions="Other?")])


def test_a_broken_record_is_refused_with_its_line() -> None:
    """Nobody's version is forgotten because of a merge gone wrong."""
    with pytest.raises(UsageError, match="line 2 is not"):
        read_record("# fine\n<<<<<<< HEAD\n")
