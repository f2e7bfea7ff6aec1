"""Evaluate several tickets in shared calls: more tokens at once, for GPUs above all.

What shares a call moves the last bits of every answer in it, so these answers are equal to exact
ones only within the noise of the weights' quantisation.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from worker.decision.scores import Reading
from worker.engine.calls import CellsExhausted, NativeError, Segment
from worker.engine.packing import Packing, Part, Room, Step, Tree, next_tree
from worker.engine.trunks import Found, State
from worker.engine.work import Work
from worker.ports import Lane


class Context(Protocol):
    """What packed evaluation needs of a llama.cpp context."""

    def decode_together(self, segments: Sequence[Segment]) -> list[int]:
        """Decode all *segments* in one call; return where those to be read can be read.

        Raises:
            CellsExhausted: there is no room; nothing was stored.
        """
        ...

    def read(self, label_tokens: Sequence[int], at: int) -> Reading:
        """Read the logits of the token at *at* of the last call."""
        ...

    def copy(self, source: int, target: int) -> None:
        """Make an empty sequence a copy of another."""
        ...

    def remove(self, sequence: int) -> None:
        """Remove a whole sequence."""
        ...

    def cut(self, tokens: int, sequence: int) -> None:
        """Remove what a sequence holds from position *tokens* on."""
        ...

    def save(self, sequence: int, spare: int) -> State:
        """Return the state of a sequence; *spare* is empty, and is empty afterwards."""
        ...

    def restore(self, state: State, sequence: int, spare: int) -> None:
        """Make an empty sequence what it was when *state* was saved."""
        ...


class Host(Protocol):
    """What packed evaluation asks of whoever runs it."""

    def find(self, work: Work, trunk: Sequence[int], most_tokens: int) -> Found | None:
        """Return a parked trunk that covers a beginning of *trunk*, which is that of *work*.

        It has at most *most_tokens*, all of which will be restored.
        """
        ...

    def park(self, trunk: Sequence[int], save: Callable[[], State]) -> None:
        """Keep the state of a trunk, which *save* returns; or do not."""
        ...


class PackedRun:
    """The tickets that one context evaluates side by side.

    Args:
        context: empty, with one sequence more than *room* says, which is used for saving.
        host: whoever runs it.
        room: of the context.
    """

    def __init__(self, context: Context, host: Host, room: Room) -> None:
        self._context = context
        self._host = host
        self._room = room
        self._spare = room.sequences
        self._packing = Packing(room)
        self._trees: dict[Work, Tree] = {}
        self._works: dict[Tree, Work] = {}

    @property
    def works(self) -> list[Work]:
        """What is being evaluated, the oldest first."""
        return list(self._trees)

    def takes(self, work: Work) -> bool:
        """Return whether there is room for *work*."""
        return self._packing.takes(_tree_of(work))

    def add(self, work: Work) -> None:
        """Take work in; :meth:`takes` must have said yes.

        It goes on from where it was set aside, else from a parked trunk, else it begins.

        Raises:
            NativeError: llama.cpp does not take the saved state. The work is not in, what was
                there is as it was.
        """
        tree = _tree_of(work)
        self._packing.add(tree)
        self._trees[work] = tree
        self._works[tree] = work
        try:
            self._resume(work, tree)
        except NativeError:
            self.drop(work)
            self._context.remove(self._spare)
            raise

    def drop(self, work: Work) -> None:
        """Leave work as it is; its sequences are removed."""
        tree = self._trees.pop(work)
        del self._works[tree]
        for sequence in self._packing.remove(tree):
            self._context.remove(sequence)

    def set_aside(self, work: Work) -> None:
        """Leave work with its trunk, or its whole branch, saved in its progress."""
        kept = self._trees[work].kept
        if kept is not None:
            work.progress.saved = self._context.save(kept[0], self._spare)
        self.drop(work)

    def in_the_way(self, work: Work) -> list[Work]:
        """Return the batch work to set aside so that *work* can be added, the oldest spared.

        Returns:
            Nothing when there is room already, or when not even all that may pause made enough.
        """
        tree = _tree_of(work)
        chosen = [other for other in self._works if not other.urgent and other.may_pause]
        if not self._packing.takes(tree, without=chosen):
            return []
        for other in list(chosen):
            fewer = [one for one in chosen if one is not other]
            if self._packing.takes(tree, without=fewer):
                chosen = fewer
        return [self._works[other] for other in chosen]

    @property
    def resident_tokens(self) -> int:
        """Tokens that the context holds."""
        return self._room.cells - self._packing.free_cells

    def step(self) -> list[Work]:
        """Make one call.

        Returns:
            Work that has left: everything is read, or what is left must be added anew.

        Raises:
            NativeError: llama.cpp refused the call.
        """
        step, rows = self._decode()
        self._packing.done(step)
        for part in step.parts:
            work = self._works[part.tree]
            work.progress.count(len(part.span), part.kind)
            if part.branch is None:
                self._park(part.tree, work)
        for part, row in zip((part for part in step.parts if part.reads), rows, strict=True):
            self._read(part, row)
        for part in step.parts:
            kept = part.tree.kept
            self._works[part.tree].progress.position = kept[1] if kept else 0
        left = [work for tree, work in self._works.items() if tree.is_done]
        for work in left:
            self.drop(work)
        return left

    def _resume(self, work: Work, tree: Tree) -> None:
        """Go on from where the work was set aside, or from a parked trunk."""
        progress, holder = work.progress, tree.holder
        if progress.saved is not None:
            if holder is None:
                sequence = self._packing.reopen(tree, progress.position)
            else:
                sequence, tree.position = holder, progress.position
            self._context.restore(progress.saved, sequence, self._spare)
            progress.saved = None
            return
        found = None
        if holder is not None:
            found = self._host.find(work, _trunk(work), self._packing.free_cells)
            if found is not None:
                self._context.restore(found.parked.state, holder, self._spare)
                if found.usable_tokens < found.parked.tokens:
                    self._context.cut(found.usable_tokens, holder)
                tree.position = found.usable_tokens
        progress.position = tree.position

    def _decode(self) -> tuple[Step, list[int]]:
        """Make the next call, a smaller one when the cells are exhausted."""
        tokens = self._room.call_tokens
        while True:
            step = self._packing.step(tokens)
            for source, target in step.forks:
                self._context.copy(source, target)
            try:
                return step, self._context.decode_together(list(map(self._segment, step.parts)))
            except CellsExhausted:
                tokens = len(step) // 2
                if not tokens:
                    raise

    def _segment(self, part: Part) -> Segment:
        work = self._works[part.tree]
        index = work.plan.forked[0] if part.branch is None else part.branch.index
        tokens = work.prompts[index][part.span.start : part.span.stop]
        return Segment(tokens, part.span.start, part.sequences, part.reads)

    def _park(self, tree: Tree, work: Work) -> None:
        holder = tree.holder
        if holder is not None and tree.position == tree.trunk_tokens:
            self._host.park(_trunk(work), lambda: self._context.save(holder, self._spare))

    def _read(self, part: Part, row: int) -> None:
        if part.branch is None:
            raise ValueError("a trunk is not read")
        work, index = self._works[part.tree], part.branch.index
        work.progress.readings[index] = self._context.read(work.labels[index], row)
        self._context.remove(self._packing.close(part.tree, part.branch))


def _tree_of(work: Work) -> Tree:
    lengths = [len(prompt) for prompt in work.prompts]
    urgent = work.lane is Lane.INTERACTIVE
    tree = next_tree(work.plan, lengths, work.progress.readings.keys(), urgent=urgent)
    if tree is None:
        raise ValueError("nothing is left to be read")
    return tree


def _trunk(work: Work) -> Sequence[int]:
    return work.prompts[work.plan.forked[0]][: work.plan.trunk_tokens]
