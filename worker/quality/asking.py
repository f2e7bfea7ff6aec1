"""What a run needs of whoever answers: this process's engine, or a server."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from worker.decision.question import Question, Text
from worker.decision.question_set import QuestionSet
from worker.decision.ticket import first_fault
from worker.errors import WorkerError
from worker.quality.run_file import Given, Source

_MOST_OFF = 0.06  # what the contract lets two decimals for each of several options add up to


class Refused(WorkerError):
    """A case that has no answer, now or later.

    Args:
        code: a stable word, such as ``context_overflow`` or ``status_422``.
        message: one sentence without any text of the case; may be empty.
    """

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message


class NoAnswer(ValueError):
    """What a server sent is no answer to the question; the message says why, without its text."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back for one state; see :class:`worker.quality.run_file.Result`."""

    answers: Mapping[str, Given]
    seconds: float
    evaluation_seconds: float | None = None
    input_tokens: int | None = None
    evaluated_tokens: int | None = None


class Target(Protocol):
    """Answers the questions of one set."""

    async def source(self) -> Source:
        """Return who answers.

        Raises:
            UsageError: nobody does, or not to these questions.
        """
        ...

    async def ask(self, case_id: str, state: Text, question_set: QuestionSet) -> Answered:
        """Ask all questions of a set about a state.

        Args:
            case_id: for traces.
            state: what the questions are about.
            question_set: the set, or its questions put in another way.

        Raises:
            Refused: there is no answer to this case.
            UsageError: there will be no answer to any case.
        """
        ...


def read_given(question: Question, answer: Any, beside: Mapping[str, Any]) -> Given:
    """Read a System One answer.

    Args:
        question: that was asked.
        answer: as JSON data.
        beside: ``label_mass``, ``top_is_label``, ``disposition`` and ``temperature``, as far as
            they are told.

    Raises:
        NoAnswer: it is none to this question.
    """
    if not isinstance(answer, Mapping) or answer.get("type") != question.type:
        raise NoAnswer(f"is no {question.type}")
    try:
        given = [float(value) for value in _probabilities(question, answer)]
    except (KeyError, TypeError, ValueError):
        raise NoAnswer("has not one probability for each option") from None
    total = math.fsum(given)
    if min(given) < 0 or not abs(total - 1) <= max(_MOST_OFF, 0.005 * len(given)):
        raise NoAnswer("has probabilities that do not sum to 1")
    # What was rounded on the wire is a distribution again; what was not keeps its bits.
    exact = abs(total - 1) < 1e-9
    try:
        return Given(
            probabilities=tuple(given if exact else (value / total for value in given)),
            label_mass=beside.get("label_mass"),
            top_is_label=beside.get("top_is_label"),
            disposition=beside.get("disposition"),
            temperature=beside.get("temperature"),
        )
    except ValidationError as error:
        where, message = first_fault(error)
        raise NoAnswer(f"has a wrong {where}: {message}") from None


def _probabilities(question: Question, answer: Mapping[str, Any]) -> list[Any]:
    if question.type == "noul":
        true = float(answer["noul"])
        return [true, 1.0 - true]
    by_key = answer["probabilities"]
    keys = [option.key for option in question.options()]
    if set(by_key) != set(keys):
        raise KeyError
    return [by_key[key] for key in keys]
