"""The sample tickets of a support desk: 24 states, four questions about each."""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any


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
    text = (resources.files("worker.local") / "sample_tickets.json").read_text("utf-8")
    data = json.loads(text)
    questions = data["questions"]
    return SampleDesk(
        questions, tuple({**ticket, "questions": questions} for ticket in data["tickets"])
    )
