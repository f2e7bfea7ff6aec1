"""How fast the contexts are together, and when an answer can be had."""

import pytest

from worker.engine.forecast import Throughput, tokens_before
from worker.ports import Lane


def test_nothing_was_measured_yet() -> None:
    """Before the first turn ended there is a guess, which says that it is one."""
    assert not Throughput().is_measured


def test_contexts_at_work_together_count_once() -> None:
    """Two turns of 100 tokens that end one second after they began together are 200 a second."""
    throughput = Throughput()
    throughput.resume(10.0)
    throughput.note(100, 11.0)
    throughput.note(100, 11.0)

    assert throughput.is_measured
    assert pytest.approx(200) == throughput.tokens_per_second


def test_idle_time_does_not_count() -> None:
    """An hour in which no context was busy changes nothing."""
    throughput = Throughput()
    for started_at in (0.0, 3600.0):
        throughput.resume(started_at)
        throughput.note(50, started_at + 1)

    assert pytest.approx(50) == throughput.tokens_per_second


def test_newer_turns_count_more() -> None:
    """A machine that became ten times slower is believed within a minute."""
    throughput = Throughput()
    throughput.resume(0.0)
    for second in range(1, 20):
        throughput.note(1000, float(second))
    for second in range(20, 80):
        throughput.note(100, float(second))

    assert pytest.approx(100, rel=0.2) == throughput.tokens_per_second


def test_a_turn_without_tokens_or_time_divides_by_nothing() -> None:
    """A turn that was given up before its first call leaves the guess as it is."""
    throughput = Throughput()
    throughput.resume(5.0)
    throughput.note(0, 5.0)

    assert (200.0, False) == (throughput.tokens_per_second, throughput.is_measured)


def test_seconds() -> None:
    """What goes before is shared by all contexts, the own work has one of them."""
    throughput = Throughput(tokens_per_second=100.0)

    assert pytest.approx(10 + 2 * 3) == throughput.seconds(1000, [300], contexts=2)


def test_windows_are_shared_by_the_contexts() -> None:
    """Several works of one ticket are done at once; the last one ends on a context of its own."""
    throughput = Throughput(tokens_per_second=100.0)

    assert pytest.approx(10 + 9 + 3) == throughput.seconds(1000, [300, 300, 300], contexts=2)
    assert pytest.approx(9) == throughput.seconds(0, [300, 300, 300], contexts=1)


INTERACTIVE, BATCH = Lane.INTERACTIVE, Lane.BATCH


@pytest.mark.parametrize(
    ("running", "caller", "ticket"),
    [
        ([], 0, 0),
        ([("a", BATCH, 100)], 100, 100),
        ([("a", BATCH, 9000), ("b", BATCH, 9000)], 2 * 512, 18_000),
        ([("a", INTERACTIVE, 700), ("b", BATCH, 9000)], 700 + 512, 9700),
        ([("a", BATCH, 400)] * 30, 512, 12_000),
        ([("a", BATCH, 100), ("a", INTERACTIVE, 300), ("a", BATCH, 100)], 500, 500),
    ],
)
def test_what_runs_before_new_work(
    running: list[tuple[str, Lane, int]], caller: int, ticket: int
) -> None:
    """A caller waits for one call of each context, however many tickets share it."""
    assert caller == tokens_before(INTERACTIVE, running, 512)
    assert ticket == tokens_before(BATCH, running, 512)
