"""The ticket: one state and the questions asked about it, as a System One request body."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from worker.decision.question import Question, Text
from worker.decision.strict_json import parse_json
from worker.errors import Rejected

LARGE_BODY = 1 << 16
"""Bodies of more characters take long enough to parse that an event loop should not do it."""

MAX_QUESTIONS = 256
MAX_METADATA = 16
MAX_TICKET_ID = 128

NOT_TEXT = ("assets", "images", "files", "videos")
"""Fields of other System One servers that an answer would have to be about."""

# How pydantic names the members of a union, and a key; the ticket has no such level.
_UNION_MEMBERS = ("str", "dict[str,any]", "list[any]", "[key]")


class Ticket(BaseModel):
    """A parsed request. A System One body is a valid ticket; unknown fields are ignored.

    Attributes:
        ticket_id: at most 128 characters; empty until the delivery's message id is filled in.
        state: what the questions are about; or
        state_uri: where to read it, as ``s3://bucket/key``.
        questions: by id, in request order; or
        question_set: the name of a configured set, ``name`` or ``name@version``.
        model: the model the client asks for.
        metadata: passed through to the outcome.
    """

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )

    ticket_id: str = Field(default="", max_length=MAX_TICKET_ID)
    state: Text | None = None
    state_uri: str | None = None
    questions: dict[str, Question] | None = Field(
        default=None, min_length=1, max_length=MAX_QUESTIONS
    )
    question_set: str | None = None
    model: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict, max_length=MAX_METADATA)

    @model_validator(mode="after")
    def _is_complete(self) -> "Ticket":
        if (self.state is None) == (self.state_uri is None):
            raise ValueError("needs exactly one of state and state_uri")
        if (self.questions is None) == (self.question_set is None):
            raise ValueError("needs exactly one of questions and question_set")
        if self.questions is not None and "" in self.questions:
            raise ValueError("a question has an empty id")
        return self


def parse_ticket(
    body: str | bytes, *, default_id: str = "", max_bytes: int | None = None
) -> Ticket:
    """Parse and validate a body.

    Args:
        body: UTF-8 JSON.
        default_id: the ticket id to use when the body has none.
        max_bytes: the largest body to accept.

    Raises:
        Rejected: with the place and the reason, never with the text found there.
    """
    size = len(body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass"))
    if max_bytes is not None and size > max_bytes:
        raise Rejected("too_large", f"the body has {size} bytes, at most {max_bytes} are taken")
    tree = parse_json(body)
    if not isinstance(tree, dict):
        raise Rejected("invalid_ticket", "the body must be a JSON object")
    ticket = validate_ticket(tree)
    return ticket if ticket.ticket_id else ticket.model_copy(update={"ticket_id": default_id})


def validate_ticket(tree: dict[str, Any]) -> Ticket:
    """Validate a parsed body.

    Raises:
        Rejected: with the first place that is wrong.
    """
    for name in NOT_TEXT:
        if tree.get(name):  # unlike other unknown fields: the answer would not be about it
            raise Rejected("invalid_ticket", "this model reads text only", name)
    try:
        return Ticket.model_validate(tree)
    except ValidationError as error:
        where, message = first_fault(error)
        raise Rejected("invalid_ticket", message, where) from None


def first_fault(error: ValidationError) -> tuple[str, str]:
    """Return place and sentence of a validation error's first fault, without the input."""
    fault = error.errors(include_url=False, include_input=False)[0]
    where = list(fault["loc"])
    if where[:1] == ["questions"] and len(where) > 2 and where[2] in ("choice", "score", "noul"):
        del where[2]  # pydantic names the member of the union; the ticket has no such level
    if where[:1] in (["state"], ["metadata"]):
        del where[1:]
    elif where and (where[-1] in _UNION_MEMBERS or fault["type"] == "extra_forbidden"):
        del where[-1]
    return ".".join(map(str, where)), _sentence(fault)


def _sentence(fault: Any) -> str:
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in ("union_tag_invalid", "union_tag_not_found"):  # its text repeats the input
        return "type must be one of choice, score, noul"
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return "has a field that questions of this type do not have"
    if kind == "too_short":
        return "must not be empty"
    if kind == "too_long":
        return f"has too many entries, at most {context['max_length']} are allowed"
    if fault["loc"][-1:] == ("str",):
        return "must be text, an object or an array"
    text = str(fault["msg"])
    return text[0].lower() + text[1:]
