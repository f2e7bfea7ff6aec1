"""The sidecar's routes."""

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from worker import metrics
from worker.errors import (
    Bug,
    DeadlinePassed,
    EngineBusy,
    EngineFailed,
    NotReady,
    Rejected,
    WorkerError,
)
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle, Phase
from worker.ports import Lane
from worker.sidecar import systemone

RETRY_AFTER_SECONDS = 2
REQUEST_ID_HEADER = "x-typesafe-request-id"

_log = structlog.get_logger()

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Routes:
    """Every route, and what they share.

    Attributes:
        evaluator: None until the model is loaded.
        in_progress: answers being worked on.
        idle: set while none is.
    """

    def __init__(self, lifecycle: Lifecycle, *, request_seconds: float) -> None:
        self._lifecycle = lifecycle
        self._request_seconds = request_seconds
        self.evaluator: Evaluator | None = None
        self.in_progress = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def add_to(self, application: web.Application) -> None:
        """Register the routes."""
        application.middlewares.append(_counted)
        application.router.add_get("/ping", self.ping)
        application.router.add_get("/metrics", self.metrics)
        application.router.add_post("/invocations", self.invocations)

    async def ping(self, _: web.Request) -> web.Response:
        """Say whether answers can be had: 200 while ready, however busy; else 503."""
        ready = self.evaluator is not None and self._lifecycle.phase is Phase.READY
        return web.json_response(
            {"status": self._lifecycle.phase.value}, status=200 if ready else 503
        )

    async def metrics(self, _: web.Request) -> web.Response:
        """Return all metrics in Prometheus' text format."""
        return web.Response(
            body=metrics.exposition(), headers={"Content-Type": metrics.CONTENT_TYPE}
        )

    async def invocations(self, request: web.Request) -> web.Response:
        """Answer one System One request."""
        request_id = str(uuid.uuid4())
        started_at = time.monotonic()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                async with asyncio.timeout_at(started_at + self._request_seconds) as deadline:
                    response = await self._answer(request, request_id, deadline.when())
            except TimeoutError:
                response = self._refusal(DeadlinePassed("the request took too long"))
            except WorkerError as error:
                response = self._refusal(error)
            except Exception:  # noqa: BLE001 - the caller must still be answered
                _log.exception("request_failed")
                response = self._refusal(Bug("an unexpected fault; the log says more"))
            seconds = time.monotonic() - started_at
            metrics.TICKET_SECONDS.labels("sidecar").observe(seconds)
            _log.info("request_finished", status=response.status, seconds=round(seconds, 3))
        response.headers[REQUEST_ID_HEADER] = request_id
        return response

    async def _answer(
        self, request: web.Request, request_id: str, deadline: float | None
    ) -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise Rejected("too_large", "the body is too large") from None
        except (HttpProcessingError, web.RequestPayloadError):
            raise Rejected("invalid_body", "the body cannot be decoded") from None
        evaluator = self.evaluator
        if evaluator is None or self._lifecycle.phase is not Phase.READY:
            raise NotReady(f"the worker is {self._lifecycle.phase.value}")
        ticket = await asyncio.to_thread(systemone.read_request, body, request_id)
        self.in_progress += 1
        self.idle.clear()
        try:
            outcome = await evaluator.evaluate(ticket, Lane.INTERACTIVE, deadline)
        finally:
            self.in_progress -= 1
            if not self.in_progress:
                self.idle.set()
        for answer in (outcome.answers or {}).values():
            metrics.DECISIONS.labels(answer.type, answer.verdict.disposition).inc()
        return web.json_response(systemone.write_answer(outcome))

    def _refusal(self, error: WorkerError) -> web.Response:
        # While draining the engine closes, which is no failure.
        if isinstance(error, EngineFailed) and self._lifecycle.phase is Phase.READY:
            self._lifecycle.fail(error)
        status, body = systemone.write_error(error)
        seconds = math.ceil(error.seconds) if isinstance(error, EngineBusy) else RETRY_AFTER_SECONDS
        retry = {"Retry-After": str(seconds)} if status == 503 else {}
        return web.json_response(body, status=status, headers=retry)


@web.middleware
async def _counted(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Count requests by route and status; a path that is no route counts as one of its own."""
    resource = request.match_info.route.resource
    route = resource.canonical if resource is not None else "other"
    try:
        response = await handler(request)
    except web.HTTPException as error:
        metrics.HTTP_REQUESTS.labels(route, error.status).inc()
        raise
    metrics.HTTP_REQUESTS.labels(route, response.status).inc()
    return response
