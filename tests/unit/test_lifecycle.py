"""The process's life: one stop event, one exit code."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from worker.errors import AwsUnusable, EngineFailed, ExitCode
from worker.lifecycle import Lifecycle, Phase


async def test_a_life_in_order() -> None:
    """Starting, ready, draining, stopped: and nothing failed."""
    lifecycle = Lifecycle()
    phases = [lifecycle.phase]
    lifecycle.ready()
    phases.append(lifecycle.phase)
    lifecycle.stop("SIGTERM")
    phases.append(lifecycle.phase)
    lifecycle.stopped()
    phases.append(lifecycle.phase)

    assert [Phase.STARTING, Phase.READY, Phase.DRAINING, Phase.STOPPED] == phases
    assert ExitCode.DONE == lifecycle.exit_code()


async def test_a_stop_while_starting_is_not_lost() -> None:
    """Whoever is told to stop before the model has loaded never becomes ready."""
    lifecycle = Lifecycle()
    lifecycle.stop("SIGTERM")
    lifecycle.ready()

    assert Phase.DRAINING == lifecycle.phase
    assert lifecycle.stopping.is_set()


async def test_a_second_stop_changes_nothing() -> None:
    """The phase never goes back."""
    lifecycle = Lifecycle()
    lifecycle.stop("SIGTERM")
    lifecycle.stopped()
    lifecycle.stop("again")

    assert Phase.STOPPED == lifecycle.phase


async def test_a_stop_wakes_whoever_waits() -> None:
    """One event is all that the parts of the process need to read."""
    lifecycle = Lifecycle()
    waiting = asyncio.create_task(lifecycle.stopping.wait())
    lifecycle.stop("SIGTERM")

    assert await asyncio.wait_for(waiting, 5)


async def test_the_first_failure_decides_the_exit_code() -> None:
    """What follows from the first fault does not hide it."""
    lifecycle = Lifecycle()
    first = EngineFailed("broken")
    lifecycle.fail(first)
    lifecycle.fail(AwsUnusable("gone"))

    assert first is lifecycle.failure
    assert lifecycle.stopping.is_set()
    assert ExitCode.ENGINE_FAILED == lifecycle.exit_code()


async def test_a_failure_while_draining_counts() -> None:
    """An engine that breaks after the stop signal is no clean end."""
    lifecycle = Lifecycle()
    lifecycle.stop("SIGTERM")
    lifecycle.fail(EngineFailed("broken"))

    assert ExitCode.ENGINE_FAILED == lifecycle.exit_code()


async def test_unfinished_work_has_its_own_exit_code() -> None:
    """Released at the drain's deadline is not done; a failure says more and wins."""
    lifecycle = Lifecycle()
    lifecycle.unfinished = 1
    assert ExitCode.DRAINED_UNFINISHED == lifecycle.exit_code()
    lifecycle.fail(EngineFailed("broken"))
    assert ExitCode.ENGINE_FAILED == lifecycle.exit_code()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_begins_the_drain(number: signal.Signals) -> None:
    """SIGTERM and SIGINT set the stop event; afterwards we no longer listen."""
    lifecycle = Lifecycle()
    with lifecycle.signals():
        os.kill(os.getpid(), number)
        await asyncio.wait_for(lifecycle.stopping.wait(), 5)

    assert Phase.DRAINING == lifecycle.phase
    assert not asyncio.get_running_loop().remove_signal_handler(number)


IMPATIENT = """
import asyncio, os, signal
from worker.lifecycle import Lifecycle

async def main():
    lifecycle = Lifecycle()
    with lifecycle.signals():
        os.kill(os.getpid(), signal.{first})
        await lifecycle.stopping.wait()
        os.kill(os.getpid(), signal.{second})
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("first", "second", "expected"), [("SIGTERM", "SIGTERM", 143), ("SIGTERM", "SIGINT", 130)]
)
def test_a_second_signal_ends_the_process_at_once(first: str, second: str, expected: int) -> None:
    """Whoever asks twice does not wait for the drain."""
    script = IMPATIENT.format(first=first, second=second)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30)

    assert expected == ended.returncode


async def test_the_first_signal_after_a_failure_still_drains() -> None:
    """A failure is no signal: what it began to drain, a supervisor's SIGTERM does not cut off."""
    lifecycle = Lifecycle()
    with lifecycle.signals():
        lifecycle.fail(EngineFailed("broken"))
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert ExitCode.ENGINE_FAILED == lifecycle.exit_code()
