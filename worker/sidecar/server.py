"""The sidecar's HTTP server: listen, answer with the evaluator once there is one, drain."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from aiohttp import web

from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle
from worker.sidecar.admission import Admission
from worker.sidecar.exchange import Exchange, Limits
from worker.sidecar.feedback import FeedbackRoute
from worker.sidecar.keys import Keys
from worker.sidecar.listening import Listener
from worker.sidecar.middleware import make_middleware
from worker.sidecar.probes import Probes
from worker.sidecar.routes import Routes
from worker.sidecar.spans import make_tracing
from worker.tracing import NO_TRACER, Tracer

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarOptions:
    """How the sidecar is set.

    Attributes:
        max_body_bytes: the largest request body, as sent and decoded.
        body_seconds: the longest a body may take to arrive.
        request_seconds: the longest an answer may take.
        max_callers: requests in progress at once.
        stall_seconds: without progress for so long, the engine counts as broken.
        guard_probes: whether ``/ping`` and ``/metrics`` need a key where the others do.
    """

    max_body_bytes: int
    body_seconds: float
    request_seconds: float
    max_callers: int
    stall_seconds: float
    guard_probes: bool = False


class Sidecar:
    """The HTTP face.

    Args:
        lifecycle: whose phase ``/ping`` tells.
        options: limits and times.
        keys: which callers must have one of; None lets everybody in.
        tracer: keeps the spans of requests.

    Attributes:
        probes: what monitors ask of this process.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        options: SidecarOptions,
        keys: Keys | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._admission = Admission(
            lifecycle, max_callers=options.max_callers, request_seconds=options.request_seconds
        )
        limits = Limits(options.max_body_bytes, options.body_seconds)
        self._exchange = Exchange(lifecycle, self._admission, limits, tracer)
        self.probes = Probes(
            lifecycle,
            stall_seconds=options.stall_seconds,
            in_progress=lambda: self._admission.in_progress,
        )
        self._routes = Routes(
            self.probes,
            self._admission,
            self._exchange,
            FeedbackRoute(self._admission, limits.body_seconds),
            max_body_bytes=options.max_body_bytes,
        )
        middleware = make_middleware(lifecycle, keys, guard_probes=options.guard_probes)
        application = web.Application(middlewares=[make_tracing(tracer), middleware])
        self._routes.add_to(application)
        self._listener = Listener(application)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._listener.port

    @property
    def at_work(self) -> int:
        """Requests in progress that have arrived as a whole."""
        return self._admission.at_work

    async def listen(self, host: str, port: int) -> None:
        """Accept connections; until there is an evaluator, ``/ping`` says 503.

        Args:
            host: the address to listen on.
            port: the port; 0 takes a free one.

        Raises:
            UsageError: the address cannot be listened on.
        """
        await self._listener.listen(host, port)
        _log.info("listening", host=host, port=self.port)

    def answer_with(
        self, evaluator: Evaluator, *, contexts: int, spells_control: Callable[[str], bool]
    ) -> None:
        """Answer questions from now on.

        Args:
            evaluator: who answers.
            contexts: how many requests are worth sending at once.
            spells_control: whether a text holds the spelling of a control token of the model.
        """
        self._admission.evaluator = evaluator
        self.probes.evaluator = evaluator
        self._exchange.spells_control = spells_control
        self._routes.contexts = contexts

    async def drain(self, seconds: float) -> int:
        """Wait up to *seconds* for requests in progress; return how many are left."""
        try:
            async with asyncio.timeout(seconds):
                await self._admission.idle.wait()
        except TimeoutError:
            _log.warning("drain_deadline_passed", requests=self._admission.at_work)
        return self._admission.at_work

    async def close(self) -> None:
        """Close the server and what is left of its connections."""
        await self._listener.close()
