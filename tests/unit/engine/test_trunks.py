"""Which trunks are kept, which prefix they cover, what is evicted."""

from hypothesis import given
from hypothesis import strategies as st

from worker.engine.plan import spans
from worker.engine.trunks import Found, State, Trunks, trunk_key

TRUNK = tuple(range(1300))


def state(size: int, fill: int = 0) -> State:
    return (bytearray([fill]) * size,)


def usable(found: Found | None) -> int:
    return found.usable_tokens if found else 0


def test_a_trunk_is_found_again_whole() -> None:
    """The same trunk needs no decoding at all."""
    trunks = Trunks(1000, divisible=True)
    kept = state(100)

    trunks.park(TRUNK, kept)
    found = trunks.find(TRUNK)

    assert found is not None
    assert (1300, 1300, kept) == (
        found.usable_tokens,
        found.parked.tokens,
        found.parked.state,
    )


def test_a_trunk_that_begins_alike_is_covered_up_to_a_common_border() -> None:
    """Between two borders the calls differ, and with them the bits: there nothing is reused."""
    trunks = Trunks(1000, divisible=True)
    trunks.park(TRUNK, state(100))

    assert 1024 == usable(trunks.find((*TRUNK[:1200], -1)))
    assert 512 == usable(trunks.find(TRUNK[:1023]))
    assert 512 == usable(trunks.find(TRUNK[:1025])), "its borders are 512, 1023 and 1025"
    assert 0 == usable(trunks.find(TRUNK[:511]))
    assert 0 == usable(trunks.find((-1, *TRUNK[1:])))


def test_what_cannot_be_cut_is_found_at_its_own_length_only() -> None:
    """A recurrent memory covers a new trunk only where a snapshot ends on one of its borders."""
    trunks = Trunks(1000, divisible=False)
    trunks.park(TRUNK, state(100))
    assert 0 == usable(trunks.find((*TRUNK[:1200], -1)))

    trunks.park(TRUNK[:1024], state(100))

    assert 1024 == usable(trunks.find((*TRUNK[:1200], -1)))
    assert 1300 == usable(trunks.find(TRUNK))


def test_the_least_recently_used_is_evicted() -> None:
    """Being found counts as use."""
    trunks = Trunks(300, divisible=True)
    first, second, third, fourth = ((number, number) for number in range(4))
    for trunk in (first, second, third):
        trunks.park(trunk, state(100))
    trunks.find(first)

    trunks.park(fourth, state(100))

    assert [True, False, True, True] == [
        trunks.has_key(trunk_key(trunk)) for trunk in (first, second, third, fourth)
    ]
    assert 300 == trunks.bytes_used


def test_a_state_larger_than_the_bound_is_not_kept() -> None:
    """It would evict everything, and still not fit."""
    trunks = Trunks(300, divisible=True)
    trunks.park((1, 1), state(100))

    trunks.park((2, 2), state(301))

    assert 1 == len(trunks)
    assert trunks.has_key(trunk_key((1, 1)))
    assert trunks.get(trunk_key((1, 1))) is not None
    assert trunks.get(trunk_key((9, 9))) is None


def test_a_trunk_parked_again_replaces_itself() -> None:
    """Bytes are counted once."""
    trunks = Trunks(300, divisible=True)

    trunks.park(TRUNK, state(100))
    trunks.park(TRUNK, state(200, fill=1))

    found = trunks.find(TRUNK)
    assert found is not None
    assert (200, 1, state(200, fill=1)) == (trunks.bytes_used, len(trunks), found.parked.state)


def test_what_was_used_last_is_listed_last() -> None:
    """Whoever spills the trunks at the end writes the most useful ones last."""
    trunks = Trunks(1000, divisible=True)
    trunks.park([1, 2, 3], state(10))
    trunks.park([4, 5, 6], state(20))
    trunks.find([1, 2, 3])

    assert [([4, 5, 6], state(20)), ([1, 2, 3], state(10))] == trunks.items()


def test_a_dropped_trunk_is_gone() -> None:
    """What could not be restored is not offered again; the others stay."""
    trunks = Trunks(1000, divisible=True)
    trunks.park(TRUNK, state(100))
    trunks.park(TRUNK[:600], state(100))
    found = trunks.find(TRUNK)
    assert found is not None

    trunks.drop(found.parked)

    assert 512 == usable(trunks.find(TRUNK))
    assert 100 == trunks.bytes_used


lengths = st.integers(1, 1600)


@given(
    st.lists(st.tuples(st.integers(0, 2), lengths, st.integers(0, 120)), max_size=12),
    st.tuples(st.integers(0, 2), lengths),
    st.booleans(),
)
def test_whatever_is_found_is_what_a_fresh_run_would_hold(
    parked: list[tuple[int, int, int]], asked: tuple[int, int], divisible: bool
) -> None:
    """The tokens up to the usable border are the new trunk's, and it is a border of both."""
    trunks = Trunks(300, divisible=divisible)
    texts: dict[int, tuple[int, ...]] = {}
    for number, (word, tokens, size) in enumerate(parked):
        texts[number] = (word,) * tokens
        trunks.park(texts[number], (bytearray(size), bytearray(str(number).encode())))
        assert trunks.bytes_used <= 300
    new = (asked[0],) * asked[1]

    found = trunks.find(new)

    if found is not None:
        old = texts[int(found.parked.state[1])]
        border = found.usable_tokens
        assert old[:border] == new[:border]
        assert border in {span.stop for span in spans(0, len(old))}
        assert border in {span.stop for span in spans(0, len(new))}
        assert divisible or border == len(old)
