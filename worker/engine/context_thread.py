"""The thread that owns one context and evaluates what it is handed."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from worker import metrics
from worker.decision.scores import Reading
from worker.engine.exact import ExactRun, Paused
from worker.engine.llama import Aborted, Context, Model, NativeError
from worker.engine.options import ModelOptions
from worker.engine.trunks import Found, State
from worker.engine.work import GivenUp, Work
from worker.errors import CannotRun, DecodeFailed, EngineFailed, WorkerError

if TYPE_CHECKING:
    from worker.engine.pool import Pool

_log = structlog.get_logger()


class ContextThread(threading.Thread):
    """Owns one context.

    Args:
        pool: where work comes from; its methods may be called from any thread.
        model: must outlive the thread.
        options: of the context.
        number: for the thread's name.
    """

    def __init__(self, pool: "Pool", model: Model, options: ModelOptions, number: int) -> None:
        super().__init__(name=f"llama-context-{number}", daemon=True)
        self._pool = pool
        self._model = model
        self._options = options
        self._context: Context | None = None
        self._work: Work | None = None
        self._restored: Found | None = None
        self._calls = 0
        self._progressed_at = time.monotonic()

    def open(self) -> None:
        """Make the context.

        Raises:
            CannotRun: llama.cpp cannot.
        """
        self._context = Context(self._model, self._options, abort=self._should_abort)

    def shut(self) -> None:
        """Close the context, when there is one."""
        if self._context is not None:
            self._context.close()
            self._context = None

    def stalled_seconds(self) -> float:
        """Return how long ago a call began or ended; 0 while idle."""
        return 0.0 if self._work is None else time.monotonic() - self._progressed_at

    def run(self) -> None:
        """Evaluate until the pool closes."""
        try:
            while (work := self._pool.take()) is not None:
                self._serve(work)
        finally:
            self.shut()

    def at_border(self, *, may_pause: bool) -> None:
        """Check, before a call, whether to go on; lend or borrow threads."""
        work, context = self._work, self._context
        if work is None or context is None:
            raise EngineFailed("a call without work or context")
        self._progressed_at = time.monotonic()
        work.check()
        # At least one call a turn, so that paused work goes on however many overtake it.
        if may_pause and self._calls and self._pool.should_pause(work):
            raise Paused
        self._calls += 1
        context.set_threads(self._pool.threads_each())

    def find(self, trunk: Sequence[int]) -> Found | None:
        """Return a parked trunk, and remember it in case it cannot be restored."""
        self._restored = self._pool.find(trunk)
        return self._restored

    def park(self, trunk: Sequence[int], save: Callable[[], State]) -> None:
        """Keep the state of a trunk."""
        self._pool.park(trunk, save)

    def _serve(self, work: Work) -> None:
        self._work, self._calls, self._restored = work, 0, None
        work.begin()
        try:
            reply = work.reply(self._read(work))
            metrics.ENGINE_SECONDS.labels("waiting").observe(reply.waiting_seconds)
            metrics.ENGINE_SECONDS.labels("evaluating").observe(reply.evaluation_seconds)
            work.resolve(reply)
        except Paused:
            self._work = None
            self._pool.set_aside(work)
            return
        except GivenUp:
            work.resolve(EngineFailed("the engine is closed"))
        except WorkerError as error:
            work.resolve(error)
        except Exception as error:  # noqa: BLE001 - nobody joins this thread to see it
            _log.exception("context_thread_failed")
            failure = EngineFailed(f"a context's thread failed: {type(error).__name__}")
            self._pool.fail(failure)
            work.resolve(failure)
        self._work = None
        self._pool.finish(work)

    def _should_abort(self) -> bool:
        work = self._work
        return work is not None and work.is_useless()

    def _read(self, work: Work) -> tuple[Reading, ...]:
        """Evaluate, once more on a new context when llama.cpp refuses a call."""
        try:
            return self._evaluate(work)
        except NativeError as error:
            _log.warning("decode_failed", error=str(error), retry=True)
            metrics.DECODE_FAILURES.inc()
        self._start_over(work)
        try:
            return self._evaluate(work)
        except NativeError as error:
            metrics.DECODE_FAILURES.inc()
            self._start_over(work)
            raise DecodeFailed(f"llama.cpp refused the same work twice: {error}") from error

    def _evaluate(self, work: Work) -> tuple[Reading, ...]:
        if self._context is None:
            raise EngineFailed("this context could not be rebuilt")
        before = work.progress.evaluated_tokens
        run = ExactRun(
            context=self._context,
            host=self,
            plan=work.plan,
            prompts=work.prompts,
            labels=work.labels,
            snapshots=not self._model.is_divisible,
        )
        try:
            return run.run(work.progress)
        except Aborted:
            work.check()
            raise NativeError("llama.cpp gave a call up by itself") from None
        finally:
            metrics.EVALUATED_TOKENS.inc(work.progress.evaluated_tokens - before)

    def _start_over(self, work: Work) -> None:
        """Rebuild the context, and trust no saved state that this work has used."""
        work.progress.forget_state()
        if self._restored is not None:
            self._pool.drop(self._restored)
            self._restored = None
        self.shut()
        try:
            self.open()
        except CannotRun as error:
            failure = EngineFailed(f"a context failed and cannot be rebuilt: {error}")
            self._pool.fail(failure)
            raise failure from error
