"""Who may enter: only while there is a model, a place, and time enough for an answer."""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

from worker import metrics
from worker.errors import NotReady
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle, Phase
from worker.ports import Lane
from worker.sidecar.refusal import Refused, overloaded


class Admission:
    """The places that callers take, and the deadline each gets.

    Args:
        lifecycle: nobody enters before ready, or while draining.
        max_callers: places.
        request_seconds: the longest an answer may take.

    Attributes:
        evaluator: None until the model is loaded.
        in_progress: places taken.
        at_work: of those, requests that have arrived as a whole.
        idle: set while none has.
    """

    def __init__(self, lifecycle: Lifecycle, *, max_callers: int, request_seconds: float) -> None:
        self._lifecycle = lifecycle
        self._max_callers = max_callers
        self._request_seconds = request_seconds
        self.evaluator: Evaluator | None = None
        self.in_progress = 0
        self.at_work = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def deadline(self, asked_seconds: str | None) -> float:
        """Return the event-loop time at which an answer comes too late.

        Args:
            asked_seconds: the value of ``X-Request-Timeout``, which may only lower it.

        Raises:
            Refused: it is no positive number.
        """
        seconds = self._request_seconds
        if asked_seconds is not None:
            try:
                asked = float(asked_seconds)
            except ValueError:
                asked = 0.0
            if not (math.isfinite(asked) and asked > 0):
                message = "X-Request-Timeout must be a positive number of seconds"
                raise Refused(400, "api_usage_error", message)
            seconds = min(seconds, asked)
        return asyncio.get_running_loop().time() + seconds

    def ready(self) -> Evaluator:
        """Return the evaluator.

        Raises:
            NotReady: the worker is starting or draining.
        """
        if self.evaluator is None or self._lifecycle.phase is not Phase.READY:
            raise NotReady(f"the worker is {self._lifecycle.phase.value}")
        return self.evaluator

    @contextmanager
    def place(self, deadline: float) -> Iterator[Evaluator]:
        """Hold a place, from before the body is received until the answer is there.

        Raises:
            NotReady: the worker is starting or draining.
            Refused: no place is free.
            EngineBusy: the engine's door is full.
            Backlogged: what waits already takes longer than *deadline* allows.
            EngineFailed: the engine is broken for good.
        """
        evaluator = self.ready()
        if self.in_progress >= self._max_callers:
            raise overloaded(f"{self.in_progress} requests are in progress, no more may be")
        evaluator.engine.check_room(Lane.INTERACTIVE, deadline)
        self._hold(1)
        try:
            yield evaluator
        finally:
            self._hold(-1)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Be waited for when the worker drains: the request is here, and its answer will be."""
        self.at_work += 1
        self.idle.clear()
        try:
            yield
        finally:
            self.at_work -= 1
            if not self.at_work:
                self.idle.set()

    def _hold(self, places: int) -> None:
        self.in_progress += places
        metrics.HTTP_IN_PROGRESS.set(self.in_progress)
