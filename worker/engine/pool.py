"""The engine: contexts over one model, and the bounded front door that work enters by."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker import metrics
from worker.decision.text import PromptText
from worker.engine.branches import Branches
from worker.engine.context_thread import ContextThread
from worker.engine.door import Door
from worker.engine.exact_thread import ExactThread
from worker.engine.forecast import Throughput, tokens_before
from worker.engine.options import Batching, ModelOptions
from worker.engine.packed_thread import PackedThread
from worker.engine.plan import CHUNK_TOKENS
from worker.engine.spill import Spill
from worker.engine.tokenising import Tokenising
from worker.engine.trunks import Found, State, Trunks
from worker.engine.work import Offer, Work
from worker.errors import Backlogged, CannotRun, DeadlinePassed, EngineFailed
from worker.ports import Evaluation, Lane, Reply

if TYPE_CHECKING:  # so that the pool can be tried without llama.cpp
    from worker.engine.llama import Model


@dataclass(frozen=True, slots=True)
class _Turn:
    """Who evaluates some work, and how many of its tokens were evaluated before."""

    thread: ContextThread
    evaluated_before: int


class Pool:
    """An engine of several contexts over one model.

    Args:
        model: must outlive the pool.
        options: of each context.
        contexts: how many.
        batching: whether tickets share calls.
        max_waiting_tokens: the most tokens that may wait for a context.
        max_parked_bytes: the most host memory that finished trunks may take; 0 parks none.
        spill: where trunks go that have no room in memory; None forgets them.
    """

    def __init__(
        self,
        model: "Model",
        options: ModelOptions,
        *,
        contexts: int,
        batching: Batching = Batching.EXACT,
        max_waiting_tokens: int,
        max_parked_bytes: int = 0,
        spill: Spill | None = None,
    ) -> None:
        self._model = model
        self._changed = threading.Condition()  # guards everything below
        self._door: Door[Work] = Door(max_waiting_tokens)
        self._trunks = Trunks(max_parked_bytes, divisible=model.is_divisible)
        self._parks = max_parked_bytes > 0
        self._spill = spill if self._parks else None
        self._running: dict[Work, _Turn] = {}
        self._offers: dict[Work, Offer] = {}
        self._joined: set[ContextThread] = set()  # read branches of another context's work
        self._throughput = Throughput()
        self._tokenising = Tokenising(model.encode, options.context_tokens)
        self._closing = False
        self._failure: EngineFailed | None = None
        self._threads_in_all = contexts * options.threads
        is_packed = batching is Batching.PACKED
        self._call_tokens = options.batch_tokens if is_packed else CHUNK_TOKENS
        make = PackedThread if is_packed else ExactThread
        self._threads: list[ContextThread] = [
            make(self, model, options, number) for number in range(contexts)
        ]

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
            self._tokenising.close()
            raise
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Give up what waits or runs, and join the threads."""
        with self._changed:
            self._closing = True
            waiting = self._door.clear()
            self._changed.notify_all()
            self._show_waiting()
            for work in self._running:
                work.given_up = True
        for work in waiting:
            work.resolve(EngineFailed("the engine is closed"))
        self._tokenising.close()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()
        if self._spill is not None:
            for trunk, state in self._trunks.items():
                self._spill.save(trunk, state)

    def stalled_seconds(self) -> float:
        """Return the longest time that a busy context has been inside one call."""
        return max(thread.stalled_seconds() for thread in self._threads)

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait for a context."""
        return self._door.waiting_tokens

    def check_room(self, lane: Lane, deadline: float | None = None) -> None:
        """Refuse work that could not begin in time; see :class:`worker.ports.Engine`."""
        with self._changed:
            self._check_open()
            self._door.check(1, tokens_per_second=self._throughput.tokens_per_second)
            self._refuse_late(lane, (0,), deadline)

    async def score(
        self, evaluation: Evaluation, lane: Lane, deadline: float | None = None
    ) -> Reply:
        """Evaluate all branches of one ticket; see :class:`worker.ports.Engine`."""
        [reply] = await self.score_all((evaluation,), lane, deadline)
        return reply

    async def score_all(
        self, evaluations: Sequence[Evaluation], lane: Lane, deadline: float | None = None
    ) -> tuple[Reply, ...]:
        """Evaluate all windows of one ticket; see :class:`worker.ports.Engine`."""
        loop = asyncio.get_running_loop()
        self._check_open()
        # A long state takes milliseconds to tokenise: not on the loop.
        prepared = [await self._tokenising.prepare(one) for one in evaluations]
        works = [Work(*one, lane, deadline, loop.create_future(), loop) for one in prepared]
        self._let_in(works, lane, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                return tuple(await asyncio.gather(*(work.answer for work in works)))
        except TimeoutError:
            raise DeadlinePassed("the deadline passed before the last answer was read") from None
        finally:
            self._give_up([work for work in works if not work.is_answered])

    async def measure(self, prompts: Sequence[PromptText]) -> list[int]:
        """Return the tokens of each prompt; see :class:`worker.ports.Engine`."""
        self._check_open()
        return await self._tokenising.measure(prompts)

    # --- what the contexts' threads call ---------------------------------------------------

    def take(self, thread: ContextThread) -> Work | None:
        """Wait for work; None when the pool closes."""
        with self._changed:
            while not self._closing:
                work = self._take(thread)
                if work is not None:
                    return work
                self._changed.wait()
            return None

    def take_or_join(self, thread: ContextThread) -> Work | Offer | None:
        """Wait for work, or for branches of work that another context has; None at the end.

        After joining, the thread must :meth:`leave`.
        """
        with self._changed:
            while not self._closing:
                taken = self._take(thread) or self._join(thread)
                if taken is not None:
                    return taken
                self._changed.wait()
            return None

    def offer(self, work: Work, branches: Branches, save: Callable[[], State]) -> None:
        """Let idle contexts read branches of work whose trunk is decoded, if there are any."""
        with self._changed:
            idle = len(self._threads) - len(self._running) - len(self._joined)
            if work in self._offers or work.begins_anew or len(branches) < 2 or idle <= 0:
                return
            if self._door.peek(self._is_ready) is not None:
                return
        state = save()
        with self._changed:
            self._offers[work] = Offer(work, state, branches)
            self._changed.notify_all()

    def withdraw(self, work: Work) -> None:
        """Say that nobody can join *work* any more."""
        with self._changed:
            self._offers.pop(work, None)

    def is_wanted(self) -> bool:
        """Return whether work waits that a context which joined should take instead."""
        with self._changed:
            return self._closing or self._door.peek(self._is_ready) is not None

    def leave(self, thread: ContextThread) -> None:
        """Say that a context reads no branches of another's work any more."""
        with self._changed:
            self._joined.discard(thread)
            self._changed.notify_all()

    def take_if(self, thread: ContextThread, fits: Callable[[Work], bool]) -> Work | None:
        """Return work that *fits*, as its turn comes; do not wait."""
        with self._changed:
            work = None if self._closing else self._door.take_if(fits, self._is_ready)
            if work is not None:
                self._hand_out(work, thread)
            return work

    def waits_urgently(self) -> Work | None:
        """Return the caller's work that is next in its lane, if there is any."""
        with self._changed:
            return self._door.first(Lane.INTERACTIVE, self._is_ready)

    def finish(self, work: Work) -> None:
        """Say that work is done, one way or another."""
        with self._changed:
            self._end_turn(work)
            self._changed.notify_all()

    def set_aside(self, work: Work) -> None:
        """Put paused work back, in front of its lane."""
        with self._changed:
            self._end_turn(work)
            if not (self._closing or self._failure):
                self._door.put_back(work, work.lane, work.left_tokens)
                self._changed.notify_all()
                return
        work.resolve(EngineFailed(str(self._failure or "the engine is closed")))

    def should_pause(self, work: Work) -> bool:
        """Return whether a batch evaluation should make room for an interactive one."""
        # Without the lock: a stale answer is put right at the next border.
        return (
            work.lane is Lane.BATCH
            and len(self._running) >= len(self._threads)
            and self._door.waits(Lane.INTERACTIVE)
        )

    def threads_each(self) -> int:
        """Return a busy context's share of all threads: idle contexts lend theirs."""
        with self._changed:
            busy = len({turn.thread for turn in self._running.values()} | self._joined)
        return max(1, self._threads_in_all // max(1, busy))

    def find(self, trunk: Sequence[int], most_tokens: int | None = None) -> Found | None:
        """Return a parked trunk, of at most *most_tokens*, that covers a beginning of *trunk*."""
        with self._changed:
            found = self._trunks.find(trunk, most_tokens)
        if self._spill is not None and (found is None or found.usable_tokens < len(trunk)):
            spilled = self._spill.find(trunk)
            if spilled and (found is None or spilled.usable_tokens > found.usable_tokens):
                found = spilled
        reused = found.usable_tokens if found else 0
        metrics.REUSED_TOKENS.inc(reused)
        metrics.TRUNK_LOOKUPS.labels("hit" if reused else "miss").inc()
        return found

    def park(self, trunk: Sequence[int], save: Callable[[], State]) -> None:
        """Keep the state of a trunk, and let those go on who wait for the same one."""
        if not self._parks:
            return
        state = save()
        with self._changed:
            evicted = self._trunks.park(trunk, state)
            metrics.TRUNK_EVICTIONS.inc(len(evicted))
            metrics.PARKED_BYTES.set(self._trunks.bytes_used)
            self._changed.notify_all()
        if self._spill is not None:  # not under the lock: a disk is slow
            for other, other_state in evicted:
                self._spill.save(other, other_state)

    def drop(self, found: Found) -> None:
        """Forget a parked trunk that could not be restored."""
        with self._changed:
            self._trunks.drop(found.parked)
            metrics.PARKED_BYTES.set(self._trunks.bytes_used)

    def fail(self, error: EngineFailed) -> None:
        """Mark the engine as broken for good and answer everything that waits."""
        with self._changed:
            self._failure = error
            waiting = self._door.clear()
            self._show_waiting()
        for work in waiting:
            work.resolve(EngineFailed(str(error)))

    def _check_open(self) -> None:
        if self._failure or self._closing:
            raise EngineFailed(str(self._failure or "the engine is closed"))

    def _let_in(self, works: Sequence[Work], lane: Lane, deadline: float | None) -> None:
        """Put works at the door, all of them or none."""
        tokens = [work.left_tokens for work in works]
        with self._changed:
            self._check_open()
            self._refuse_late(lane, tokens, deadline)
            speed = self._throughput.tokens_per_second
            self._door.put_all(tuple(zip(works, tokens, strict=True)), lane, speed)
            self._show_waiting()
            self._changed.notify_all()

    def _refuse_late(self, lane: Lane, tokens: Sequence[int], deadline: float | None) -> None:
        """Refuse works whose last answer would come after *deadline*, as far as can be told.

        Args:
            lane: who waits.
            tokens: of each work.
            deadline: event-loop time.

        Raises:
            Backlogged: with the numbers. Work that can begin at once is always let in.
        """
        begins_at_once = len(self._running) < len(self._threads) and not len(self._door)
        if deadline is None or begins_at_once or not self._throughput.is_measured:
            return
        running = (
            (turn.thread, work.lane, work.left_tokens) for work, turn in self._running.items()
        )
        ahead = self._door.tokens_ahead(lane) + tokens_before(lane, running, self._call_tokens)
        needed_seconds = self._throughput.seconds(ahead, tokens, len(self._threads))
        left_seconds = deadline - time.monotonic()
        if needed_seconds > left_seconds:
            raise Backlogged(ahead, needed_seconds, left_seconds)

    def _end_turn(self, work: Work) -> None:
        turn = self._running.pop(work)
        tokens = work.progress.evaluated_tokens - turn.evaluated_before
        self._throughput.note(tokens, time.monotonic())
        metrics.ENGINE_TOKENS_PER_SECOND.set(self._throughput.tokens_per_second)

    def _give_up(self, works: Sequence[Work]) -> None:
        """Make *works* end at once, wherever they are."""
        if not works:
            return
        with self._changed:
            for work in works:
                work.given_up = True
                self._door.drop(work)
            self._show_waiting()

    def _is_ready(self, work: Work) -> bool:
        """Return whether work need not wait for another context to finish the same trunk."""
        if not (self._parks and work.trunk):
            return True
        same = any(other.trunk == work.trunk for other in self._running)
        return not same or self._trunks.has_key(work.trunk)

    def _take(self, thread: ContextThread) -> Work | None:
        work = self._door.take(self._is_ready)
        if work is not None:
            self._hand_out(work, thread)
        return work

    def _join(self, thread: ContextThread) -> Offer | None:
        for offer in self._offers.values():
            if offer.is_open and len(offer.branches):
                self._joined.add(thread)
                return offer
        return None

    def _hand_out(self, work: Work, thread: ContextThread) -> None:
        if not self._running:
            self._throughput.resume(time.monotonic())
        self._running[work] = _Turn(thread, work.progress.evaluated_tokens)
        self._show_waiting()

    def _show_waiting(self) -> None:
        metrics.ENGINE_WAITING_TOKENS.set(self._door.waiting_tokens)
