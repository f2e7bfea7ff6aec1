"""The bounded front door: two lanes, one limit."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.door import BATCH_SHARE, Door
from worker.errors import EngineBusy
from worker.ports import Lane

INTERACTIVE, BATCH = Lane.INTERACTIVE, Lane.BATCH


@dataclass(eq=False)
class Work:
    """Something that waits; told apart by what it is, not by what it is called."""

    name: str


def open_door(limit: int = 1000) -> Door[Work]:
    return Door(limit)


def put(door: Door[Work], name: str, lane: Lane, tokens: int = 1) -> Work:
    work = Work(name)
    door.put(work, lane, tokens)
    return work


def take(door: Door[Work]) -> str | None:
    work = door.take()
    return work.name if work else None


def take_all(door: Door[Work]) -> list[str | None]:
    return [take(door) for _ in range(len(door))]


@pytest.mark.parametrize("lane", list(Lane))
def test_a_lane_is_a_queue(lane: Lane) -> None:
    """In a lane of its own, who came first goes first."""
    door = open_door()
    for item in "abc":
        put(door, item, lane)

    assert ["a", "b", "c"] == take_all(door)


def test_the_interactive_lane_goes_first() -> None:
    """A caller who waits overtakes what the queue brought."""
    door = open_door()
    put(door, "batch", BATCH)
    put(door, "caller", INTERACTIVE)

    assert ["caller", "batch"] == take_all(door)


def test_the_batch_lane_never_starves() -> None:
    """While both lanes wait, every fourth turn is the batch lane's."""
    door = open_door()
    for number in range(8):
        put(door, f"i{number}", INTERACTIVE)
        put(door, f"b{number}", BATCH)

    assert ["i0", "i1", "i2", "b0", "i3", "i4", "i5", "b1", "i6", "i7"] == take_all(door)[:10]
    assert 4 == BATCH_SHARE


def test_turns_count_only_while_both_lanes_wait() -> None:
    """Callers who came while nothing else waited owe the batch lane nothing."""
    door = open_door()
    for number in range(3):
        put(door, f"i{number}", INTERACTIVE)
        take(door)
    put(door, "batch", BATCH)
    put(door, "caller", INTERACTIVE)

    assert "caller" == take(door)


def test_the_lanes_share_one_limit() -> None:
    """Tokens of both lanes count together, up to the limit, and the refusal has the numbers."""
    door = open_door(100)
    put(door, "a", BATCH, 60)
    put(door, "b", INTERACTIVE, 40)

    assert 100 == door.waiting_tokens
    with pytest.raises(EngineBusy) as caught:
        put(door, "c", INTERACTIVE)
    assert (100, 100) == (caught.value.waiting_tokens, caught.value.limit_tokens)
    assert 2 == len(door)
    assert 100 == door.waiting_tokens


def test_what_finds_nothing_waiting_is_let_in() -> None:
    """Work larger than the limit is not refused for ever: it waits alone."""
    door = open_door(100)
    put(door, "large", BATCH, 5000)

    with pytest.raises(EngineBusy):
        put(door, "small", INTERACTIVE)
    assert "large" == take(door)
    put(door, "small", INTERACTIVE)
    assert 1 == door.waiting_tokens


def test_an_empty_door_has_nothing_to_take() -> None:
    """Where nothing waits, nothing is taken."""
    assert open_door().take() is None


def test_what_is_not_ready_is_passed_over() -> None:
    """Work that waits for something keeps its place and its tokens; the next one goes."""
    door = open_door()
    put(door, "i", INTERACTIVE, 10)
    put(door, "b1", BATCH, 10)
    put(door, "b2", BATCH, 10)
    taken = door.take(lambda work: work.name == "b2")

    assert taken is not None
    assert "b2" == taken.name
    assert 20 == door.waiting_tokens
    assert door.take(lambda _: False) is None
    assert ["i", "b1"] == take_all(door)


def test_work_that_was_begun_goes_in_front() -> None:
    """Parked work was let in before: it is not refused, and its lane waits behind it."""
    door = open_door(10)
    put(door, "next", BATCH, 10)
    door.put_back(Work("begun"), BATCH, 10)
    door.put_back(Work("caller"), INTERACTIVE, 5)

    assert 25 == door.waiting_tokens
    assert ["caller", "begun", "next"] == take_all(door)
    assert 0 == door.waiting_tokens


def test_what_does_not_fit_is_passed_by_callers_who_do() -> None:
    """A caller need not wait for room that a document needs; the document keeps its place."""
    door = open_door()
    document, caller = put(door, "document", BATCH), put(door, "caller", INTERACTIVE)
    put(door, "batch", BATCH)

    assert caller is door.take_if(lambda work: work is caller)
    assert door.take_if(lambda work: work is not document) is None
    assert document is door.take_if(lambda _: True)


def test_callers_do_not_pass_for_ever() -> None:
    """Once four callers in a row have passed a ticket whose turn it is, it is waited for."""
    door = open_door()
    put(door, "document", BATCH)
    for number in range(20):
        put(door, f"caller {number}", INTERACTIVE)

    def take_all_that_fit() -> int:
        count = 0
        while door.take_if(lambda work: work.name != "document"):
            count += 1
        return count

    assert BATCH_SHARE - 1 + BATCH_SHARE == take_all_that_fit()
    assert "document" == take(door)
    put(door, "document", BATCH)
    assert BATCH_SHARE - 1 + BATCH_SHARE == take_all_that_fit()


def test_a_caller_who_does_not_fit_is_waited_for() -> None:
    """Nothing is taken in front of a caller whose turn it is."""
    door = open_door()
    caller = put(door, "caller", INTERACTIVE)
    put(door, "batch", BATCH)

    assert door.take_if(lambda work: work is not caller) is None
    assert open_door().take_if(lambda _: True) is None


def test_a_lane_says_whether_anything_waits_in_it() -> None:
    """A long trunk is parked only for a caller who is there."""
    door = open_door()
    put(door, "b", BATCH)

    assert (False, True) == (door.waits(INTERACTIVE), door.waits(BATCH))
    door.take()
    assert not door.waits(BATCH)


@pytest.mark.parametrize("lane", list(Lane))
def test_waiting_work_can_be_dropped(lane: Lane) -> None:
    """Work that nobody waits for any more leaves its place, and its tokens, to others."""
    door = open_door()
    first, second, _ = (put(door, name, lane, 10) for name in "abc")

    assert door.drop(second)
    assert 20 == door.waiting_tokens
    assert ["a", "c"] == take_all(door)
    assert not door.drop(second)
    assert not door.drop(first)
    assert 0 == door.waiting_tokens


def test_a_door_can_be_cleared() -> None:
    """All that waits is handed back at once."""
    door = open_door()
    put(door, "b", BATCH, 10)
    put(door, "i", INTERACTIVE, 10)

    assert {"b", "i"} == {work.name for work in door.clear()}
    assert (0, 0) == (len(door), door.waiting_tokens)
    assert [] == door.clear()


steps = st.lists(
    st.tuples(st.sampled_from(["put", "take", "drop"]), st.sampled_from(Lane), st.integers(1, 60))
)


@given(steps)
def test_the_count_is_what_waits(script: list[tuple[str, Lane, int]]) -> None:
    """Whatever comes and goes, the waiting tokens are those of the waiting work."""
    door = open_door(100)
    waiting: dict[Work, int] = {}
    for number, (step, lane, tokens) in enumerate(script):
        if step == "put":
            fits = not waiting or sum(waiting.values()) + tokens <= 100
            try:
                work = put(door, str(number), lane, tokens)
            except EngineBusy:
                assert not fits
            else:
                assert fits
                waiting[work] = tokens
        elif waiting and step == "take":
            taken = door.take()
            assert taken is not None
            del waiting[taken]
        elif waiting:
            item = list(waiting)[tokens % len(waiting)]
            assert door.drop(item)
            del waiting[item]
        assert sum(waiting.values()) == door.waiting_tokens
        assert len(waiting) == len(door)


@pytest.mark.parametrize(("lane", "ahead"), [(INTERACTIVE, 5), (BATCH, 15)])
def test_what_goes_before(lane: Lane, ahead: int) -> None:
    """Before a caller go other callers; before a ticket of the queue goes everything."""
    door = open_door()
    put(door, "caller", INTERACTIVE, 5)
    put(door, "batch", BATCH, 10)

    assert ahead == door.tokens_ahead(lane)


def test_a_full_door_can_be_asked() -> None:
    """Asking refuses what entering would refuse, and lets nothing in."""
    door = open_door(limit=10)
    door.check(100)
    put(door, "first", BATCH, 10)
    with pytest.raises(EngineBusy) as caught:
        door.check(1)

    assert (10, 10, 1) == (caught.value.waiting_tokens, caught.value.limit_tokens, len(door))


def test_several_are_let_in_together_or_not_at_all() -> None:
    """In order at the end of their lane, and bounded by what they are together."""
    door = open_door(10)
    put(door, "a", BATCH, tokens=4)
    with pytest.raises(EngineBusy):
        door.put_all([(Work("b"), 3), (Work("c"), 4)], BATCH)
    assert (4, 1) == (door.waiting_tokens, len(door))

    door.put_all([(Work("b"), 3), (Work("c"), 3)], BATCH)
    assert 10 == door.waiting_tokens
    assert ["a", "b", "c"] == take_all(door)


def test_what_is_larger_than_the_door_goes_through_alone() -> None:
    """Together as well as one by one: else it would never be let in."""
    door = open_door(10)
    door.put_all([(Work("a"), 30), (Work("b"), 30)], BATCH)

    assert 60 == door.waiting_tokens
