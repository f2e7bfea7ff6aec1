"""Decide which work gets a context next, unless it comes too late for that. Not thread-safe."""

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from worker import metrics
from worker.engine.door import Door
from worker.engine.forecast import Throughput, tokens_before
from worker.engine.trunks import Trunks
from worker.engine.work import Work
from worker.errors import Backlogged, EngineBusy
from worker.ports import Lane


@dataclass(frozen=True, slots=True)
class Turn:
    """Who evaluates some work, and how many of its tokens were evaluated before."""

    context: Hashable
    evaluated_before: int


class Schedule:
    """What waits, what runs, and how fast it goes.

    Args:
        contexts: how many there are.
        call_tokens: the most tokens of one call.
        max_waiting_tokens: the most tokens that may wait for a context.
        parked: finished trunks, which work with the same trunk waits for; None: none are kept.

    Attributes:
        running: what contexts evaluate.
    """

    def __init__(
        self, *, contexts: int, call_tokens: int, max_waiting_tokens: int, parked: Trunks | None
    ) -> None:
        self._contexts = contexts
        self._call_tokens = call_tokens
        self._parked = parked
        self._door: Door[Work] = Door(max_waiting_tokens)
        self._throughput = Throughput()
        self.running: dict[Work, Turn] = {}

    def __len__(self) -> int:
        return len(self._door)

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait for a context."""
        return self._door.waiting_tokens

    @property
    def busy(self) -> set[Hashable]:
        """The contexts that evaluate something."""
        return {turn.context for turn in self.running.values()}

    # --- at the door -----------------------------------------------------------------------

    def check(self, lane: Lane, deadline: float | None) -> None:
        """Refuse work that is not known yet, when it could not begin in time.

        Raises:
            EngineBusy: too many tokens wait already.
            Backlogged: the deadline would pass before its turn.
        """
        with _counted(lane):
            self._door.check(1, tokens_per_second=self._throughput.tokens_per_second)
            self._refuse_late(lane, (0,), deadline)

    def put_all(self, works: Sequence[Work], lane: Lane, deadline: float | None) -> None:
        """Let works in, all of them or none.

        Raises:
            EngineBusy: too many tokens wait already.
            Backlogged: the deadline would pass before the last reading.
        """
        tokens = [work.left_tokens for work in works]
        speed = self._throughput.tokens_per_second
        with _counted(lane):
            self._refuse_late(lane, tokens, deadline)
            self._door.put_all(tuple(zip(works, tokens, strict=True)), lane, speed)
        metrics.ENGINE_ADMISSIONS.labels(lane.value).inc(len(works))
        self._show_waiting()

    def drop(self, work: Work) -> None:
        """Take work out of the door, if it still waits."""
        self._door.drop(work)
        self._show_waiting()

    def clear(self) -> list[Work]:
        """Take everything out of the door and return it."""
        waiting = self._door.clear()
        self._show_waiting()
        return waiting

    # --- to the contexts -------------------------------------------------------------------

    def take(self, context: Hashable) -> Work | None:
        """Hand out the work whose turn it is; None when none is ready."""
        return self._hand_out(self._door.take(self._is_ready), context)

    def take_if(self, context: Hashable, fits: Callable[[Work], bool]) -> Work | None:
        """Hand out work that *fits*, as its turn comes."""
        return self._hand_out(self._door.take_if(fits, self._is_ready), context)

    def end(self, work: Work) -> None:
        """Note that work has left its context."""
        turn = self.running.pop(work)
        tokens = work.progress.evaluated_tokens - turn.evaluated_before
        self._throughput.note(tokens, time.monotonic())
        metrics.ENGINE_TOKENS_PER_SECOND.set(self._throughput.tokens_per_second)

    def put_back(self, work: Work) -> None:
        """Put work that was set aside in front of its lane."""
        self._door.put_back(work, work.lane, work.left_tokens)
        self._show_waiting()

    def has_ready(self) -> bool:
        """Return whether work waits that a context could take."""
        return self._door.peek(self._is_ready) is not None

    def next_caller(self) -> Work | None:
        """Return the first work in the interactive lane that is ready, and leave it there."""
        return self._door.first(Lane.INTERACTIVE, self._is_ready)

    def must_pause(self, lane: Lane) -> bool:
        """Return whether work of *lane* should make room: a caller waits and no context is free.

        Needs no lock: a stale answer is put right at the next border.
        """
        return (
            lane is Lane.BATCH
            and len(self.running) >= self._contexts
            and self._door.waits(Lane.INTERACTIVE)
        )

    def _hand_out(self, work: Work | None, context: Hashable) -> Work | None:
        if work is None:
            return None
        if not self.running:
            self._throughput.resume(time.monotonic())
        self.running[work] = Turn(context, work.progress.evaluated_tokens)
        self._show_waiting()
        return work

    def _is_ready(self, work: Work) -> bool:
        """Return whether work need not wait for another context to finish the same trunk."""
        if self._parked is None or not work.trunk:
            return True
        same = any(other.trunk == work.trunk for other in self.running)
        return not same or self._parked.has_key(work.trunk)

    def _refuse_late(self, lane: Lane, tokens: Sequence[int], deadline: float | None) -> None:
        """Refuse works whose last answer would come after *deadline*, as far as can be told.

        Args:
            lane: who waits.
            tokens: of each work.
            deadline: event-loop time.

        Raises:
            Backlogged: with the numbers. Work that can begin at once is always let in.
        """
        begins_at_once = len(self.running) < self._contexts and not len(self._door)
        if deadline is None or begins_at_once or not self._throughput.is_measured:
            return
        running = (
            (turn.context, work.lane, work.left_tokens) for work, turn in self.running.items()
        )
        ahead = self._door.tokens_ahead(lane) + tokens_before(lane, running, self._call_tokens)
        needed_seconds = self._throughput.seconds(ahead, tokens, self._contexts)
        left_seconds = deadline - time.monotonic()
        if needed_seconds > left_seconds:
            raise Backlogged(ahead, needed_seconds, left_seconds)

    def _show_waiting(self) -> None:
        metrics.ENGINE_WAITING_TOKENS.set(self._door.waiting_tokens)


@contextmanager
def _counted(lane: Lane) -> Iterator[None]:
    """Count the refusal that ends the body, if one does."""
    try:
        yield
    except (EngineBusy, Backlogged) as error:
        reason = "busy" if isinstance(error, EngineBusy) else "late"
        metrics.ENGINE_REFUSALS.labels(lane.value, reason).inc()
        raise
