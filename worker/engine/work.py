"""One evaluation on its way through the pool, and who waits for it."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from worker.decision.scores import Reading
from worker.engine.branches import Branches
from worker.engine.exact import Progress
from worker.engine.plan import Plan
from worker.engine.trunks import Found, State, trunk_key
from worker.errors import DeadlinePassed, WorkerError
from worker.ports import Lane, Reply


class GivenUp(Exception):
    """The caller was cancelled: nobody waits for the answer any more."""


@dataclass(eq=False, slots=True)
class Work:
    """One evaluation.

    Attributes:
        plan: made from *prompts*.
        prompts: the tokens of each branch's full prompt.
        labels: the label tokens of each branch.
        lane: who waits.
        deadline: event-loop time after which the answer is useless.
        answer: what the caller awaits.
        loop: the caller's event loop.
        trunk: a key of the whole trunk; empty when there is none.
        progress: how far it has come.
        restored: the parked trunk it was continued from, in case that turns out to be unusable.
        begins_anew: whether llama.cpp refused it before; it then trusts no saved state.
        given_up: set on the loop, read by a context's thread; no lock is needed.
    """

    plan: Plan
    prompts: Sequence[Sequence[int]]
    labels: Sequence[tuple[int, ...]]
    lane: Lane
    deadline: float | None
    answer: asyncio.Future[Reply]
    loop: asyncio.AbstractEventLoop
    trunk: bytes = field(init=False)
    progress: Progress = field(default_factory=Progress)
    restored: Found | None = None
    begins_anew: bool = False
    given_up: bool = False
    _entered_at: float = field(default_factory=time.monotonic)
    _begun_at: float | None = None

    def __post_init__(self) -> None:
        forked = self.plan.forked
        self.trunk = trunk_key(self.prompts[forked[0]][: self.plan.trunk_tokens]) if forked else b""

    @property
    def left_tokens(self) -> int:
        """Tokens that are still to be decoded, however many were before."""
        read, trunk_tokens = self.progress.readings, self.plan.trunk_tokens
        whole = [len(self.prompts[index]) for index in self.plan.whole if index not in read]
        own = [
            len(self.prompts[index]) - trunk_tokens
            for index in self.plan.forked
            if index not in read
        ]
        left = sum(whole) + sum(own) + (trunk_tokens if own else 0)
        return max(0, left - self.progress.position)

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer or an error, and no cancellation."""
        return self.answer.done() and not self.answer.cancelled()

    def is_useless(self) -> bool:
        """Return whether nobody can use the answer any more."""
        return self.given_up or (self.deadline is not None and time.monotonic() > self.deadline)

    def check(self) -> None:
        """Raise when nobody can use the answer any more.

        Raises:
            GivenUp: the caller was cancelled.
            DeadlinePassed: it is too late.
        """
        if self.given_up:
            raise GivenUp
        if self.is_useless():
            raise DeadlinePassed("the deadline passed before the last answer was read")

    def begin(self) -> None:
        """Note that a context takes the work up, for the first time or after a pause."""
        if self._begun_at is None:
            self._begun_at = time.monotonic()

    def reply(self, readings: tuple[Reading, ...]) -> Reply:
        """Word the answer of work that is done."""
        begun_at = self._entered_at if self._begun_at is None else self._begun_at
        return Reply(
            readings=readings,
            prompt_tokens=tuple(map(len, self.prompts)),
            trunk_tokens=self.plan.trunk_tokens,
            evaluated_tokens=self.progress.evaluated_tokens,
            waiting_seconds=begun_at - self._entered_at,
            evaluation_seconds=time.monotonic() - begun_at,
        )

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


@dataclass(eq=False, slots=True)
class Offer:
    """What a context needs to join another that evaluates *work*.

    Attributes:
        work: whose trunk is decoded.
        state: of that trunk.
        branches: what is still to be read.
        is_open: until a context that joined was refused a call.
    """

    work: Work
    state: State
    branches: Branches
    is_open: bool = True
