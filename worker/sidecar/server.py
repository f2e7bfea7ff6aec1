"""The sidecar's HTTP server: listen, answer with the evaluator once there is one, drain."""

import asyncio

import structlog
from aiohttp import web

from worker.errors import UsageError
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle
from worker.sidecar.routes import Routes

# Draining is over by then: this is for connections that never finish their request.
_CLOSE_SECONDS = 1.0

_log = structlog.get_logger()


class Sidecar:
    """The HTTP face.

    Args:
        lifecycle: whose phase ``/ping`` tells.
        max_body_bytes: the largest request body.
        request_seconds: the longest an answer may take.
    """

    def __init__(
        self, lifecycle: Lifecycle, *, max_body_bytes: int, request_seconds: float
    ) -> None:
        self._routes = Routes(lifecycle, request_seconds=request_seconds)
        application = web.Application(client_max_size=max_body_bytes)
        self._routes.add_to(application)
        # A caller who hangs up cancels the handler, and with it the work.
        self._runner = web.AppRunner(
            application,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_CLOSE_SECONDS,
        )
        self._port = 0

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port

    async def listen(self, host: str, port: int) -> None:
        """Accept connections; until there is an evaluator, ``/ping`` says 503.

        Args:
            host: the address to listen on.
            port: the port; 0 takes a free one.

        Raises:
            UsageError: the address cannot be listened on.
        """
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except (OSError, UnicodeError) as error:
            await self._runner.cleanup()
            reason = getattr(error, "strerror", None) or "not a host name"
            raise UsageError(f"cannot listen on {host}:{port}: {reason}") from error
        self._port = self._runner.addresses[0][1]
        _log.info("listening", host=host, port=self._port)

    def answer_with(self, evaluator: Evaluator) -> None:
        """Answer questions with *evaluator* from now on."""
        self._routes.evaluator = evaluator

    async def drain(self, seconds: float) -> int:
        """Wait up to *seconds* for requests in progress; return how many are left."""
        try:
            async with asyncio.timeout(seconds):
                await self._routes.idle.wait()
        except TimeoutError:
            _log.warning("drain_deadline_passed", requests=self._routes.in_progress)
        return self._routes.in_progress

    async def close(self) -> None:
        """Close the server and what is left of its connections."""
        await self._runner.cleanup()
