"""Packed evaluation, in a context that checks every call."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tests.unit.engine.fake_llama import FakeContext, FakeModel, reading_of
from worker.engine.calls import NativeError
from worker.engine.options import ModelOptions
from worker.engine.packed import PackedRun
from worker.engine.packing import Room
from worker.engine.plan import plan
from worker.engine.trunks import Found, State, Trunks
from worker.engine.work import Work
from worker.ports import Lane

LABELS = (1, 2)


@dataclass
class FakeHost:
    """Keeps trunks for one run."""

    trunks: Trunks = field(default_factory=lambda: Trunks(1 << 20, divisible=True))

    def find(self, work: Work, trunk: Sequence[int], most_tokens: int) -> Found | None:
        return self.trunks.find(trunk, most_tokens)

    def park(self, trunk: Sequence[int], save: Callable[[], State]) -> None:
        self.trunks.park(trunk, save())


def make_run(
    *, call_tokens: int = 64, sequences: int = 8, cells: int = 1000, model: FakeModel | None = None
) -> tuple[PackedRun, FakeContext, FakeHost]:
    options = ModelOptions(
        context_tokens=cells, threads=1, batch_tokens=call_tokens, sequences=sequences + 1
    )
    context, host = FakeContext(options, model or FakeModel()), FakeHost()
    return PackedRun(context, host, Room(call_tokens, sequences, cells)), context, host


def make_work(
    trunk: int, *own: int, lane: Lane = Lane.BATCH, seed: int = 0, whole: tuple[int, ...] = ()
) -> Work:
    """Make work of a trunk, branches that go on from it, and branches that share nothing."""
    state = [1000 * (seed + 1) + at for at in range(trunk)]
    probes = ([*state, -1, -2], [*state, -1, -3])  # the branches decode the trunk's last token
    prompts = [
        *([-9, *range(number * 10_000, number * 10_000 + n - 1)] for number, n in enumerate(whole)),
        *([*state, -1, *range(100 * number, 100 * number + n - 1)] for number, n in enumerate(own)),
    ]
    loop = asyncio.get_running_loop()
    planned = plan(probes, prompts)
    work = Work(planned, prompts, [LABELS] * len(prompts), lane, None, loop.create_future(), loop)
    assert (trunk if own else 0, len(whole)) == (planned.trunk_tokens, len(planned.whole))
    return work


def check_read(work: Work) -> None:
    """See that every branch was read after its whole prompt."""
    expected = {n: reading_of(prompt, LABELS) for n, prompt in enumerate(work.prompts)}
    assert expected == work.progress.readings


def finish(run: PackedRun, work: Work, steps: int = 100) -> None:
    """Make calls until *work* is read."""
    for _ in range(steps):
        for left in run.step():
            if len(left.progress.readings) < len(left.prompts):
                run.add(left)
            elif left is work:
                return
    raise AssertionError(f"not read within {steps} calls")


async def test_neighbours_read_what_they_read_alone() -> None:
    """Tickets that share calls are read after their own tokens only, and nothing stays."""
    run, context, _ = make_run()
    works = [
        make_work(30, 5, 6, seed=1),
        make_work(100, 40, 3, seed=2),
        make_work(0, whole=(90, 4)),
    ]
    for work in works:
        run.add(work)
    while run.works:
        run.step()

    for work in works:
        check_read(work)
    assert 0 == context.resident


# --- parked trunks --------------------------------------------------------------------------------


async def park_long_trunk(run: PackedRun) -> None:
    """Park a trunk of 700 tokens, of which 512 are usable for a shorter one."""
    long = make_work(700, 10)
    run.add(long)
    finish(run, long)


async def test_a_parked_trunk_that_is_longer_is_cut() -> None:
    """A trunk whose beginning is parked as that of a longer one goes on from there."""
    run, _, _ = make_run(cells=1000)
    await park_long_trunk(run)
    short = make_work(600, 10)
    run.add(short)
    finish(run, short)

    check_read(short)
    assert 600 - 512 + 10 == short.progress.evaluated_tokens


async def test_a_parked_trunk_without_cells_for_it_is_left_alone() -> None:
    """What is restored before it is cut must fit beside what is there; else nothing is."""
    run, context, _ = make_run(cells=1000)
    await park_long_trunk(run)
    neighbour, short = make_work(350, 10, seed=5), make_work(600, 10)
    run.add(neighbour)
    while neighbour.progress.position < 320:
        run.step()
    assert run.takes(short)
    run.add(short)  # 700 cells are not free: llama.cpp would refuse
    while run.works:
        run.step()

    check_read(short)
    check_read(neighbour)
    assert 610 == short.progress.evaluated_tokens
    assert 0 == context.resident


async def test_another_parked_trunk_may_fit() -> None:
    """Of two parked trunks that cover as much, the one there are cells for is restored."""
    run, _, host = make_run(cells=1000)
    await park_long_trunk(run)
    shorter = make_work(530, 10)
    run.add(shorter)
    finish(run, shorter)
    assert 2 == len(host.trunks)
    host.trunks.find(make_work(700, 10).prompts[0][:700])  # the longer one was used last
    neighbour, short = make_work(350, 10, seed=5), make_work(600, 10)
    run.add(neighbour)
    while neighbour.progress.position < 320:
        run.step()
    run.add(short)
    finish(run, short)

    check_read(short)
    assert 600 - 512 + 10 == short.progress.evaluated_tokens


async def test_a_refused_state_leaves_the_rest_as_it_was() -> None:
    """Work whose saved state is not taken is out again; its neighbour goes on where it was."""
    model = FakeModel()
    run, context, _ = make_run(model=model)
    parking = make_work(100, 10)
    run.add(parking)
    finish(run, parking)
    neighbour, again = make_work(200, 10, seed=1), make_work(100, 10)
    run.add(neighbour)
    run.step()
    held = dict(context.held)
    model.refused_restores = 1
    with pytest.raises(NativeError):
        run.add(again)

    assert [neighbour] == run.works
    assert held == context.held
    finish(run, neighbour)
    check_read(neighbour)
    assert 210 == neighbour.progress.evaluated_tokens


# --- making room for callers ----------------------------------------------------------------------


def make_way(run: PackedRun, caller: Work) -> list[Work]:
    """Set aside what is in the way of a caller."""
    works = run.in_the_way(caller)
    for work in works:
        run.set_aside(work)
    return works


def overtaken_by_steady_callers(run: PackedRun, document: Work) -> None:
    """Let a caller come after every call, until the document is read."""
    run.add(document)
    for number in range(60):
        caller = make_work(100, 10, lane=Lane.INTERACTIVE, seed=number)
        if make_way(run, caller):
            run.add(caller)
            while caller in run.works:
                run.step()
            check_read(caller)
            run.add(document)
        for left in run.step():
            if len(left.progress.readings) == len(left.prompts):
                return
            run.add(left)
    raise AssertionError("the document is not read")


@pytest.mark.parametrize(
    "lengths", [((400, 500, 300), ()), ((900,), ()), ((2, 950), ()), ((100, 5), (900, 930))]
)
async def test_steady_callers_do_not_hold_batch_work_up(
    lengths: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    """However often it is set aside, no token of a ticket is decoded twice."""
    (trunk, *own), whole = lengths
    document = make_work(trunk, *(own or [20]), whole=whole)
    run, context, _ = make_run(cells=1000)
    overtaken_by_steady_callers(run, document)

    check_read(document)
    assert document.plan.evaluated_tokens == document.progress.evaluated_tokens
    assert 0 == context.resident


async def test_what_is_left_of_overtaken_work() -> None:
    """What is to be decoded yet counts, not what was decoded before."""
    run, _, _ = make_run()
    document = make_work(200, 50, 60, whole=(100,))
    left = [document.left_tokens]
    run.add(document)
    for _ in range(2):
        run.step()
        left.append(document.left_tokens)
    run.add(document)
    for _ in range(4):
        run.step()
        left.append(document.left_tokens)

    assert [410, 346, 310, 246, 182, 118, 60] == left


async def test_nothing_is_set_aside_in_vain() -> None:
    """Where even all batch work would not make room for a caller, it goes on."""
    run, _, _ = make_run(cells=1000)
    caller = make_work(500, 10, lane=Lane.INTERACTIVE, seed=1)
    document = make_work(300, 10, seed=2)
    for work in (document, caller):
        run.add(work)
        run.step()

    assert [] == run.in_the_way(make_work(600, 10, lane=Lane.INTERACTIVE, seed=3))
    assert [document] == run.in_the_way(make_work(300, 10, lane=Lane.INTERACTIVE, seed=4))


async def test_no_more_is_set_aside_than_needed() -> None:
    """The oldest batch work stays if a younger one makes enough room."""
    run, _, _ = make_run(cells=1000, sequences=6, call_tokens=200)
    works = [make_work(300, *[10] * 30), make_work(340, 10, seed=1), make_work(150, 10, seed=2)]
    for work in works:
        run.add(work)
    while works[2].progress.position < 20:
        run.step()
    assert works == run.works

    assert [] == run.in_the_way(make_work(20, 10, lane=Lane.INTERACTIVE))
    assert [works[2]] == run.in_the_way(make_work(250, 10, lane=Lane.INTERACTIVE))
    assert [works[1]] == run.in_the_way(make_work(500, 10, lane=Lane.INTERACTIVE))


async def test_what_was_just_added_stays() -> None:
    """Work is not set aside again before it has come any further."""
    run, _, _ = make_run(cells=1000)
    document, caller = make_work(900, 10), make_work(100, 10, lane=Lane.INTERACTIVE, seed=1)
    run.add(document)
    assert [] == run.in_the_way(caller)
    run.step()
    assert [document] == make_way(run, caller)
    run.add(document)
    assert [] == run.in_the_way(caller)
