"""Branches that several contexts read: each once, none forgotten."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from worker.engine.branches import Branches


def test_each_branch_is_handed_out_once_in_order() -> None:
    """Nobody gets a branch that another has, and then there is none."""
    branches = Branches([4, 2, 7])

    assert 3 == len(branches)
    assert [4, 2, 7, None] == [branches.take() for _ in range(4)]


def test_a_branch_that_was_put_back_comes_next() -> None:
    """What somebody could not finish is read by another."""
    branches = Branches([4, 2])
    taken = branches.take()
    assert taken is not None
    branches.put_back(taken)

    assert [4, 2] == [branches.take(), branches.take()]


def test_whoever_waits_learns_of_the_end_and_of_what_comes_back() -> None:
    """The owner waits while the last branch is elsewhere; it goes on if that comes back."""
    branches = Branches([1, 2])
    rests: list[bool] = []
    wait = partial(branches.wait, lambda: rests.append(True))
    assert wait()
    assert not rests
    branches.take()
    branches.take()
    with ThreadPoolExecutor(1) as owner:
        waiting = owner.submit(wait)
        branches.put_back(2)
        assert waiting.result()
        branches.take()
        waiting = owner.submit(wait)
        branches.finish()
        branches.finish()
        assert not waiting.result()


def test_whoever_has_to_wait_rests() -> None:
    """Its silence is then no sign that a call of its own hangs."""
    branches = Branches([1])
    branches.take()

    assert not branches.wait(branches.finish)


def test_closing_waits_for_whoever_reads_and_drops_what_comes_back() -> None:
    """Nobody touches the ticket once its owner has left it."""
    branches = Branches([1, 2, 3])
    branches.take()
    with ThreadPoolExecutor(1) as owner:
        begun = threading.Event()
        closing = owner.submit(lambda: (begun.set(), branches.close()))
        begun.wait()
        assert not closing.done()
        branches.put_back(1)
        closing.result()

    assert 0 == len(branches)
    assert branches.take() is None
