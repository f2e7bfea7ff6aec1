"""System One's wire format to and from tickets and outcomes."""

from typing import Any

from worker.decision.answer import BEYOND_SYSTEM_ONE
from worker.decision.outcome import Outcome
from worker.decision.ticket import Ticket, parse_ticket
from worker.errors import Bug, DeadlinePassed, EngineBusy, Rejected, WorkerError


def read_request(body: bytes, request_id: str) -> Ticket:
    """Parse a request; *request_id* is its ticket id unless it names one.

    Raises:
        Rejected: with the place and the reason.
    """
    return parse_ticket(body, default_id=request_id)


def write_answer(outcome: Outcome) -> dict[str, Any]:
    """Word an outcome as a System One response."""
    usage = outcome.usage
    return {
        "model": outcome.provenance.model.name,
        "answers": {
            key: answer.model_dump(mode="json", exclude=set(BEYOND_SYSTEM_ONE))
            for key, answer in (outcome.answers or {}).items()
        },
        "usage": {"input_tokens": usage.input_tokens if usage else 0, "output_tokens": 0},
    }


def write_error(error: WorkerError) -> tuple[int, dict[str, Any]]:
    """Word an error as System One does: HTTP status and body."""
    if isinstance(error, Rejected):
        return _rejection(error)
    if isinstance(error, DeadlinePassed):
        return 504, _detail("deadline_exceeded", str(error))
    if isinstance(error, Bug):
        return 500, _detail("internal_error", str(error))
    if isinstance(error, EngineBusy):
        return 503, _detail("overloaded", str(error))
    return 503, _detail("unavailable", str(error))


def _rejection(error: Rejected) -> tuple[int, dict[str, Any]]:
    if error.code == "unknown_model":
        return 400, _detail("api_usage_error", error.message)
    if error.code == "invalid_body":
        return 400, _detail("api_usage_error", error.message)
    if error.code in ("prompt_too_long", "too_large"):
        return 413, _detail("request_too_large", error.message)
    place = [part for part in error.where.split(".") if part]
    return 422, {"detail": [{"loc": ["body", *place], "msg": error.message, "type": error.code}]}


def _detail(kind: str, message: str) -> dict[str, Any]:
    return {"detail": {"error_type": kind, "message": message}}
