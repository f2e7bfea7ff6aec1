"""Decide which tickets share a call, on which sequences, in which cells. Pure.

A ticket is a tree: one trunk, and branches that go on from its end. The trunk is decoded once, on a
sequence of its own that holds it, and on those of the branches that come along in the same call;
branches that join later get a copy of the held trunk. Where a memory does not take tokens of
several sequences, all branches join later.
"""

from collections import deque
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field
from typing import Literal

from worker.engine.plan import Plan, Span

PATIENCE_CALLS = 3
"""So many calls in a row may pass over the tree that came first; then it goes before all others."""


@dataclass(frozen=True, slots=True)
class Room:
    """What one context has room for.

    Attributes:
        call_tokens: the most tokens of one call.
        sequences: numbered from 0.
        cells: tokens that may be resident, shared ones counted once.
        shared_tokens: whether a token may belong to several sequences; recurrent memories say no.
    """

    call_tokens: int
    sequences: int
    cells: int
    shared_tokens: bool = True


@dataclass(eq=False, slots=True)
class Branch:
    """One question's own tokens.

    Attributes:
        index: among the ticket's branches.
        start: where it leaves the trunk.
        stop: its prompt's length.
        position: up to where it is decoded.
        sequence: while it is open.
    """

    index: int
    start: int
    stop: int
    position: int = field(init=False)
    sequence: int = -1

    def __post_init__(self) -> None:
        self.position = self.start

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(eq=False, slots=True)
class Tree:
    """What is left to decode of one ticket.

    Attributes:
        trunk_tokens: of the shared trunk; 0 when the branches share none.
        waiting: branches that have no sequence yet.
        urgent: whether it goes before others.
        open: branches that have one.
        position: trunk tokens that are decoded.
        holder: the sequence that holds the trunk.
        moved: whether it has come further, in a way that lasts, since it was added.
    """

    trunk_tokens: int
    waiting: deque[Branch]
    urgent: bool = False
    open: list[Branch] = field(default_factory=list)
    position: int = 0
    holder: int | None = None
    moved: bool = False

    @property
    def begun(self) -> Branch | None:
        """The branch that is decoded in part: branches are decoded in order, so there is one."""
        return next((branch for branch in self.open if branch.position > branch.start), None)

    @property
    def kept(self) -> tuple[int, int] | None:
        """The sequence to save when it is set aside, and its tokens; None when there is none."""
        if self.holder is not None:
            return (self.holder, self.position) if self.position else None
        return (self.begun.sequence, self.begun.position) if self.begun else None

    @property
    def may_pause(self) -> bool:
        """Whether it can be set aside without a loss, and has come further since it was added.

        A branch that was forked from a trunk is decoded to its end, as in exact evaluation: it is
        short, and saving it would save the trunk once more.
        """
        return self.moved and (self.holder is None or self.begun is None)

    @property
    def longest_tokens(self) -> int:
        """Own tokens of the longest branch that is not done."""
        return max(map(len, (*self.waiting, *self.open)))

    @property
    def is_done(self) -> bool:
        """Whether every branch was closed."""
        return not (self.waiting or self.open)


def next_tree(
    plan: Plan, lengths: Sequence[int], read: Container[int], *, urgent: bool = False
) -> Tree | None:
    """Return what comes next of a ticket; None when everything is read.

    Branches that do not begin with the trunk come first: they share nothing, and beside them the
    trunk might not fit.

    Args:
        plan: of the ticket.
        lengths: tokens of each branch's full prompt.
        read: indices of branches that are done.
        urgent: whether it goes before others.
    """
    for trunk_tokens, indices in ((0, plan.whole), (plan.trunk_tokens, plan.forked)):
        left = [index for index in indices if index not in read]
        if left:
            branches = (Branch(index, trunk_tokens, lengths[index]) for index in left)
            return Tree(trunk_tokens, deque(branches), urgent)
    return None


@dataclass(frozen=True, slots=True)
class Part:
    """Tokens that one tree adds to a call.

    Attributes:
        tree: whose.
        branch: None for the trunk.
        span: of the branch's full prompt.
        sequences: what the tokens belong to.
    """

    tree: Tree
    branch: Branch | None
    span: Span
    sequences: tuple[int, ...]

    @property
    def reads(self) -> bool:
        """Whether the last token is the end of a prompt."""
        return self.branch is not None and self.span.stop == self.branch.stop

    @property
    def kind(self) -> Literal["trunk", "branch", "whole"]:
        """What the tokens are: of a trunk, of what follows it, or of a prompt without one."""
        if self.branch is None:
            return "trunk"
        return "branch" if self.tree.trunk_tokens else "whole"


@dataclass(frozen=True, slots=True)
class Step:
    """One call.

    Attributes:
        forks: sequences to copy before it, as (from, to).
        parts: its tokens, in order.
    """

    forks: tuple[tuple[int, int], ...]
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return sum(len(part.span) for part in self.parts)


class Packing:
    """The trees that one context evaluates side by side.

    Args:
        room: of the context.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._free = list(reversed(range(room.sequences)))
        self._trees: list[Tree] = []  # in order of arrival
        self._cells = 0  # of all trunks and all open branches
        self._passed_over = 0  # calls in a row in which the first tree got no tokens

    @property
    def free_cells(self) -> int:
        """Cells that hold no token now; some of them are counted on."""
        decoded = sum(
            tree.position + sum(branch.position - branch.start for branch in tree.open)
            for tree in self._trees
        )
        return self._room.cells - decoded

    def takes(self, tree: Tree, without: Collection[Tree] = ()) -> bool:
        """Return whether there is room for another tree, once those in *without* have left."""
        trees = [other for other in self._trees if other not in without]
        if self._passed_over > PATIENCE_CALLS and self._trees[0] in trees:
            return False  # it went first and found no room: who comes now would take that, too
        needed = 2 if tree.trunk_tokens else 1
        if len(self._free) + sum(map(_sequences, without)) < needed:
            return False
        cells = self._cells - sum(map(_cells, without))
        if cells + tree.trunk_tokens + tree.longest_tokens > self._room.cells:
            return False
        # With every branch closed, the longest one of any tree must find room beside all trunks.
        trees.append(tree)
        trunks = sum(other.trunk_tokens for other in trees)
        return trunks + max(other.longest_tokens for other in trees) <= self._room.cells

    def add(self, tree: Tree) -> None:
        """Take a tree in; :meth:`takes` must have said yes."""
        if tree.trunk_tokens:
            tree.holder = self._free.pop()
            self._cells += tree.trunk_tokens
        self._trees.append(tree)

    def reopen(self, tree: Tree, position: int) -> int:
        """Open the first branch of a tree that shares no trunk; return its sequence.

        Args:
            tree: just added.
            position: up to where the sequence will be restored.
        """
        branch = self._open_next(tree)
        branch.position = position
        return branch.sequence

    def remove(self, tree: Tree) -> list[int]:
        """Take a tree out, done or not; return the sequences to be removed."""
        if tree is self._trees[0]:
            self._passed_over = 0
        self._trees.remove(tree)
        sequences = [self.close(tree, branch) for branch in list(tree.open)]
        if tree.holder is not None:
            sequences.append(tree.holder)
            self._free.append(tree.holder)
            self._cells -= tree.trunk_tokens
            tree.holder = None
        return sequences

    def close(self, tree: Tree, branch: Branch) -> int:
        """Close a branch; return the sequence to be removed."""
        tree.moved = True
        tree.open.remove(branch)
        self._free.append(branch.sequence)
        self._cells -= len(branch)
        return branch.sequence

    def step(self, tokens: int) -> Step:
        """Return the next call, of at most so many *tokens*.

        Urgent trees come first, unless they have filled so many calls that the oldest tree is
        due.
        """
        due = self._trees[0] if self._passed_over >= PATIENCE_CALLS else None
        forks: list[tuple[int, int]] = []
        parts: list[Part] = []
        left = min(tokens, self._room.call_tokens)
        for tree in sorted(self._trees, key=lambda tree: not (tree is due or tree.urgent)):
            for part in self._grow(tree, left, forks):
                parts.append(part)
                left -= len(part.span)
            if not left:
                break
        return Step(tuple(forks), tuple(parts))

    def done(self, step: Step) -> None:
        """Note that a call was made."""
        is_served = any(part.tree is self._trees[0] for part in step.parts)
        self._passed_over = 0 if is_served else self._passed_over + 1
        for part in step.parts:
            if part.branch is None:
                part.tree.position = part.span.stop
            else:
                part.branch.position = part.span.stop
            if part.branch is None or part.tree.holder is None:
                part.tree.moved = True

    def _grow(self, tree: Tree, most: int, forks: list[tuple[int, int]]) -> list[Part]:
        """Return up to *most* tokens of a tree, its trunk first."""
        parts = []
        trunk = Span(tree.position, min(tree.trunk_tokens, tree.position + most))
        most -= len(trunk)
        ends = trunk.stop == tree.trunk_tokens
        comes_along = ends and (self._room.shared_tokens or not len(trunk))
        if comes_along:
            self._open(tree, most, forks)
        if tree.holder is not None and len(trunk):
            sharing = [branch.sequence for branch in tree.open]
            parts.append(Part(tree, None, trunk, (tree.holder, *sharing)))
        if comes_along:
            for branch in tree.open:
                own = Span(branch.position, min(branch.stop, branch.position + most))
                if not len(own):
                    break
                parts.append(Part(tree, branch, own, (branch.sequence,)))
                most -= len(own)
        return parts

    def _open(self, tree: Tree, most: int, forks: list[tuple[int, int]]) -> None:
        """Give sequences to as many branches as have tokens among the next *most*."""
        most -= sum(branch.stop - branch.position for branch in tree.open)
        while tree.waiting and most > 0 and self._free:
            if self._cells + len(tree.waiting[0]) > self._room.cells:
                return
            branch = self._open_next(tree)
            if tree.holder is not None and tree.position:
                forks.append((tree.holder, branch.sequence))
            most -= len(branch)

    def _open_next(self, tree: Tree) -> Branch:
        branch = tree.waiting.popleft()
        tree.open.append(branch)
        branch.sequence = self._free.pop()
        self._cells += len(branch)
        return branch


def _sequences(tree: Tree) -> int:
    """Return how many sequences a tree has."""
    return len(tree.open) + (tree.holder is not None)


def _cells(tree: Tree) -> int:
    """Return how many cells a tree counts on."""
    return tree.trunk_tokens + sum(map(len, tree.open))
