"""A support desk: its question set, 24 sample tickets, 212 short ones with the right answers."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_HERE = Path(__file__).parent
SUPPORT_DESK = _HERE / "support_desk.yaml"
"""The question set."""

LABELLED_CASES = _HERE / "labelled_cases.jsonl"
"""States in five languages with the answers that a careful clerk would give."""


@dataclass(frozen=True, slots=True)
class SampleDesk:
    """What the support desk of the demo received.

    Attributes:
        questions: System One questions by id, asked about every ticket.
        tickets: ticket bodies, questions included.
    """

    questions: dict[str, Any]
    tickets: tuple[dict[str, Any], ...]


def sample_desk() -> SampleDesk:
    """Read the sample tickets from the package."""
    data = json.loads((_HERE / "sample_tickets.json").read_text("utf-8"))
    questions = yaml.safe_load(SUPPORT_DESK.read_text("utf-8"))["questions"]
    return SampleDesk(
        questions, tuple({**ticket, "questions": questions} for ticket in data["tickets"])
    )
