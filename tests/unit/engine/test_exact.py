"""Exact evaluation, in a context that checks every call and knows what it was made of."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.decision.scores import Reading
from worker.engine.branches import Branches
from worker.engine.exact import FORK, TRUNK, ExactRun, Paused, Progress
from worker.engine.plan import plan
from worker.engine.trunks import Found, State, Trunks

Cell = tuple[int, int, int]
"""A token, and where the call that decoded it began and how many tokens it had."""


@dataclass
class CheckedContext:
    """A context whose readings depend on every token of a sequence and on the call it came in.

    Attributes:
        fail_at: the number of the call, from 0, that raises.
    """

    fail_at: int | None = None
    cells: dict[int, list[Cell]] = field(default_factory=dict)
    calls: list[tuple[int, int, int]] = field(default_factory=list)
    most_cells: int = 0
    _readable: int | None = None

    def decode(
        self, tokens: Sequence[int], *, position: int, sequence: int, read: bool = False
    ) -> None:
        if len(self.calls) == self.fail_at:
            raise RuntimeError("no")
        self.calls.append((sequence, position, len(tokens)))
        if sequence == TRUNK:
            assert FORK not in self.cells, "the trunk is decoded beside a branch"
        else:
            assert TRUNK in self.cells, "a branch is decoded without its trunk"
        cells = self.cells.setdefault(sequence, [])
        assert position == len(cells), "a call does not follow the one before it"
        cells += [(token, position, len(tokens)) for token in tokens]
        self._readable = sequence if read else None
        # A fork shares the trunk's cells.
        self.most_cells = max(self.most_cells, *(len(held) for held in self.cells.values()))

    def read(self, label_tokens: Sequence[int]) -> Reading:
        assert self._readable is not None, "the last call did not ask for logits"
        seen = tuple(self.cells[self._readable])
        logits = tuple(float(hash((seen, label)) % 10_000) for label in label_tokens)
        return Reading(logits, log_sum_exp=float(hash(seen) % 10_000), top_token=len(seen))

    def fork(self) -> None:
        assert FORK not in self.cells, "a branch is forked over another"
        self.cells[FORK] = list(self.cells[TRUNK])

    def remove(self, sequence: int) -> None:
        self.cells.pop(sequence, None)

    def cut(self, tokens: int) -> None:
        assert 0 < tokens < len(self.cells[TRUNK])
        del self.cells[TRUNK][tokens:]

    def save(self) -> State:
        assert FORK not in self.cells, "a state is saved beside a branch"
        return (bytearray(pickle.dumps(self.cells[TRUNK])),)

    def restore(self, state: State) -> None:
        assert not self.cells, "a state is restored into a context that is not empty"
        (data,) = state
        self.cells[TRUNK] = pickle.loads(data)


@dataclass
class FakeHost:
    """Runs an evaluation: keeps trunks, and ends or pauses the work where it is told to.

    Attributes:
        trunks: where trunks are parked; None parks nothing.
        pauses: for each border at which the work may pause, whether it does; then never.
        give_up_at: the number of the border, from 0, at which the work is given up.
        guests: for each time branches can be shared, what joins then; then nobody.
    """

    trunks: Trunks | None = None
    pauses: Iterator[bool] = field(default_factory=lambda: iter(()))
    give_up_at: int | None = None
    borders: list[bool] = field(default_factory=list)
    guests: Iterator[Callable[[Branches, State], None]] = field(default_factory=lambda: iter(()))

    def at_border(self, *, may_pause: bool) -> None:
        if len(self.borders) == self.give_up_at:
            raise TimeoutError
        self.borders.append(may_pause)
        if may_pause and next(self.pauses, False):
            raise Paused

    def find(self, trunk: Sequence[int]) -> Found | None:
        return self.trunks.find(trunk) if self.trunks else None

    def park(self, trunk: Sequence[int], save: Callable[[], State]) -> None:
        if self.trunks is not None:
            self.trunks.park(trunk, save())

    def share(self, branches: Branches, save: Callable[[], State]) -> None:
        join = next(self.guests, None)
        if join is not None:
            join(branches, save())

    def rest(self) -> None:
        raise AssertionError("guests end before this one goes on")


Prompts = list[list[int]]


def probes_of(trunk: list[int]) -> tuple[list[int], list[int]]:
    return [*trunk, 101, 102], [*trunk, 201]


def evaluation(
    trunk: list[int],
    prompts: Prompts,
    *,
    context: CheckedContext | None = None,
    host: FakeHost | None = None,
    snapshots: bool = False,
) -> ExactRun:
    return ExactRun(
        context or CheckedContext(),
        host or FakeHost(),
        plan(probes_of(trunk), prompts),
        prompts,
        [(5, 6) for _ in prompts],
        snapshots,
    )


def run(context: CheckedContext, trunk: list[int], prompts: Prompts) -> tuple[Reading, ...]:
    return evaluation(trunk, prompts, context=context).run(Progress())


LONG_TRUNK = [token % 7 for token in range(1300)]


def test_a_trunk_is_decoded_once() -> None:
    """Two questions over one long state: the trunk's chunks, then a call for each branch."""
    context = CheckedContext()
    run(context, LONG_TRUNK, [[*LONG_TRUNK, 8], [*LONG_TRUNK, 9, 9]])

    assert [
        (TRUNK, 0, 512),
        (TRUNK, 512, 512),
        (TRUNK, 1024, 275),
        (FORK, 1299, 2),
        (FORK, 1299, 3),
    ] == context.calls


def test_a_long_branch_is_cut_into_chunks_of_its_own() -> None:
    """A branch's chunks are counted from where it leaves the trunk."""
    context = CheckedContext()
    run(context, LONG_TRUNK, [[*LONG_TRUNK, *([8] * 1024)]])

    assert [(FORK, 1299, 512), (FORK, 1811, 511), (FORK, 2322, 2)] == context.calls[3:]


def test_whole_branches_come_first_and_alone() -> None:
    """A branch that does not begin with the trunk sees an empty context, wherever it was asked."""
    trunk = [1, 2, 3, 4]
    context = CheckedContext()
    run(context, trunk, [[*trunk, 7], [9, 9, 9], [*trunk, 8], [8, 8]])

    assert [
        (TRUNK, 0, 3),
        (TRUNK, 0, 2),
        (TRUNK, 0, 3),
        (FORK, 3, 2),
        (FORK, 3, 2),
    ] == context.calls


def test_readings_come_in_the_order_of_the_questions() -> None:
    """Whole branches are evaluated first, yet each question gets its own reading."""
    trunk = [1, 2, 3, 4]
    prompts = [[*trunk, 7], [9, 9, 9], [*trunk, 8], [8, 8]]
    alone = [run(CheckedContext(), trunk, [prompt])[0] for prompt in prompts]

    assert tuple(alone) == run(CheckedContext(), trunk, prompts)
    assert len(set(alone)) == len(alone)


def test_each_branch_is_read_at_its_own_labels() -> None:
    """Labels belong to their branch."""
    prompts = [[1, 2], [3, 4]]
    labels = [(5,), (5, 6, 7)]
    work = ExactRun(CheckedContext(), FakeHost(), plan(([], []), prompts), prompts, labels)

    assert [1, 3] == [len(reading.label_logits) for reading in work.run(Progress())]


branches = st.lists(st.integers(0, 2), min_size=1, max_size=600)


@st.composite
def tickets(draw: st.DrawFn) -> tuple[list[int], Prompts]:
    """Draw a trunk and prompts, of which some begin with it."""
    trunk = draw(st.lists(st.integers(0, 2), max_size=4))
    trunk *= draw(st.sampled_from([1, 1, 128, 129, 200, 342]))
    prompts = draw(
        st.lists(branches | branches.map(lambda end: trunk + end), min_size=1, max_size=4)
    )
    return trunk, prompts


@given(tickets())
def test_a_question_has_the_same_answer_whatever_else_is_asked(
    ticket: tuple[list[int], Prompts],
) -> None:
    """Alone, together, reversed, or after other work on the same context: the same reading."""
    trunk, prompts = ticket
    used = CheckedContext()
    together = run(used, trunk, prompts)

    assert not used.cells
    assert together == run(used, trunk, prompts)
    assert together == run(CheckedContext(), trunk, prompts[::-1])[::-1]
    assert together == tuple(run(CheckedContext(), trunk, [prompt])[0] for prompt in prompts)


@given(tickets())
def test_the_plan_is_kept(ticket: tuple[list[int], Prompts]) -> None:
    """No call has one token, and tokens and cells are as many as the plan says."""
    trunk, prompts = ticket
    context, progress = CheckedContext(), Progress()
    evaluation(trunk, prompts, context=context).run(progress)
    planned = plan(probes_of(trunk), prompts)
    sizes = [size for *_, size in context.calls]

    assert planned.evaluated_tokens == sum(sizes) == progress.evaluated_tokens
    assert planned.cells == context.most_cells
    assert sizes.count(1) == sum(len(prompt) == 1 for prompt in prompts)
    assert max(sizes) <= 512


@given(tickets(), st.lists(st.booleans(), max_size=12))
def test_a_pause_changes_nothing(ticket: tuple[list[int], Prompts], pauses: list[bool]) -> None:
    """Set aside at any borders, and continued on other contexts: the same readings and tokens."""
    trunk, prompts = ticket
    host, progress = FakeHost(pauses=iter(pauses)), Progress()
    contexts: list[CheckedContext] = []
    readings = None
    while readings is None:
        contexts.append(CheckedContext())
        try:
            work = evaluation(trunk, prompts, context=contexts[-1], host=host)
            readings = work.run(progress)
        except Paused:
            assert not contexts[-1].cells

    lone = CheckedContext()
    assert run(lone, trunk, prompts) == readings
    assert lone.calls == [call for context in contexts for call in context.calls]
    assert sum(size for *_, size in lone.calls) == progress.evaluated_tokens


@given(
    st.lists(st.sampled_from([2, 300, 511, 512, 513, 1024, 1025, 1026, 1300]), min_size=1),
    st.booleans(),
    st.sampled_from([0, 20_000, 10**9]),
)
def test_a_parked_trunk_changes_nothing(
    lengths: list[int], divisible: bool, max_bytes: int
) -> None:
    """Trunks that begin alike are reused, cut back or not: each reading is that of a fresh run."""
    host = FakeHost(trunks=Trunks(max_bytes, divisible=divisible))
    context = CheckedContext()
    for number, length in enumerate(lengths):
        trunk = [1] * length + [2 + number % 2]
        prompts = [[*trunk, 7], [*trunk, 8, 9]]
        work = evaluation(trunk, prompts, context=context, host=host, snapshots=not divisible)

        assert run(CheckedContext(), trunk, prompts) == work.run(Progress())
        assert not context.cells


@given(tickets(), st.lists(st.integers(0, 5), max_size=4))
def test_contexts_that_join_change_nothing(
    ticket: tuple[list[int], Prompts], borders: list[int]
) -> None:
    """Whatever part of the branches is read elsewhere, also when it is left in the middle."""
    trunk, prompts = ticket
    progress, contexts = Progress(), [CheckedContext()]

    def guest(leaves_at: int) -> Callable[[Branches, State], None]:
        def join(branches: Branches, state: State) -> None:
            contexts.append(CheckedContext())
            host = FakeHost(give_up_at=leaves_at)
            work = evaluation(trunk, prompts, context=contexts[-1], host=host)
            with suppress(TimeoutError):
                work.join(state, branches, progress)

        return join

    host = FakeHost(guests=map(guest, borders))
    readings = evaluation(trunk, prompts, context=contexts[0], host=host).run(progress)

    assert run(CheckedContext(), trunk, prompts) == readings
    assert not any(context.cells for context in contexts)
    sizes = [size for context in contexts for *_, size in context.calls]
    assert sum(sizes) == progress.evaluated_tokens


@pytest.mark.parametrize(("divisible", "decoded"), [(True, [275, 2]), (False, [275, 2])])
def test_a_trunk_with_another_end_is_continued(divisible: bool, decoded: list[int]) -> None:
    """Up to the last common border nothing is decoded again, whether states can be cut or not."""
    host = FakeHost(trunks=Trunks(10**9, divisible=divisible))
    other_end = [*LONG_TRUNK[:-10], *([9] * 10)]
    contexts = [CheckedContext(), CheckedContext()]
    for context, trunk in zip(contexts, (LONG_TRUNK, other_end), strict=True):
        work = evaluation(trunk, [[*trunk, 8]], context=context, host=host, snapshots=not divisible)
        work.run(Progress())

    assert decoded == [size for *_, size in contexts[1].calls]


def test_the_same_trunk_is_not_decoded_again() -> None:
    """A second ticket over the same state costs its branches only."""
    host = FakeHost(trunks=Trunks(10**9, divisible=True))
    context = CheckedContext()
    for prompt in ([*LONG_TRUNK, 8], [*LONG_TRUNK, 9]):
        evaluation(LONG_TRUNK, [prompt], context=context, host=host).run(Progress())

    assert [(FORK, 1299, 2), (FORK, 1299, 2)] == context.calls[3:]


@given(tickets(), st.integers(0, 12))
def test_the_context_is_empty_after_an_error(
    ticket: tuple[list[int], Prompts], fail_at: int
) -> None:
    """Whichever call fails, nothing stays in the context, and the work can be done once more."""
    trunk, prompts = ticket
    counted = CheckedContext()
    expected = run(counted, trunk, prompts)
    context, progress = CheckedContext(fail_at=fail_at % len(counted.calls)), Progress()
    work = evaluation(trunk, prompts, context=context)

    with pytest.raises(RuntimeError, match="no"):
        work.run(progress)
    assert not context.cells
    context.fail_at = None
    progress.forget_state()
    assert expected == work.run(progress)


def test_work_can_be_given_up_before_every_call() -> None:
    """The host is told of every call; raising there ends the work and empties the context."""
    prompts = [[*LONG_TRUNK, *([8] * 600)], [9, 9]]
    for border in range(6):
        context, host = CheckedContext(), FakeHost(give_up_at=border)
        with pytest.raises(TimeoutError):
            evaluation(LONG_TRUNK, prompts, context=context, host=host).run(Progress())
        assert border == len(context.calls)
        assert not context.cells

    host = FakeHost()
    evaluation(LONG_TRUNK, prompts, host=host).run(Progress())
    assert [True, True, True, True, True, False] == host.borders
