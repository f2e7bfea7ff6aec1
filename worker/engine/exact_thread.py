"""The thread that evaluates one ticket at a time, exactly, or joins another that does."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from worker.decision.scores import Reading
from worker.engine.branches import Branches
from worker.engine.calls import Aborted, NativeError
from worker.engine.context_thread import ContextThread
from worker.engine.exact import ExactRun, Host, Paused
from worker.engine.trunks import Found, State
from worker.engine.work import GivenUp, Offer, Work
from worker.errors import DecodeFailed, EngineFailed, WorkerError
from worker.ports import Reply

_log = structlog.get_logger()


class ExactThread(ContextThread):
    """Evaluates one ticket after the other; between two calls it may be paused for another."""

    _work: Work | None = None
    _calls = 0

    def evaluate(self) -> None:
        """Take work and evaluate it, until there is none any more."""
        while (taken := self._pool.take_or_join(self)) is not None:
            if isinstance(taken, Offer):
                self._join(taken)
            else:
                self._serve(taken)

    def should_abort(self) -> bool:
        """Return whether nobody needs the call that is being made."""
        work = self._work
        return work is not None and work.is_useless()

    def at_border(self, work: Work, *, may_pause: bool) -> None:
        """Check, before a call, whether to go on."""
        self.progressed()
        self.resident_tokens = work.progress.position
        work.check()
        # At least one call a turn, so that paused work goes on however many overtake it.
        if may_pause and self._calls and self._pool.should_pause(work):
            raise Paused
        self._calls += 1

    def at_shared_border(self, work: Work) -> None:
        """Check, before a call for a ticket of another context, whether to go on."""
        self.progressed()
        self.resident_tokens = work.plan.trunk_tokens
        work.check()
        if self._pool.is_wanted():
            raise Paused

    def share(self, work: Work, branches: Branches, save: Callable[[], State]) -> None:
        """Let idle contexts read branches of *work*, if there are any."""
        self._pool.offer(work, branches, save)

    def _serve(self, work: Work) -> None:
        self._work, self._calls = work, 0
        self._progressed_at = time.monotonic()
        work.begin()
        answer = self._answer(work)
        self._work = None
        self.idle()
        if answer is None:
            self._pool.set_aside(work)
            return
        work.resolve(answer)
        self.end(work)

    def _answer(self, work: Work) -> Reply | WorkerError | None:
        """Return what becomes of work; None when it was paused."""
        try:
            return self.reply(work, self._read(work))
        except Paused:
            return None
        except GivenUp:
            return EngineFailed("the engine is closed")
        except WorkerError as error:
            return error
        except Exception as error:  # noqa: BLE001 - this thread must answer whoever waits
            return self.crashed(error)

    def _read(self, work: Work) -> tuple[Reading, ...]:
        """Evaluate, once more on a new context when llama.cpp refuses a call."""
        try:
            return self._evaluate(work)
        except NativeError as error:
            self.note_refusal(error)
        self.start_over([work])
        try:
            return self._evaluate(work)
        except NativeError as error:
            self.note_refusal(error)
            self.start_over([work])
            raise DecodeFailed(f"llama.cpp refused the same work twice: {error}") from error

    def _evaluate(self, work: Work) -> tuple[Reading, ...]:
        try:
            return self._run(work, _Host(self, work)).run(work.progress)
        except Aborted:
            work.check()
            raise NativeError("llama.cpp gave a call up by itself") from None
        finally:
            self._pool.withdraw(work)

    def _run(self, work: Work, host: Host) -> ExactRun:
        return ExactRun(
            context=self.opened(),
            host=host,
            plan=work.plan,
            prompts=work.prompts,
            labels=work.labels,
            snapshots=not self._model.is_divisible,
        )

    def _join(self, offer: Offer) -> None:
        """Read branches of a ticket; whatever goes wrong, the context that has it goes on."""
        work = self._work = offer.work
        self._progressed_at = time.monotonic()
        try:
            self._run(work, _Guest(self, work)).join(offer.state, offer.branches, work.progress)
        except Paused:
            pass
        except (GivenUp, Aborted, WorkerError) as error:
            offer.is_open = False
            if isinstance(error, NativeError):
                self._rebuild(error)
        except Exception:  # noqa: BLE001 - nobody waits for this thread
            offer.is_open = False
            _log.exception("join_failed")
            with suppress(EngineFailed):  # the pool knows
                self.start_over([])
        self._work = None
        self.idle()
        self._pool.leave(self)

    def _rebuild(self, error: NativeError) -> None:
        self.note_refusal(error)
        with suppress(EngineFailed):  # the pool knows
            self.start_over([])


class _Host:
    """What the evaluation of one ticket asks of its thread."""

    def __init__(self, thread: ExactThread, work: Work) -> None:
        self._thread = thread
        self._work = work
        self.park = thread.park
        self.rest = thread.rest

    def at_border(self, *, may_pause: bool) -> None:
        self._thread.at_border(self._work, may_pause=may_pause)

    def find(self, trunk: Sequence[int]) -> Found | None:
        return self._thread.find(self._work, trunk)

    def share(self, branches: Branches, save: Callable[[], State]) -> None:
        self._thread.share(self._work, branches, save)


class _Guest(_Host):
    """What reading branches of another context's ticket asks of its thread."""

    def at_border(self, *, may_pause: bool) -> None:  # noqa: ARG002 - it may at any border
        self._thread.at_shared_border(self._work)
