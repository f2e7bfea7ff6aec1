"""One request for decisions, from its head to its answer or its refusal."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from aiohttp import web

from worker import metrics
from worker.errors import Bug, DeadlinePassed, EngineFailed, WorkerError
from worker.lifecycle import Lifecycle, Phase
from worker.sidecar.admission import Admission
from worker.sidecar.asking import Asker, Unanswered, off_loop
from worker.sidecar.body import decoder_of, receive_body
from worker.sidecar.formats import UNDECIDED, Format
from worker.sidecar.media import Media, answered_as, media_of
from worker.sidecar.refusal import refusal_of
from worker.sidecar.transform import answer_lines, split_lines
from worker.tracing import NO_TRACER, Tracer

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take.

    Attributes:
        body_bytes: as sent, and decoded.
        body_seconds: until the body is there.
    """

    body_bytes: int
    body_seconds: float


class Exchange:
    """Answers requests for decisions.

    Args:
        lifecycle: is told when the engine fails for good.
        admission: who may enter.
        limits: of one request.
        tracer: keeps the spans of evaluations.

    Attributes:
        spells_control: whether a text holds the spelling of a control token of the model.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        admission: Admission,
        limits: Limits,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._lifecycle = lifecycle
        self._admission = admission
        self._limits = limits
        self._tracer = tracer
        self.spells_control: Callable[[str], bool] = lambda _: False

    async def answer(
        self, request: web.Request, request_id: str, only: Format | None = None
    ) -> web.Response:
        """Answer a request in the format it is in.

        Args:
            request: its head has arrived.
            request_id: the ticket id of a ticket without one.
            only: the one format that is taken; None tells by the body's fields.
        """
        started_at = time.monotonic()
        # The ticket's own id takes the place of the request's once it is read.
        with structlog.contextvars.bound_contextvars(request_id=request_id, ticket_id=request_id):
            try:
                response = await self._answer(request, request_id, only)
            except Unanswered as unanswered:
                response = self._refuse(unanswered.error, unanswered.wording)
            except WorkerError as error:
                response = self._refuse(error, only or UNDECIDED)
            except Exception:  # noqa: BLE001 - the caller must still be answered
                _log.exception("request_failed")
                fault = Bug("an unexpected fault; the log says more")
                response = self._refuse(fault, only or UNDECIDED)
            seconds = time.monotonic() - started_at
            metrics.TICKET_SECONDS.labels("sidecar").observe(seconds)
            _log.info("request_finished", status=response.status, seconds=round(seconds, 3))
        return response

    async def _answer(
        self, request: web.Request, request_id: str, only: Format | None
    ) -> web.Response:
        media = media_of(
            _field(request, "Content-Type"),
            allowed=(Media.JSON,) if only else (Media.JSON, Media.LINES),
        )
        content_type = answered_as(_field(request, "Accept"), media)
        decode = decoder_of(_field(request, "Content-Encoding") or "")
        deadline = self._admission.deadline(_field(request, "X-Request-Timeout"))
        limits = self._limits
        try:
            async with asyncio.timeout_at(deadline):
                with self._admission.place(deadline) as evaluator:
                    sent = await receive_body(
                        request, max_bytes=limits.body_bytes, seconds=limits.body_seconds
                    )
                    with self._admission.work():
                        body = await off_loop(sent, decode, sent, limits.body_bytes)
                        asker = Asker(evaluator, deadline, only, self.spells_control, self._tracer)
                        answer = await _worded(body, media, asker, request_id)
        except TimeoutError:
            raise DeadlinePassed("the request took too long") from None
        return web.Response(body=answer, content_type=content_type)

    def _refuse(self, error: WorkerError, wording: Format) -> web.Response:
        # While draining the engine closes, which is no failure.
        if isinstance(error, EngineFailed) and self._lifecycle.phase is Phase.READY:
            self._lifecycle.fail(error)
        refusal = refusal_of(error)
        metrics.HTTP_REFUSED.labels(refusal.kind).inc()
        status, body = wording.error(refusal)
        return web.json_response(body, status=status, headers=refusal.headers)


def _field(request: web.Request, name: str) -> str | None:
    """Return a header; of one that came several times all values, as HTTP reads them."""
    values = request.headers.getall(name, None)
    return None if values is None else ", ".join(values)


async def _worded(body: bytes, media: Media, asker: Asker, request_id: str) -> bytes:
    if media is Media.LINES:
        return await answer_lines(split_lines(body), asker, request_id)
    answer = await asker.answer(body, request_id)
    return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
