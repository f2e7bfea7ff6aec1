"""The engine: the threads of several contexts over one model, and what they share."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from worker import metrics
from worker.decision.text import PromptText
from worker.engine.branches import Branches
from worker.engine.context_thread import ContextThread
from worker.engine.exact_thread import ExactThread
from worker.engine.options import Batching, ModelOptions
from worker.engine.packed_thread import PackedThread
from worker.engine.plan import CHUNK_TOKENS
from worker.engine.schedule import Schedule
from worker.engine.spill import Spill
from worker.engine.tokenising import Tokenising
from worker.engine.trunks import Found, State, Trunks
from worker.engine.work import Offer, Work
from worker.errors import CannotRun, DeadlinePassed, EngineFailed, Rejected
from worker.ports import Evaluation, Lane, Reply

if TYPE_CHECKING:  # so that the pool can be tried without llama.cpp
    from worker.engine.llama import Model


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
        self._changed = threading.Condition()  # guards everything below
        self._trunks = Trunks(max_parked_bytes, divisible=model.is_divisible)
        self._parks = max_parked_bytes > 0
        self._spill = spill if self._parks else None
        self._offers: dict[Work, Offer] = {}
        self._joined: set[ContextThread] = set()  # read branches of another context's work
        self._tokenising = Tokenising(model.encode, options.context_tokens)
        self._closing = False
        self._failure: EngineFailed | None = None
        self._threads_in_all = contexts * options.threads
        is_packed = batching is Batching.PACKED
        self._schedule = Schedule(
            contexts=contexts,
            call_tokens=options.batch_tokens if is_packed else CHUNK_TOKENS,
            max_waiting_tokens=max_waiting_tokens,
            parked=self._trunks if self._parks else None,
        )
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
            waiting = self._schedule.clear()
            self._changed.notify_all()
            for work in self._schedule.running:
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

    def resident_tokens(self) -> int:
        """Return the tokens that all contexts held after their last calls."""
        return sum(thread.resident_tokens for thread in self._threads)

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait for a context."""
        return self._schedule.waiting_tokens

    def check_room(self, lane: Lane, deadline: float | None = None) -> None:
        """Refuse work that could not begin in time; see :class:`worker.ports.Engine`."""
        with self._changed:
            self._check_open()
            self._schedule.check(lane, deadline)

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
        try:
            prepared = [await self._tokenising.prepare(one) for one in evaluations]
        except Rejected:
            metrics.ENGINE_REFUSALS.labels(lane.value, "long").inc()
            raise
        works = [Work(*one, lane, deadline, loop.create_future(), loop) for one in prepared]
        with self._changed:
            self._check_open()
            self._schedule.put_all(works, lane, deadline)
            self._changed.notify_all()
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
                work = self._schedule.take(thread)
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
                taken = self._schedule.take(thread) or self._join(thread)
                if taken is not None:
                    return taken
                self._changed.wait()
            return None

    def offer(self, work: Work, branches: Branches, save: Callable[[], State]) -> None:
        """Let idle contexts read branches of work whose trunk is decoded, if there are any."""
        with self._changed:
            idle = len(self._threads) - len(self._schedule.running) - len(self._joined)
            if work in self._offers or work.begins_anew or len(branches) < 2 or idle <= 0:
                return
            if self._schedule.has_ready():
                return
            parked = self._trunks.get(work.trunk)
        # What is parked already need not lie in memory twice.
        state = save() if parked is None else parked.state
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
            return self._closing or self._schedule.has_ready()

    def leave(self, thread: ContextThread) -> None:
        """Say that a context reads no branches of another's work any more."""
        with self._changed:
            self._joined.discard(thread)
            self._changed.notify_all()

    def take_if(self, thread: ContextThread, fits: Callable[[Work], bool]) -> Work | None:
        """Return work that *fits*, as its turn comes; do not wait."""
        with self._changed:
            return None if self._closing else self._schedule.take_if(thread, fits)

    def waits_urgently(self) -> Work | None:
        """Return the caller's work that is next in its lane, if there is any."""
        with self._changed:
            return self._schedule.next_caller()

    def finish(self, work: Work) -> None:
        """Say that work is done, one way or another."""
        with self._changed:
            self._schedule.end(work)
            self._changed.notify_all()

    def set_aside(self, work: Work) -> None:
        """Put paused work back, in front of its lane."""
        with self._changed:
            self._schedule.end(work)
            if not (self._closing or self._failure):
                self._schedule.put_back(work)
                self._changed.notify_all()
                return
        work.resolve(EngineFailed(str(self._failure or "the engine is closed")))

    def should_pause(self, work: Work) -> bool:
        """Return whether a batch evaluation should make room for an interactive one."""
        return self._schedule.must_pause(work.lane)  # without the lock

    def threads_each(self) -> int:
        """Return a busy context's share of all threads: idle contexts lend theirs."""
        with self._changed:
            busy = len(self._schedule.busy | self._joined)
        return max(1, self._threads_in_all // max(1, busy))

    def find(self, trunk: Sequence[int], most_tokens: int | None = None) -> Found | None:
        """Return a parked trunk, of at most *most_tokens*, that covers a beginning of *trunk*."""
        with self._changed:
            found = self._trunks.find(trunk, most_tokens)
        kind = "parked"
        if self._spill is not None and (found is None or found.usable_tokens < len(trunk)):
            spilled = self._spill.find(trunk)
            if spilled and (found is None or spilled.usable_tokens > found.usable_tokens):
                found, kind = spilled, "spilled"
        reused = found.usable_tokens if found else 0
        metrics.REUSED_TOKENS.labels(kind).inc(reused)
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
            waiting = self._schedule.clear()
        for work in waiting:
            work.resolve(EngineFailed(str(error)))

    def _check_open(self) -> None:
        if self._failure or self._closing:
            raise EngineFailed(str(self._failure or "the engine is closed"))

    def _give_up(self, works: Sequence[Work]) -> None:
        """Make *works* end at once, wherever they are."""
        if not works:
            return
        with self._changed:
            for work in works:
                work.given_up = True
                self._schedule.drop(work)

    def _join(self, thread: ContextThread) -> Offer | None:
        for offer in self._offers.values():
            if offer.is_open and len(offer.branches):
                self._joined.add(thread)
                return offer
        return None
