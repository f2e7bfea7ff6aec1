"""What monitors ask of a worker: is it ready, where is it, what does it count."""

from collections.abc import Callable

from aiohttp import web

from worker import metrics
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle, Phase
from worker.ports import Engine
from worker.troubles import last_troubles


class Probes:
    """The routes that need no evaluator.

    Args:
        lifecycle: whose phase they tell.
        stall_seconds: without progress for so long, the engine counts as broken.
        in_progress: how many requests for decisions are in progress.

    Attributes:
        evaluator: None until the model is loaded.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        *,
        stall_seconds: float,
        in_progress: Callable[[], int] = lambda: 0,
    ) -> None:
        self._lifecycle = lifecycle
        self._stall_seconds = stall_seconds
        self._in_progress = in_progress
        self.evaluator: Evaluator | None = None

    @property
    def engine(self) -> Engine | None:
        """The evaluator's engine; None until the model is loaded."""
        return None if self.evaluator is None else self.evaluator.engine

    def add_to(self, application: web.Application) -> None:
        """Register the routes."""
        application.router.add_get("/ping", self.ping)
        application.router.add_get("/health", self.health)
        application.router.add_get("/metrics", self.metrics)

    async def ping(self, _: web.Request) -> web.Response:
        """Say whether answers can be had: 200 while ready, however busy; else 503."""
        status = "stalled" if self._is_stalled() else self._lifecycle.phase.value
        return web.json_response({"status": status}, status=self._status())

    async def health(self, _: web.Request) -> web.Response:
        """Say where the process is, and how old its last poll and its last progress are."""
        engine = None
        if self.engine is not None:
            engine = {
                "waiting_tokens": self.engine.waiting_tokens,
                "stalled_seconds": round(self.engine.stalled_seconds(), 3),
            }
        body = {
            "phase": self._lifecycle.phase.value,
            "requests_in_progress": self._in_progress(),
            "last_successful_poll_timestamp_seconds": metrics.last_poll(),
            "engine": engine,
            "feedback": {} if self.evaluator is None else self.evaluator.overrides.told(),
            "drift": {} if self.evaluator is None else self.evaluator.drift.told(),
            "last_troubles": last_troubles(),
        }
        return web.json_response(body, status=self._status())

    async def metrics(self, _: web.Request) -> web.Response:
        """Return all metrics in Prometheus' text format."""
        return web.Response(
            body=metrics.exposition(), headers={"Content-Type": metrics.CONTENT_TYPE}
        )

    def _status(self) -> int:
        is_ready = self.engine is not None and self._lifecycle.phase is Phase.READY
        return 200 if is_ready and not self._is_stalled() else 503

    def _is_stalled(self) -> bool:
        return self.engine is not None and self.engine.stalled_seconds() > self._stall_seconds
