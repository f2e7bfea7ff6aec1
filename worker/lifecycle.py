"""The process's life: its phase, the one stop event, the signals that set it."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import structlog

from worker.errors import ExitCode, WorkerError

_log = structlog.get_logger()


class Phase(StrEnum):
    """Where the process is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"


class Lifecycle:
    """Every reason to stop becomes one event; whoever runs reads only that.

    Attributes:
        stopping: set once, never cleared.
        failure: the error that ended the process, when one did.
    """

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.stopping = asyncio.Event()
        self.failure: WorkerError | None = None
        self.unfinished = 0
        self._stopped_at = 0.0
        self._signalled = False
        self._hangup_calls: list[Callable[[], Awaitable[None]]] = []
        self._in_hand: dict[str, Callable[[], object]] = {}

    def ready(self) -> None:
        """Enter the phase in which work is taken, unless a stop came first."""
        if not self.stopping.is_set():
            self.phase = Phase.READY
            _log.info("ready")

    def stop(self, reason: str) -> None:
        """Begin to drain; a second call changes nothing."""
        if self.stopping.is_set():
            return
        self.phase = Phase.DRAINING
        self._stopped_at = time.monotonic()
        self.stopping.set()
        _log.info("drain_started", reason=reason)

    def fail(self, error: WorkerError) -> None:
        """Begin to drain because of *error*; the first one decides the exit code."""
        if self.failure is None:
            self.failure = error
            _log.error("failed", error=str(error))
        self.stop(type(error).__name__)

    def draining_seconds(self) -> float:
        """Return how long ago the stop was; both faces drain within one deadline."""
        return time.monotonic() - self._stopped_at if self.stopping.is_set() else 0.0

    def stopped(self) -> None:
        """Enter the last phase: everything is closed."""
        self.phase = Phase.STOPPED
        _log.info("stopped", unfinished=self.unfinished)

    def exit_code(self) -> ExitCode:
        """Return what to tell the supervisor."""
        if self.failure is not None:
            return self.failure.exit_code
        return ExitCode.DRAINED_UNFINISHED if self.unfinished else ExitCode.DONE

    def tell_abandoned(self, name: str, in_hand: Callable[[], object]) -> None:
        """Name what is in hand should a second signal end the process: ids or counts, no text."""
        self._in_hand[name] = in_hand

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Drain on the first SIGTERM or SIGINT; exit at once on the second."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    @contextmanager
    def hangups(self) -> Iterator[None]:
        """Answer each SIGHUP with what :meth:`on_hangup` was told; none ends the process."""
        asked = asyncio.Event()
        answering = asyncio.ensure_future(self._answer_each(asked))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, asked.set)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            answering.cancel()

    def on_hangup(self, call: Callable[[], Awaitable[None]]) -> None:
        """Await *call* too after each SIGHUP; a signal meanwhile calls once more."""
        self._hangup_calls.append(call)

    async def _answer_each(self, asked: asyncio.Event) -> None:
        while True:
            await asked.wait()
            asked.clear()
            if not self._hangup_calls:
                _log.info("hangup_ignored")
            for call in self._hangup_calls:
                await call()

    def _on_signal(self, number: signal.Signals) -> None:
        if self._signalled:
            abandoned = {name: in_hand() for name, in_hand in self._in_hand.items()}
            _log.warning("exit_forced", signal=number.name, **abandoned)
            os._exit(128 + number)
        self._signalled = True
        self.stop(number.name)
