"""Refuse tickets that spell control tokens, for those who would rather not read them as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from worker.decision.control import ControlTokens
from worker.decision.question import Question, Text
from worker.errors import Rejected


def refuse_spelled(control: ControlTokens, state: Text, questions: Mapping[str, Question]) -> None:
    """Look for spellings of control tokens in all that a model may be shown.

    Raises:
        Rejected: with the first place that has one.
    """
    for where, value in _places(state, questions):
        if any(control.pattern.search(text) for text in _texts(value)):
            raise Rejected(
                "control_tokens", "the text spells one of the model's control tokens", where
            )


def _places(state: Text, questions: Mapping[str, Question]) -> Iterator[tuple[str, Any]]:
    yield "state", state
    for key, question in questions.items():
        yield "questions", key
        yield f"questions.{key}.instructions", question.instructions
        yield f"questions.{key}.criteria", question.criteria


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one
