"""System One's wire format to and from tickets and outcomes."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from worker.decision.canonical import canonical_sha256
from worker.decision.outcome import Outcome, Timings, Usage, WindowsProvenance
from worker.decision.policy import Disposition, Verdict
from worker.decision.question import Text
from worker.decision.ticket import Ticket, validate_ticket
from worker.errors import Rejected
from worker.sidecar.refusal import Refusal

_Probability = Field(ge=0, le=1)


class _Wire(BaseModel):
    # What an outcome's answer has beyond System One's does not go out in it.
    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class ChoiceAnswer(_Wire):
    """The most likely option, with every option's probability."""

    type: Literal["choice"]
    choice: str
    probabilities: dict[str, float]
    confidence: float = _Probability


class ScoreAnswer(_Wire):
    """The expected level, with the levels' texts and probabilities by number."""

    type: Literal["score"]
    score: float = Field(ge=0)
    legend: dict[str, Text]
    probabilities: dict[str, float]
    confidence: float = _Probability


class NoulAnswer(_Wire):
    """The probability of true."""

    type: Literal["noul"]
    noul: float = _Probability


class TokenUsage(_Wire):
    """Tokens of all full prompts together; nothing is generated."""

    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


class Extension(_Wire):
    """What this worker says beyond System One.

    Attributes:
        outcome_id: the same whenever the same ticket is answered by the same worker.
        disposition: the most cautious of the verdicts.
        verdicts: what to do about each answer.
        label_mass: by question, the share of the whole distribution that fell on the labels.
        top_is_label: by question, whether the likeliest token of all was a label.
        usage: tokens, with those that need not be evaluated again.
        timings: seconds.
        metadata: as the request had it.
        windows: how a state was read that is too long for one prompt; null for others.
        window: by question, the one window that its answer is of, where it is of one.
        provenance_sha256: of everything that went into the answer except the ticket.
    """

    outcome_id: str
    ticket_id: str
    disposition: Disposition | None
    verdicts: dict[str, Verdict]
    label_mass: dict[str, float]
    top_is_label: dict[str, bool]
    usage: Usage | None
    timings: Timings | None
    metadata: dict[str, str]
    windows: WindowsProvenance | None
    window: dict[str, int]
    provenance_sha256: str


class SystemOneResponse(_Wire):
    """One answer for each question of the request."""

    model: str
    answers: dict[str, ChoiceAnswer | ScoreAnswer | NoulAnswer]
    usage: TokenUsage
    x_worker: Extension


def read_request(tree: Any, request_id: str) -> Ticket:
    """Validate a parsed request; *request_id* is its ticket id unless it names one.

    Raises:
        Rejected: with the place and the reason.
    """
    if not isinstance(tree, dict):
        raise Rejected("invalid_ticket", "the body must be a JSON object")
    ticket = validate_ticket(tree)
    return ticket if ticket.ticket_id else ticket.model_copy(update={"ticket_id": request_id})


def write_answer(outcome: Outcome) -> dict[str, Any]:
    """Word an outcome as a System One response."""
    answers = outcome.answers or {}
    response = SystemOneResponse(
        model=outcome.provenance.model.name,
        # Through their dumps: the wire's answers are other classes than the outcome's.
        answers={key: answer.model_dump() for key, answer in answers.items()},  # type: ignore[misc]
        usage=TokenUsage(
            input_tokens=outcome.usage.input_tokens if outcome.usage else 0, output_tokens=0
        ),
        x_worker=Extension(
            outcome_id=outcome.outcome_id,
            ticket_id=outcome.ticket_id,
            disposition=outcome.disposition,
            verdicts={key: answer.verdict for key, answer in answers.items()},
            label_mass={key: answer.label_mass for key, answer in answers.items()},
            top_is_label={key: answer.top_is_label for key, answer in answers.items()},
            usage=outcome.usage,
            timings=outcome.timings,
            metadata=outcome.metadata,
            windows=outcome.provenance.windows,
            window={
                key: answer.window for key, answer in answers.items() if answer.window is not None
            },
            provenance_sha256=canonical_sha256(outcome.provenance.model_dump(mode="json")),
        ),
    )
    return response.model_dump(mode="json")


class Detail(_Wire):
    """An error."""

    error_type: str
    message: str


class ErrorBody(_Wire):
    """What System One answers when it does not answer."""

    detail: Detail


class Invalid(_Wire):
    """One place of a body that is not as it must be."""

    loc: list[str]
    msg: str
    type: str


class InvalidBody(_Wire):
    """What System One answers when a body is JSON but no request."""

    detail: list[Invalid]


def write_error(refusal: Refusal) -> dict[str, Any]:
    """Word a refusal as System One does."""
    if refusal.status == 422:
        place = ["body", *(part for part in refusal.where.split(".") if part)]
        fault = Invalid(loc=place, msg=refusal.message, type=refusal.code)
        return InvalidBody(detail=[fault]).model_dump()
    where = f"{refusal.where}: " if refusal.where else ""
    detail = Detail(error_type=refusal.kind, message=where + refusal.message)
    return ErrorBody(detail=detail).model_dump()
