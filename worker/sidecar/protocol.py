"""aiohttp's connections, made to answer what it refuses itself without repeating any of it."""

import uuid

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from worker import metrics
from worker.sidecar.formats import UNDECIDED
from worker.sidecar.middleware import REQUEST_ID_HEADER, SERVER
from worker.sidecar.refusal import Refusal

MAX_LINE_BYTES = 8190

_log = structlog.get_logger()

_MALFORMED = Refusal(400, "bad_request", "this is not an HTTP request that can be read")
_TOO_LONG = Refusal(
    431, "head_too_large", f"a line of the head has more than {MAX_LINE_BYTES} bytes"
)
_BROKEN = Refusal(500, "internal_error", "an unexpected fault")
_UNEXPECTED = Refusal(417, "expectation_failed", "Expect may only be 100-continue")


class _Connection(RequestHandler):
    """One connection."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it holds the caller's bytes
    ) -> web.StreamResponse:
        """Answer in our own shape; aiohttp's answer and its log would hold the caller's bytes."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        if status >= 500:
            _log.error("request_failed", error=type(exc).__name__)
        refusal = _BROKEN if status >= 500 else _MALFORMED
        if isinstance(exc, LineTooLong):
            refusal = _TOO_LONG
        response = _refuse(refusal)
        response.force_close()
        return response


class _Server(web.Server):
    """Makes a connection for each caller."""

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """Runs an application on connections of our own kind."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        handle = made.request_handler

        async def handle_expecting(request: web.BaseRequest) -> web.StreamResponse:
            """Let middleware and handler answer, which an unknown expectation never reaches."""
            try:
                return await handle(request)
            except web.HTTPExpectationFailed:  # its text is the caller's
                return _refuse(_UNEXPECTED)

        return _Server(
            handle_expecting,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            **made._kwargs,  # noqa: SLF001 - aiohttp has no other way in
        )


def _refuse(refusal: Refusal) -> web.Response:
    """Answer a request that reached no route, in a shape that clients of both formats read."""
    metrics.HTTP_REQUESTS.labels("other", refusal.status).inc()
    code, body = UNDECIDED.error(refusal)
    headers = {REQUEST_ID_HEADER: str(uuid.uuid4()), "Server": SERVER}
    return web.json_response(body, status=code, headers=headers)
