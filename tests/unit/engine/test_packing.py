"""Packing: which tickets share a call, on which sequences, in which cells."""

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.engine.packing import PATIENCE_CALLS, Branch, Packing, Room, Step, Tree, next_tree
from worker.engine.plan import Plan, plan

Token = tuple[int, int | None, int]
"""Whose ticket, which branch (None: the trunk), which position."""


def make_tree(trunk_tokens: int, *own: int, urgent: bool = False) -> Tree:
    branches = (
        Branch(index, trunk_tokens, trunk_tokens + length) for index, length in enumerate(own)
    )
    return Tree(trunk_tokens, deque(branches), urgent)


@dataclass
class Memory:
    """What llama.cpp would hold: the tokens of each sequence, shared ones counted once."""

    room: Room
    sequences: dict[int, list[Token]] = field(default_factory=dict)
    read: list[tuple[int, int]] = field(default_factory=list)

    def fork(self, step: Step) -> None:
        for source, target in step.forks:
            assert not self.sequences.get(target)
            self.sequences[target] = list(self.sequences[source])

    def decode(self, step: Step, numbers: dict[Tree, int]) -> None:
        assert 0 < len(step) <= self.room.call_tokens
        for part in step.parts:
            assert part.sequences
            assert self.room.shared_tokens or len(part.sequences) == 1
            branch = None if part.branch is None else part.branch.index
            for sequence in part.sequences:
                assert 0 <= sequence < self.room.sequences
                held = self.sequences.setdefault(sequence, [])
                assert part.span.start == len(held)  # no gap, no overlap
                held += [
                    (numbers[part.tree], branch, position)
                    for position in range(part.span.start, part.span.stop)
                ]
        resident = {token for held in self.sequences.values() for token in held}
        assert len(resident) <= self.room.cells

    def read_ends(self, step: Step, numbers: dict[Tree, int], packing: Packing) -> None:
        for part in step.parts:
            if part.branch is None or not part.reads:
                continue
            number, index = numbers[part.tree], part.branch.index
            trunk = part.tree.trunk_tokens
            expected: list[Token] = [(number, None, at) for at in range(trunk)]
            expected += [(number, index, at) for at in range(trunk, part.branch.stop)]
            assert expected == self.sequences[part.branch.sequence]
            self.read.append((number, index))
            del self.sequences[packing.close(part.tree, part.branch)]


def evaluate(room: Room, trees: list[Tree], refusals: deque[bool]) -> Memory:
    """Evaluate *trees* in order of arrival; now and then llama.cpp refuses a call."""
    memory, packing = Memory(room), Packing(room)
    numbers = {tree: number for number, tree in enumerate(trees)}
    waiting, active = deque(trees), list[Tree]()
    while waiting or active:
        while waiting and packing.takes(waiting[0]):
            active.append(waiting.popleft())
            packing.add(active[-1])
        step = packing.step(room.call_tokens)
        memory.fork(step)
        while refusals and refusals.popleft() and len(step) > 1:
            step = packing.step(len(step) // 2)
            memory.fork(step)
        memory.decode(step, numbers)
        packing.done(step)
        memory.read_ends(step, numbers, packing)
        for tree in [tree for tree in active if tree.is_done]:
            active.remove(tree)
            for sequence in packing.remove(tree):
                del memory.sequences[sequence]
    assert not memory.sequences
    return memory


shapes = st.tuples(
    st.integers(0, 90), st.lists(st.integers(1, 40), min_size=1, max_size=9), st.booleans()
)


@given(
    shapes=st.lists(shapes, min_size=1, max_size=8),
    call_tokens=st.integers(1, 150),
    sequences=st.integers(2, 12),
    spare_cells=st.integers(0, 200),
    shared_tokens=st.booleans(),
    refusals=st.lists(st.booleans(), max_size=20),
)
@example([(60, [5] * 9, False)], 1000, 3, 0, True, [])
@example([(60, [5] * 9, True), (0, [3], False)], 64, 4, 5, False, [True, True])
def test_every_branch_is_read_once_after_its_whole_prompt(
    shapes: list[tuple[int, list[int], bool]],
    call_tokens: int,
    sequences: int,
    spare_cells: int,
    shared_tokens: bool,
    refusals: list[bool],
) -> None:
    """Whatever shares a call, each branch sees its trunk and its own tokens, within all bounds."""
    cells = max(trunk + max(own) for trunk, own, _ in shapes) + spare_cells
    room = Room(call_tokens, sequences, cells, shared_tokens)
    trees = [make_tree(trunk, *own, urgent=urgent) for trunk, own, urgent in shapes]

    memory = evaluate(room, trees, deque(refusals))

    expected = [(n, i) for n, (_, own, _) in enumerate(shapes) for i in range(len(own))]
    assert expected == sorted(memory.read)


def test_a_small_ticket_is_one_call() -> None:
    """Trunk and branches go together, the trunk once for all of them."""
    packing = Packing(Room(call_tokens=512, sequences=8, cells=1000))
    tree = make_tree(60, 30, 30, 20)
    packing.add(tree)

    step = packing.step(512)

    assert 60 + 30 + 30 + 20 == len(step)
    assert () == step.forks
    trunk, *branches = step.parts
    assert [4, 1, 1, 1] == [len(trunk.sequences), *(len(part.sequences) for part in branches)]


def test_small_tickets_share_a_call() -> None:
    """A call takes as many tickets as it has tokens for, and the beginning of one more."""
    packing = Packing(Room(call_tokens=100, sequences=32, cells=1000))
    for _ in range(3):
        packing.add(make_tree(20, 10, 10))

    step = packing.step(100)

    assert 100 == len(step)
    assert 3 == len({id(part.tree) for part in step.parts})


def test_without_shared_tokens_branches_come_in_a_second_call() -> None:
    """A recurrent memory gets the trunk first, then copies of it, then the branches."""
    packing = Packing(Room(call_tokens=512, sequences=8, cells=1000, shared_tokens=False))
    packing.add(make_tree(60, 30, 30))

    first = packing.step(512)
    packing.done(first)
    second = packing.step(512)

    assert (60, 60) == (len(first), len(second))
    assert (0, 2) == (len(first.forks), len(second.forks))


def test_a_long_trunk_takes_no_sequences_for_branches() -> None:
    """Branches get their sequences in the call in which their trunk ends."""
    packing = Packing(Room(call_tokens=100, sequences=8, cells=1000))
    tree = make_tree(150, 10, 10)
    packing.add(tree)

    first = packing.step(100)
    assert [] == tree.open
    packing.done(first)
    second = packing.step(100)

    assert 50 + 20 == len(second)
    assert 2 == len(second.forks)


def test_urgent_trees_go_first() -> None:
    """What somebody waits for is at the front of the next call, whenever it came."""
    packing = Packing(Room(call_tokens=50, sequences=8, cells=1000))
    packing.add(make_tree(100, 10))
    urgent = make_tree(20, 5, urgent=True)
    packing.add(urgent)

    assert urgent is packing.step(50).parts[0].tree


@pytest.mark.parametrize(
    ("room", "fits"),
    [
        (Room(100, sequences=3, cells=140), True),
        (Room(100, sequences=2, cells=140), False),
        (Room(100, sequences=3, cells=139), False),
    ],
)
def test_takes_what_there_is_room_for(room: Room, *, fits: bool) -> None:
    """A second ticket needs two sequences, and cells for its trunk and longest branch."""
    packing = Packing(room)
    packing.add(make_tree(60, 20, 5))

    assert fits is packing.takes(make_tree(50, 30, 1))


def test_trunks_never_lock_each_other_out() -> None:
    """A ticket is not taken in if its trunk leaves no room for another's longest branch."""
    packing = Packing(Room(100, sequences=8, cells=100))
    packing.add(make_tree(10, 80))

    assert not packing.takes(make_tree(20, 1))
    assert packing.takes(make_tree(5, 1))


def test_a_removed_tree_leaves_nothing() -> None:
    """Sequences and cells of a tree that is given up are free again."""
    room = Room(100, sequences=3, cells=50)
    packing = Packing(room)
    tree = make_tree(30, 10, 10)
    packing.add(tree)
    packing.done(packing.step(45))

    assert room.sequences == len(packing.remove(tree))
    assert packing.takes(make_tree(30, 20))


def make_call(packing: Packing, tokens: int = 1000) -> list[Tree]:
    """Make a call; return whose tokens were in it, with what was read closed."""
    step = packing.step(tokens)
    packing.done(step)
    for part in step.parts:
        if part.branch is not None and part.reads:
            packing.close(part.tree, part.branch)
    return [part.tree for part in step.parts]


def test_callers_who_fill_every_call_leave_one_in_four() -> None:
    """Batch work gets a call when so many in a row were filled without it."""
    packing = Packing(Room(call_tokens=50, sequences=16, cells=5000))
    batch = make_tree(400, 10)
    packing.add(batch)
    for _ in range(4):
        packing.add(make_tree(900, 10, urgent=True))

    calls = [make_call(packing) for _ in range(8)]

    assert [3, 7] == [number for number, trees in enumerate(calls) if trees[0] is batch]
    assert 100 == batch.position
    assert 3 == PATIENCE_CALLS


def test_nobody_is_let_in_while_the_first_finds_no_room() -> None:
    """When the oldest tree's branch gets no cells, though due, no other may take what is freed."""
    packing = Packing(Room(call_tokens=100, sequences=16, cells=300))
    patient, large = make_tree(50, 150), make_tree(10, 120, 120, urgent=True)
    packing.add(patient)
    assert [patient] == make_call(packing, 50)
    packing.add(large)
    small = make_tree(2, 5, urgent=True)
    taken = []
    for _ in range(5):
        taken.append(packing.takes(small))
        assert [large] == list({id(tree): tree for tree in make_call(packing, 20)}.values())

    assert [True, True, True, True, False] == taken
    assert packing.takes(small, without=[patient])
    packing.remove(patient)
    assert packing.takes(small)


def test_only_what_loses_nothing_may_be_set_aside() -> None:
    """A forked branch is decoded to its end first; a trunk or a whole branch can be saved."""
    packing = Packing(Room(call_tokens=40, sequences=16, cells=1000))
    forked, whole = make_tree(50, 60), make_tree(0, 60)
    packing.add(forked)
    seen = []
    for _ in range(3):
        seen.append((forked.may_pause, forked.kept))
        make_call(packing)
    seen.append((forked.may_pause, forked.kept))
    packing.remove(forked)
    packing.add(whole)
    seen.append((whole.may_pause, whole.kept))
    make_call(packing)
    seen.append((whole.may_pause, whole.kept))

    holder = seen[1][1][0]
    assert [(False, None), (True, (holder, 40)), (False, (holder, 50)), (True, (holder, 50))] == (
        seen[:4]
    )
    assert [(False, None), (True, (whole.open[0].sequence, 40))] == seen[4:]


def test_a_whole_branch_goes_on_where_it_was() -> None:
    """A branch that was set aside is open from the start, up to where it was decoded."""
    packing = Packing(Room(call_tokens=40, sequences=2, cells=100))
    tree = make_tree(0, 60, 10)
    packing.add(tree)
    sequence = packing.reopen(tree, 45)

    assert 100 - 45 == packing.free_cells
    first, second = packing.step(40).parts
    assert (range(45, 60), (sequence,)) == (
        range(first.span.start, first.span.stop),
        first.sequences,
    )
    assert 10 == len(second.span)


# --- what comes next of a ticket ------------------------------------------------------------------


def planned() -> tuple[Plan, list[int]]:
    trunk = [1, 2, 3, 4]
    prompts = [[*trunk, 5], [9, 9, 9], [*trunk, 6, 7]]
    return plan(([*trunk, 1], [*trunk, 2]), prompts), [len(prompt) for prompt in prompts]


def test_what_shares_no_trunk_comes_first() -> None:
    """Branches that do not begin with the trunk are evaluated before it takes cells."""
    tree = next_tree(*planned(), read=())

    assert tree is not None
    assert (0, [1]) == (tree.trunk_tokens, [branch.index for branch in tree.waiting])


def test_then_the_trunk_with_its_branches() -> None:
    """Forked branches start where the trunk ends; those that are read are left out."""
    tree = next_tree(*planned(), read={1, 0}, urgent=True)

    assert tree is not None
    assert (3, True) == (tree.trunk_tokens, tree.urgent)
    assert [(2, 3, 6)] == [(branch.index, branch.start, branch.stop) for branch in tree.waiting]


def test_nothing_comes_after_the_last_reading() -> None:
    """A ticket whose branches are all read has no next tree."""
    assert next_tree(*planned(), read={0, 1, 2}) is None
