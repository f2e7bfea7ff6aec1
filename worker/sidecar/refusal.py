"""Every reason for not answering, as a status, a kind and a sentence, whatever the format."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.errors import (
    Backlogged,
    Bug,
    DeadlinePassed,
    EngineBusy,
    Rejected,
    WorkerError,
)

RETRY_AFTER_SECONDS = 2
"""When to come back, where nothing better is known."""

_STATUS_OF_CODE = {
    "invalid_body": 400,
    "prompt_too_long": 413,
    "too_large": 413,
    "unknown_model": 400,
}
_INVALID = 422
_KINDS = {400: "api_usage_error", 413: "request_too_large", 422: "invalid_request_error"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request gets no answer.

    Attributes:
        status: of the HTTP response.
        kind: a stable word, as System One's ``error_type``.
        message: one sentence without any text of the request.
        where: the place in the body, such as ``questions.team.criteria``; may be empty.
        code: which rule a rejected ticket broke.
        headers: to be sent along.
    """

    status: int
    kind: str
    message: str
    where: str = ""
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (408, 503, 504)


class Refused(WorkerError):
    """A request that is refused for what its head says or how it is sent."""

    def __init__(
        self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.refusal = Refusal(status, kind, message, headers=headers or {})


def refusal_of(error: WorkerError) -> Refusal:
    """Return what to tell the caller about *error*."""
    if isinstance(error, Refused):
        return error.refusal
    if isinstance(error, Rejected):
        status = _STATUS_OF_CODE.get(error.code, _INVALID)
        return Refusal(status, _KINDS[status], error.message, error.where, error.code)
    if isinstance(error, DeadlinePassed):
        return Refusal(504, "deadline_exceeded", str(error))
    if isinstance(error, Bug):
        return Refusal(500, "internal_error", str(error))
    if isinstance(error, EngineBusy | Backlogged):
        return Refusal(503, "overloaded", str(error), headers=_retry_after(error.seconds))
    return Refusal(503, "unavailable", str(error), headers=_retry_after(RETRY_AFTER_SECONDS))


def overloaded(message: str) -> Refused:
    """Return a refusal of what may come back soon."""
    return Refused(503, "overloaded", message, _retry_after(RETRY_AFTER_SECONDS))


def _retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(seconds)))}
