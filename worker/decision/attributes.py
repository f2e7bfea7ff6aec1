"""The SNS message attributes of an outcome, for subscribers' filter policies."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from worker.decision.answer import Answer, ChoiceAnswer, NoulAnswer
from worker.decision.outcome import FORBIDDEN, Outcome

MAX_ANSWERS = 3
MAX_VALUE_CHARACTERS = 256

# SNS allows these in an attribute's name; the prefix "answer." takes seven of its 256 characters.
_ATTRIBUTE_ID = re.compile(r"[A-Za-z0-9_-]{1,249}")
_FILTER_DECIMALS = 5


@dataclass(frozen=True, slots=True)
class Attribute:
    """One message attribute."""

    type: Literal["String", "Number"]
    value: str


def outcome_attributes(outcome: Outcome) -> dict[str, Attribute]:
    """Return status, disposition, model, and at most three answers as attributes.

    Raw delivery to SQS drops a message with more than ten attributes; these are at most six.
    """
    attributes = {
        "status": Attribute("String", outcome.status),
        "model": Attribute("String", attribute_value(outcome.provenance.model.name)),
    }
    if outcome.disposition:
        attributes["disposition"] = Attribute("String", outcome.disposition)
    attributes.update(_answers(outcome.answers or {}))
    return attributes


def _answers(answers: Mapping[str, Answer]) -> Iterator[tuple[str, Attribute]]:
    named = [(key, answer) for key, answer in answers.items() if _ATTRIBUTE_ID.fullmatch(key)]
    for key, answer in named[:MAX_ANSWERS]:
        if isinstance(answer, ChoiceAnswer):
            yield f"answer.{key}", Attribute("String", attribute_value(answer.choice))
        else:
            number = answer.noul if isinstance(answer, NoulAnswer) else answer.score
            yield f"answer.{key}", Attribute("Number", f"{number:.{_FILTER_DECIMALS}f}")


def attribute_value(text: str) -> str:
    """Return *text* without the characters SNS refuses, never empty and not too long."""
    allowed = "".join(c for c in text if c in "\t\n\r" or (c >= " " and c not in FORBIDDEN))
    return allowed.strip()[:MAX_VALUE_CHARACTERS] or "-"
