"""A thread that owns one context, whatever it evaluates on it."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from worker import metrics
from worker.decision.scores import Reading
from worker.engine.calls import NativeError
from worker.engine.options import ModelOptions
from worker.engine.trunks import Found, State
from worker.engine.work import Work
from worker.errors import CannotRun, EngineFailed
from worker.ports import Reply

if TYPE_CHECKING:  # so that this thread can be tried without llama.cpp
    from worker.engine.llama import Context, Model
    from worker.engine.pool import Pool

_log = structlog.get_logger()


class ContextThread(threading.Thread):
    """Owns one context.

    Args:
        pool: where work comes from; its methods may be called from any thread.
        model: must outlive the thread.
        options: of the context.
        number: for the thread's name.

    Attributes:
        resident_tokens: that the context held after its last call; any thread may ask.
    """

    def __init__(self, pool: "Pool", model: "Model", options: ModelOptions, number: int) -> None:
        super().__init__(name=f"llama-context-{number}", daemon=True)
        self._pool = pool
        self._model = model
        self._options = options
        self._context: Context | None = None
        self._progressed_at: float | None = None  # None while idle
        self.resident_tokens = 0

    def open(self) -> None:
        """Make the context.

        Raises:
            CannotRun: llama.cpp cannot.
        """
        self._context = self._model.make_context(self._options, self.should_abort)

    def shut(self) -> None:
        """Close the context, when there is one."""
        if self._context is not None:
            self._context.close()
            self._context = None

    def stalled_seconds(self) -> float:
        """Return how long ago a call began or ended; 0 while idle."""
        progressed_at = self._progressed_at
        return 0.0 if progressed_at is None else time.monotonic() - progressed_at

    def run(self) -> None:
        """Evaluate until the pool closes."""
        try:
            self.evaluate()
        finally:
            self.shut()

    def evaluate(self) -> None:
        """Take work and evaluate it, until there is none any more."""
        raise NotImplementedError

    def should_abort(self) -> bool:
        """Return whether nobody needs the call that is being made."""
        raise NotImplementedError

    def opened(self) -> "Context":
        """Return the context.

        Raises:
            EngineFailed: it could not be rebuilt.
        """
        if self._context is None:
            raise EngineFailed("this context could not be rebuilt")
        return self._context

    def progressed(self) -> None:
        """Note that a call ended, or begins; lend or borrow threads."""
        self._progressed_at = time.monotonic()
        self.opened().set_threads(self._pool.threads_each())

    def rest(self) -> None:
        """Note that only other contexts have anything to do: this one has not stalled."""
        self._progressed_at = None

    def idle(self) -> None:
        """Note that there is nothing to do."""
        self.rest()
        self.resident_tokens = 0

    def find(
        self, work: Work, trunk: Sequence[int], most_tokens: int | None = None
    ) -> Found | None:
        """Return a parked trunk, and remember it in case it cannot be restored."""
        work.restored = None if work.begins_anew else self._pool.find(trunk, most_tokens)
        return work.restored

    def park(self, trunk: Sequence[int], save: Callable[[], State]) -> None:
        """Keep the state of a trunk."""
        self._pool.park(trunk, save)

    def reply(self, work: Work, readings: tuple[Reading, ...]) -> Reply:
        """Word the answer of work that is done."""
        reply = work.reply(readings)
        shared = work.plan.trunk_tokens * max(0, len(work.plan.forked) - 1)
        metrics.REUSED_TOKENS.labels("shared").inc(shared)
        metrics.ENGINE_SECONDS.labels("waiting").observe(reply.waiting_seconds)
        metrics.ENGINE_SECONDS.labels("evaluating").observe(reply.evaluation_seconds)
        return reply

    def end(self, work: Work) -> None:
        """Tell the pool that work is done, one way or another."""
        self._pool.finish(work)

    def note_refusal(self, error: NativeError) -> None:
        """Count and log a call that llama.cpp refused."""
        _log.warning("decode_failed", error=str(error))
        metrics.DECODE_FAILURES.inc()

    def distrust(self, works: Sequence[Work]) -> None:
        """Let *works* begin anew, without any state that they had."""
        for work in works:
            work.begins_anew = True
            work.progress.forget_state()
            if work.restored is not None:
                self._pool.drop(work.restored)
                work.restored = None

    def start_over(self, works: Sequence[Work]) -> None:
        """Rebuild the context, and trust no saved state that *works* have used.

        Raises:
            EngineFailed: the context cannot be rebuilt; the pool knows.
        """
        self.distrust(works)
        self.shut()
        try:
            self.open()
        except CannotRun as error:
            failure = EngineFailed(f"a context failed and cannot be rebuilt: {error}")
            self._pool.fail(failure)
            raise failure from error

    def crashed(self, error: Exception) -> EngineFailed:
        """Tell everybody of an error that has no business here; return what waits for it."""
        _log.exception("context_thread_failed")  # nobody joins this thread to see it
        failure = EngineFailed(f"a context's thread failed: {type(error).__name__}")
        self._pool.fail(failure)
        return failure
