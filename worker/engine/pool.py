"""The contexts' threads: one thread owns each context, work comes to them through the door."""

import asyncio
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from worker import metrics
from worker.decision.scores import Reading
from worker.engine.door import Door
from worker.engine.exact import evaluate
from worker.engine.llama import Aborted, Context, Model, NativeError
from worker.engine.options import ModelOptions
from worker.engine.plan import Plan, plan
from worker.errors import (
    CannotRun,
    DeadlinePassed,
    DecodeFailed,
    EngineFailed,
    Rejected,
    WorkerError,
)
from worker.ports import Evaluation, Lane, Reply

_log = structlog.get_logger()

Labels = tuple[int, ...]


class _GivenUp(Exception):
    """The caller was cancelled: nobody waits for the answer any more."""


@dataclass(eq=False, slots=True)
class _Work:
    """One evaluation on its way through the pool."""

    plan: Plan
    prompts: Sequence[Sequence[int]]
    labels: Sequence[Labels]
    deadline: float | None
    answer: asyncio.Future[Reply]
    loop: asyncio.AbstractEventLoop
    entered_at: float = field(default_factory=time.monotonic)
    given_up: bool = False  # set on the loop, read by the context's thread: no lock needed

    def is_useless(self) -> bool:
        return self.given_up or (self.deadline is not None and time.monotonic() > self.deadline)

    def check(self) -> None:
        """Raise when nobody can use the answer any more."""
        if self.given_up:
            raise _GivenUp
        if self.is_useless():
            raise DeadlinePassed("the deadline passed before the last answer was read")

    def resolve(self, reply: Reply | WorkerError) -> None:
        """Hand the answer to the loop; a loop that is closed needs none."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._set, reply)

    def _set(self, reply: Reply | WorkerError) -> None:
        if self.answer.done():
            return
        if isinstance(reply, WorkerError):
            self.answer.set_exception(reply)
        else:
            self.answer.set_result(reply)


class Pool:
    """An engine of *contexts* contexts over one model.

    Args:
        model: must outlive the pool.
        options: of each context.
        contexts: how many.
        max_waiting_tokens: the most tokens that may wait for a context.
    """

    def __init__(
        self, model: Model, options: ModelOptions, *, contexts: int, max_waiting_tokens: int
    ) -> None:
        self._model = model
        self._options = options
        self._door: Door[_Work] = Door(max_waiting_tokens)
        self._changed = threading.Condition()
        self._closing = False
        self._failure: EngineFailed | None = None
        self._threads_in_all = contexts * options.threads
        self._busy = 0
        self._threads = [_ContextThread(self, model, options, number) for number in range(contexts)]

    def start(self) -> None:
        """Make the contexts and start their threads.

        Raises:
            CannotRun: a context cannot be made; those made before are closed.
        """
        try:
            for thread in self._threads:
                thread.open()
        except CannotRun:
            for thread in self._threads:
                thread.shut()
            raise
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Give up what waits or runs, and join the threads."""
        with self._changed:
            self._closing = True
            waiting = self._door.clear()
            self._changed.notify_all()
        for work in waiting:
            work.resolve(EngineFailed("the engine is closed"))
        for thread in self._threads:
            thread.give_up()
        for thread in self._threads:
            thread.join()

    @property
    def failure(self) -> EngineFailed | None:
        """Why the engine is broken for good, or None."""
        return self._failure

    async def score(
        self, evaluation: Evaluation, lane: Lane, deadline: float | None = None
    ) -> Reply:
        """Evaluate all branches of one ticket; see :class:`worker.ports.Engine`."""
        loop = asyncio.get_running_loop()
        # A long state takes milliseconds to tokenise: not on the loop.
        prepared = await loop.run_in_executor(None, self._prepare, evaluation)
        work = _Work(*prepared, deadline=deadline, answer=loop.create_future(), loop=loop)
        with self._changed:
            if self._failure or self._closing:
                raise EngineFailed(str(self._failure or "the engine is closed"))
            self._door.put(work, lane, work.plan.evaluated_tokens)
            self._changed.notify()
            metrics.ENGINE_WAITING_TOKENS.set(self._door.waiting_tokens)
        try:
            return await work.answer
        except asyncio.CancelledError:
            work.given_up = True
            with self._changed:
                self._door.drop(work)
            raise

    def take(self) -> _Work | None:
        """Wait for work; None when the pool closes. Called by the contexts' threads."""
        with self._changed:
            while not len(self._door) and not self._closing:
                self._changed.wait()
            if self._closing:
                return None
            work = self._door.take()
            self._busy += 1
            metrics.ENGINE_WAITING_TOKENS.set(self._door.waiting_tokens)
            return work

    def finish(self) -> None:
        """Say that the work taken last is done. Called by the contexts' threads."""
        with self._changed:
            self._busy -= 1

    def threads_each(self) -> int:
        """Return a busy context's share of all threads: idle contexts lend theirs."""
        return max(1, self._threads_in_all // max(1, self._busy))

    def fail(self, error: EngineFailed) -> None:
        """Mark the engine as broken and answer everything that waits. Called by threads."""
        with self._changed:
            self._failure = error
            waiting = self._door.clear()
        for work in waiting:
            work.resolve(EngineFailed(str(error)))

    def _prepare(self, evaluation: Evaluation) -> tuple[Plan, list[list[int]], list[Labels]]:
        encode = self._model.encode
        prompts = [encode(branch.prompt) for branch in evaluation.branches]
        first, second = (encode(probe) for probe in evaluation.probes)
        planned = plan((first, second), prompts)
        if planned.cells > self._options.context_tokens:
            raise Rejected(
                "prompt_too_long",
                f"the longest prompt has {planned.cells} tokens,"
                f" the context holds {self._options.context_tokens}",
                "state",
            )
        return planned, prompts, [branch.label_tokens for branch in evaluation.branches]


class _ContextThread(threading.Thread):
    """Owns one context and evaluates what the pool hands it."""

    def __init__(self, pool: Pool, model: Model, options: ModelOptions, number: int) -> None:
        super().__init__(name=f"llama-context-{number}", daemon=True)
        self._pool = pool
        self._model = model
        self._options = options
        self._context: Context | None = None
        self._work: _Work | None = None

    def open(self) -> None:
        """Make the context."""
        self._context = Context(self._model, self._options, abort=self._should_abort)

    def shut(self) -> None:
        """Close the context, when there is one."""
        if self._context is not None:
            self._context.close()
            self._context = None

    def give_up(self) -> None:
        """Make a running evaluation end at once."""
        if self._work is not None:
            self._work.given_up = True

    def run(self) -> None:
        try:
            while (work := self._pool.take()) is not None:
                self._serve(work)
        finally:
            self.shut()

    def _serve(self, work: _Work) -> None:
        self._work = work
        try:
            work.resolve(self._answer(work))
        except _GivenUp:
            work.resolve(EngineFailed("the engine is closed"))
        except WorkerError as error:
            work.resolve(error)
        except Exception as error:  # noqa: BLE001 - nobody joins this thread to see it
            _log.exception("context_thread_failed")
            failure = EngineFailed(f"a context's thread failed: {type(error).__name__}")
            self._pool.fail(failure)
            work.resolve(failure)
        finally:
            self._work = None
            self._pool.finish()

    def _should_abort(self) -> bool:
        work = self._work
        return work is not None and work.is_useless()

    def _answer(self, work: _Work) -> Reply:
        started_at = time.monotonic()
        readings = self._read(work)
        ended_at = time.monotonic()
        metrics.EVALUATED_TOKENS.inc(work.plan.evaluated_tokens)
        return Reply(
            readings=readings,
            input_tokens=work.plan.input_tokens,
            evaluated_tokens=work.plan.evaluated_tokens,
            waiting_seconds=started_at - work.entered_at,
            evaluation_seconds=ended_at - started_at,
        )

    def _read(self, work: _Work) -> tuple[Reading, ...]:
        """Evaluate, once more on a new context when llama.cpp refuses a call."""
        try:
            return self._evaluate(work)
        except NativeError as error:
            _log.warning("decode_failed", error=str(error), retry=True)
            metrics.DECODE_FAILURES.inc()
        self._rebuild()
        try:
            return self._evaluate(work)
        except NativeError as error:
            metrics.DECODE_FAILURES.inc()
            self._rebuild()
            raise DecodeFailed(f"llama.cpp refused the same work twice: {error}") from error

    def _evaluate(self, work: _Work) -> tuple[Reading, ...]:
        if self._context is None:
            raise EngineFailed("this context could not be rebuilt")
        context = self._context

        def between_calls() -> None:
            work.check()
            context.set_threads(self._pool.threads_each())

        try:
            return evaluate(context, work.plan, work.prompts, work.labels, between_calls)
        except Aborted:
            work.check()
            raise NativeError("llama.cpp gave a call up by itself") from None

    def _rebuild(self) -> None:
        self.shut()
        try:
            self.open()
        except CannotRun as error:
            failure = EngineFailed(f"a context failed and cannot be rebuilt: {error}")
            self._pool.fail(failure)
            raise failure from error
