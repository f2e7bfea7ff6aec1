"""Feedback: what a person decided about an answer."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from worker.decision.policy import Disposition
from worker.decision.strict_json import parse_json
from worker.decision.ticket import MAX_TICKET_ID, first_fault
from worker.errors import Rejected

_LONGEST = 256

_Told = Annotated[StrictStr, Field(min_length=1, max_length=_LONGEST)] | StrictBool | StrictInt


class Feedback(BaseModel):
    """One question of one ticket, decided by a person.

    Attributes:
        ticket_id: of the outcome.
        question: its id.
        decided: the right option: a choice's, a score's level by its number, true or false.
        answer: the option that was answered, as whoever read the outcome has it; without it the
            worker that answered must still remember the ticket.
        disposition: that the answer had, likewise.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    ticket_id: StrictStr = Field(min_length=1, max_length=MAX_TICKET_ID)
    question: StrictStr = Field(min_length=1, max_length=_LONGEST)
    decided: _Told
    answer: _Told | None = None
    disposition: Disposition | None = None


def parse_feedback(body: str | bytes) -> Feedback:
    """Parse a message about one answer.

    Raises:
        Rejected: naming the place, without any of the text.
    """
    tree = parse_json(body, code="invalid_feedback")
    if not isinstance(tree, dict):
        raise Rejected("invalid_feedback", "must be an object")
    try:
        return Feedback.model_validate(tree)
    except ValidationError as error:
        where, message = first_fault(error)
        raise Rejected("invalid_feedback", message, where) from None


def option_name(told: str | bool | int) -> str:
    """Return an option's key as distributions have it."""
    return str(told).lower() if isinstance(told, bool) else str(told)
