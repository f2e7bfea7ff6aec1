"""The SNS message attributes of an outcome, for subscribers' filter policies."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from worker.decision.answer import Answer, ChoiceAnswer, NoulAnswer
from worker.decision.outcome import FORBIDDEN, Outcome

MAX_ANSWERS = 3
MAX_VALUE_CHARACTERS = 256

# SNS allows these in an attribute's name; the prefix "answer." takes seven of its 256 characters.
ATTRIBUTE_ID = re.compile(r"[A-Za-z0-9_-]{1,249}")
_FILTER_DECIMALS = 5


@dataclass(frozen=True, slots=True)
class Attribute:
    """One message attribute."""

    type: Literal["String", "Number"]
    value: str


def outcome_attributes(outcome: Outcome) -> dict[str, Attribute]:
    """Return status, disposition, question set, model, and at most three answers as attributes.

    Raw delivery to SQS drops a message with more than ten attributes; these are at most seven.
    """
    attributes = {
        "status": Attribute("String", outcome.status),
        "model": Attribute("String", attribute_value(outcome.provenance.model.name)),
    }
    if question_set := outcome.provenance.question_set:
        attributes["question_set"] = Attribute(
            "String", f"{question_set.name}@{question_set.version}"
        )
    if outcome.disposition:
        attributes["disposition"] = Attribute("String", outcome.disposition)
    attributes.update(_answers(outcome.answers or {}, outcome.attribute_ids))
    return attributes


def can_be_attribute(question_id: str) -> bool:
    """Return whether SNS takes a question's id as part of an attribute's name."""
    return ATTRIBUTE_ID.fullmatch(question_id) is not None


def _answers(
    answers: Mapping[str, Answer], ids: Sequence[str] | None
) -> Iterator[tuple[str, Attribute]]:
    named = [key for key in (answers if ids is None else ids) if can_be_attribute(key)]
    for key in named[:MAX_ANSWERS]:
        answer = answers[key]
        if isinstance(answer, ChoiceAnswer):
            yield f"answer.{key}", Attribute("String", attribute_value(answer.choice))
        else:
            number = answer.noul if isinstance(answer, NoulAnswer) else answer.score
            yield f"answer.{key}", Attribute("Number", f"{number:.{_FILTER_DECIMALS}f}")


def attribute_value(text: str) -> str:
    """Return *text* without the characters SNS refuses, never empty and not too long."""
    allowed = "".join(c for c in text if c in "\t\n\r" or (c >= " " and c not in FORBIDDEN))
    return allowed.strip()[:MAX_VALUE_CHARACTERS] or "-"
