"""The simulation of a night, where queueing theory and arithmetic know the answer."""

import math
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.simulate import Scaling, simulate

SCRIPT = Path(__file__).parents[2] / "infra" / "simulate.py"


def erlang_c_wait(rate: float, mean_seconds: float, tasks: int) -> float:
    """Return the mean wait of M/M/c by Erlang's C formula."""
    load = rate * mean_seconds
    last = load**tasks / math.factorial(tasks) * tasks / (tasks - load)
    all_busy = last / (sum(load**k / math.factorial(k) for k in range(tasks)) + last)
    return all_busy * mean_seconds / (tasks - load)


@pytest.mark.parametrize(("tasks", "share"), [(1, 0.7), (4, 0.8), (10, 0.9)])
def test_agrees_with_queueing_theory(tasks: int, share: float) -> None:
    """With a fixed number of tasks it is M/M/c, whose mean wait has a closed form."""
    chance, mean = random.Random(4), 4.0
    rate = tasks * share / mean

    def arrivals() -> Iterator[float]:
        now = 0.0
        for _ in range(200_000):
            yield (now := now + chance.expovariate(rate))

    night = simulate(arrivals(), lambda: chance.expovariate(1 / mean), Scaling(tasks, tasks))

    waited = sum(night.waits) / len(night.waits)
    assert pytest.approx(erlang_c_wait(rate, mean, tasks), rel=0.08) == waited


def test_a_batch_waits_for_the_first_tasks() -> None:
    """From zero: ten tasks after the delay, then 100 tickets each of four seconds."""
    night = simulate([0.0] * 1000, lambda: 4.0, Scaling(0, 10, 100, start_seconds=180))

    assert 1000 == len(night.waits)
    assert 180 + 100 * 4.0 == night.done_at


def test_idle_tasks_go_and_busy_ones_stay() -> None:
    """Afterwards nothing is paid for; no ticket loses its task before."""
    late = 4 * 3600.0
    night = simulate([*[0.0] * 20, late], lambda: 900.0, Scaling(0, 4, 1, start_seconds=60))

    assert 21 == len(night.waits)
    assert 4 == max(running for _, _, running in night.trace)
    assert 0 == min(running for now, _, running in night.trace if 6000 < now < late)


@pytest.mark.parametrize(("most", "word", "code"), [("10", "in time", 0), ("1", "too late", 7)])
def test_says_whether_the_batch_is_done_by_six(
    tmp_path: Path, most: str, word: str, code: int
) -> None:
    """A pipeline can ask; the picture is for people."""
    plot = tmp_path / "night.png"
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "--tickets", "20000", "--seconds", "4",
         "--most-tasks", most, "--plot", str(plot)],
        capture_output=True, text=True,
    )  # fmt: skip

    assert code == ran.returncode, ran.stderr
    assert ran.stdout.startswith(f"{word}: done at ")
    assert plot.read_bytes().startswith(b"\x89PNG")
