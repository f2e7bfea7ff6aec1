"""Read labelled cases: states with the answers that are right."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker.decision.question import Question, Text
from worker.errors import UsageError
from worker.quality.expected import NoOption, option_index
from worker.records import Record, has_records, is_table, read_header, read_records

ANSWERS = "answers"
"""The field of a JSONL line that holds the answers by question."""

_ANSWER_COLUMN = "answer."
_ID = "id"
_SHOWN = 20
_LONGEST_ID = 128


@dataclass(frozen=True, slots=True)
class Case:
    """One state, with what is right about it.

    Attributes:
        case_id: unique in its file.
        state: what the questions are about.
        expected: the index of the right option by question; questions without one are left out.
    """

    case_id: str
    state: Text = field(repr=False)
    expected: Mapping[str, int]


def load_cases(
    path: Path,
    questions: Mapping[str, Question],
    *,
    column: str = "state",
    on_step: Callable[[int], None] = lambda _: None,
) -> list[Case]:
    """Read a file of labelled cases.

    A JSONL line is an object with the state, ``answers`` by question and, if it likes, an ``id``.
    A row of CSV or TSV has the answers in columns called ``answer.ID`` or ``ID`` for the question
    ``ID``. What has no id is called by its file and number.

    Args:
        path: a JSONL, CSV or TSV file.
        questions: that the cases have answers for.
        column: the field or column with the state.
        on_step: told that so many more records are read.

    Raises:
        UsageError: naming the lines that are wrong and why, up to twenty.
    """
    _check(path, column)
    cases: dict[str, Case] = {}
    faults: list[str] = []
    for record in read_records(path):
        place = f"{path.name}:{record.line}" if record.line is not None else path.name
        try:
            if not isinstance(record, Record):
                raise _Fault(record.reason)
            called = f"{path.name}:{record.number}"
            case = _case(record.value, called, questions, column)
            if case.case_id in cases:
                raise _Fault("another case has the same id")
            cases[case.case_id] = case
        except _Fault as fault:
            faults.append(f"{place}: {fault}")
        on_step(1)
    if not cases and not faults:
        raise UsageError(f"{path} has no cases")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise UsageError("; ".join(faults[:_SHOWN]) + more)
    return list(cases.values())


class _Fault(Exception):
    """Why a record is no case, without its text."""


def _check(path: Path, column: str) -> None:
    if not path.is_file():
        raise UsageError(f"{path} is no file")
    if not has_records(path):
        raise UsageError(f"{path}: cases are read from .jsonl, .ndjson, .csv and .tsv files")
    if is_table(path) and column not in (header := read_header(path)):
        raise UsageError(f"{path} has no column {column}; it has {', '.join(header)}")


def _case(tree: Any, called: str, questions: Mapping[str, Question], column: str) -> Case:
    if not isinstance(tree, dict):
        raise _Fault("must be an object")
    state = tree.get(column)
    if not isinstance(state, str | dict | list):
        raise _Fault(f"{column}: must be text, an object or an array")
    if not state or (isinstance(state, str) and not state.strip()):
        raise _Fault(f"{column}: is empty")
    answers = dict(_answers(tree, questions))
    return Case(_case_id(tree.get(_ID), called), state, answers)


def _case_id(given: Any, called: str) -> str:
    if given is None or given == "":
        return called
    is_number = isinstance(given, int) and not isinstance(given, bool)
    text = str(given) if is_number or isinstance(given, str) else ""
    if not text.strip() or len(text) > _LONGEST_ID:
        raise _Fault(f"{_ID}: must be text of 1 to {_LONGEST_ID} characters")
    return text


def _answers(
    tree: Mapping[str, Any], questions: Mapping[str, Question]
) -> Iterator[tuple[str, int]]:
    for key, (place, value) in _written(tree, questions).items():
        try:
            index = option_index(questions[key], value)
        except NoOption as fault:
            raise _Fault(f"{place}: {fault}") from None
        if index is not None:
            yield key, index


def _check_agrees(question: Question, one: tuple[str, Any], other: tuple[str, Any]) -> None:
    """Check that two columns that hold the answer to one question mean the same option."""
    try:
        indices = {option_index(question, one[1]), option_index(question, other[1])} - {None}
        agree = len(indices) <= 1
    except NoOption:
        agree = one[1] == other[1]  # what is wrong is told of the first
    if not agree:
        raise _Fault(f"{one[0]} and {other[0]}: are two answers to one question")


def _written(
    tree: Mapping[str, Any], questions: Mapping[str, Question]
) -> dict[str, tuple[str, Any]]:
    """Return place and text of each answer that is written, by question."""
    written = tree.get(ANSWERS)
    if written is None:
        found: dict[str, tuple[str, Any]] = {}
        for key in questions:
            for name in (f"{_ANSWER_COLUMN}{key}", key):
                if name in tree:
                    found.setdefault(key, (name, tree[name]))
                    _check_agrees(questions[key], found[key], (name, tree[name]))
        return found
    if not isinstance(written, dict):
        raise _Fault(f"{ANSWERS}: must be an object of answers by question")
    if unknown := [key for key in written if key not in questions]:
        raise _Fault(f"{ANSWERS}: there is no question {unknown[0]}")
    return {key: (f"{ANSWERS}.{key}", value) for key, value in written.items()}
