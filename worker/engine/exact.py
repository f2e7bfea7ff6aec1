"""Evaluate one ticket exactly: the same bits whatever else is asked or was evaluated before.

The context is empty before and after. Branches that do not begin with the trunk come first, each
alone in the context; then the trunk, and each branch forked from it with nothing but the trunk
beside it. Between two calls the work may be paused, to go on later on any context. Other contexts
may join: they restore the trunk and read some of the branches, whose bits are the same there.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from worker import metrics
from worker.decision.scores import Reading
from worker.engine.branches import Branches
from worker.engine.plan import CHUNK_TOKENS, Plan, spans
from worker.engine.trunks import Found, State

TRUNK, FORK = 0, 1
"""The two sequences of a context: a trunk, and the branch that is forked from it."""


class Context(Protocol):
    """What exact evaluation needs of a llama.cpp context."""

    def decode(
        self, tokens: Sequence[int], *, position: int, sequence: int, read: bool = False
    ) -> None:
        """Decode *tokens* in one call."""
        ...

    def read(self, label_tokens: Sequence[int]) -> Reading:
        """Read the logits of the last decoded token."""
        ...

    def fork(self) -> None:
        """Make the branch sequence a copy of the whole trunk."""
        ...

    def remove(self, sequence: int) -> None:
        """Remove a whole sequence."""
        ...

    def cut(self, tokens: int) -> None:
        """Remove what the trunk holds from position *tokens* on."""
        ...

    def save(self) -> State:
        """Return the state of the trunk."""
        ...

    def restore(self, state: State) -> None:
        """Make the trunk of an empty context what it was when *state* was saved."""
        ...


class Host(Protocol):
    """What an evaluation asks of whoever runs it."""

    def at_border(self, *, may_pause: bool) -> None:
        """Be told that a call comes next.

        Raises:
            Paused: only if it *may_pause*.
            Exception: anything else gives the work up.
        """
        ...

    def find(self, trunk: Sequence[int]) -> Found | None:
        """Return a parked trunk that covers a beginning of *trunk*."""
        ...

    def park(self, trunk: Sequence[int], save: Callable[[], State]) -> None:
        """Keep the state of a trunk, which *save* returns; or do not."""
        ...

    def share(self, branches: Branches, save: Callable[[], State]) -> None:
        """Let other contexts read *branches* of the trunk whose state *save* returns; or do not.

        Those that do call :meth:`ExactRun.join`. The branches are closed to them at the end.
        """
        ...

    def rest(self) -> None:
        """Be told that only other contexts have anything to do."""
        ...


class Paused(Exception):
    """The work was set aside between two calls; its progress says how to go on."""


@dataclass(slots=True)
class Progress:
    """How far an evaluation has come.

    Attributes:
        readings: of the branches that are done, by index.
        position: tokens of the current trunk, or of the current whole branch, that are decoded.
        saved: their state, while the work is paused.
        evaluated_tokens: tokens decoded so far, by all attempts on all contexts.
    """

    readings: dict[int, Reading] = field(default_factory=dict)
    position: int = 0
    saved: State | None = None
    evaluated_tokens: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def count(self, tokens: int, kind: Literal["trunk", "branch", "whole"]) -> None:
        """Note that so many tokens of a kind were decoded, on whichever context."""
        metrics.EVALUATED_TOKENS.labels(kind).inc(tokens)
        with self._counting:
            self.evaluated_tokens += tokens

    def forget_state(self) -> None:
        """Begin the current trunk or whole branch anew; what was read stays."""
        self.position = 0
        self.saved = None


@dataclass(frozen=True, slots=True)
class ExactRun:
    """One ticket's work on one context.

    Attributes:
        context: empty; it is empty again afterwards, also after an error.
        host: whoever runs it.
        plan: made from *prompts*.
        prompts: the tokens of each branch's full prompt.
        labels: the label tokens of each branch.
        snapshots: whether the last full chunk of a trunk is parked as well. Where states cannot be
            cut back, this is what a trunk with another end can be continued from.
    """

    context: Context
    host: Host
    plan: Plan
    prompts: Sequence[Sequence[int]]
    labels: Sequence[Sequence[int]]
    snapshots: bool = False

    def run(self, progress: Progress) -> tuple[Reading, ...]:
        """Decode what the plan says and read every branch.

        Returns:
            One reading for each branch, in order.

        Raises:
            Paused: *progress* says how to go on.
        """
        try:
            self._resume(progress)
            self._read_whole(progress)
            self._read_forked(progress)
        except Paused:
            if progress.position:
                progress.saved = self.context.save()
            raise
        finally:
            self.context.remove(FORK)
            self.context.remove(TRUNK)
        return tuple(progress.readings[index] for index in range(len(self.prompts)))

    def join(self, state: State, branches: Branches, progress: Progress) -> None:
        """Read some of a ticket's branches, while another context reads the others.

        Args:
            state: of the ticket's whole trunk.
            branches: what is still to be read.
            progress: of the ticket.

        Raises:
            Paused: this context is needed elsewhere; what it had not finished is put back.
        """
        try:
            self.context.restore(state)
            while len(branches):
                self.host.at_border(may_pause=True)
                self._read_next(branches, progress)
        finally:
            self.context.remove(FORK)
            self.context.remove(TRUNK)

    def _resume(self, progress: Progress) -> None:
        if progress.saved is not None:
            self.context.restore(progress.saved)
            progress.saved = None

    def _read_whole(self, progress: Progress) -> None:
        for index in self.plan.whole:
            if index in progress.readings:
                continue
            prompt = self.prompts[index]
            self._decode_trunk(prompt, len(prompt), progress, read=True)
            progress.readings[index] = self.context.read(self.labels[index])
            self.context.remove(TRUNK)
            progress.position = 0

    def _read_forked(self, progress: Progress) -> None:
        waiting = [index for index in self.plan.forked if index not in progress.readings]
        if not waiting:
            return
        trunk = self.prompts[waiting[0]][: self.plan.trunk_tokens]
        if progress.position == 0:
            self._restore(trunk, progress)
        if progress.position < len(trunk):
            self._decode_trunk(trunk, len(trunk), progress, read=False)
            self.host.park(trunk, self.context.save)
        branches = Branches(waiting)
        try:
            while branches.wait(self.host.rest):
                self.host.at_border(may_pause=True)
                self.host.share(branches, self.context.save)
                self._read_next(branches, progress)
        finally:
            branches.close()

    def _read_next(self, branches: Branches, progress: Progress) -> None:
        """Fork, decode and read a branch, unless others have taken the last one."""
        index = branches.take()
        if index is None:
            return
        try:
            self.context.fork()
            self._decode_fork(index, progress)
            progress.readings[index] = self.context.read(self.labels[index])
            self.context.remove(FORK)
        except BaseException:
            branches.put_back(index)
            raise
        branches.finish()

    def _restore(self, trunk: Sequence[int], progress: Progress) -> None:
        found = self.host.find(trunk)
        if found is None:
            return
        self.context.restore(found.parked.state)
        if found.usable_tokens < found.parked.tokens:
            self.context.cut(found.usable_tokens)
        progress.position = found.usable_tokens

    def _decode_trunk(
        self, tokens: Sequence[int], stop: int, progress: Progress, *, read: bool
    ) -> None:
        for span in spans(0, stop):
            if span.start < progress.position:
                continue  # restored, or decoded before a pause
            self.host.at_border(may_pause=True)
            self.context.decode(
                tokens[span.start : span.stop],
                position=span.start,
                sequence=TRUNK,
                read=read and span.stop == stop,
            )
            progress.position = span.stop
            progress.count(len(span), "whole" if read else "trunk")
            if self.snapshots and not read and span.stop % CHUNK_TOKENS == 0:
                self._snapshot(tokens, span.stop, stop)

    def _snapshot(self, tokens: Sequence[int], at: int, stop: int) -> None:
        if at == stop - stop % CHUNK_TOKENS and at < stop:
            self.host.park(tokens[:at], self.context.save)

    def _decode_fork(self, index: int, progress: Progress) -> None:
        prompt = self.prompts[index]
        for number, span in enumerate(spans(self.plan.trunk_tokens, len(prompt))):
            if number:  # before the first call the border was reported already
                self.host.at_border(may_pause=False)
            self.context.decode(
                prompt[span.start : span.stop],
                position=span.start,
                sequence=FORK,
                read=span.stop == len(prompt),
            )
            progress.count(len(span), "branch")
