"""The orders in which options are shown."""

from hypothesis import given
from hypothesis import strategies as st

from worker.decision.orders import MAX_ORDERS, option_orders

counts = st.integers(1, 60)


@given(counts, st.integers(1, MAX_ORDERS))
def test_every_order_shows_every_option_once(options: int, orders: int) -> None:
    """Whatever the numbers; the given order comes first, and none comes twice."""
    shown = option_orders(options, orders)

    assert tuple(range(options)) == shown[0]
    assert all(sorted(order) == list(range(options)) for order in shown)
    assert min(orders, options) == len(set(shown)) == len(shown)


def test_two_orders_are_forward_and_reversed() -> None:
    """As lev was trained to be read."""
    assert ((0, 1, 2), (2, 1, 0)) == option_orders(3, 2)


@given(st.integers(3, 32))
def test_rotations_show_every_option_at_every_place(options: int) -> None:
    """With as many orders as options, no option is favoured by its place."""
    shown = option_orders(options, options)

    assert all(set(range(options)) == set(place) for place in zip(*shown, strict=True))


def test_rotations_are_drawn_once_and_for_all() -> None:
    """The same on every machine and in every release: replays depend on it."""
    assert ((0, 1, 2, 3, 4), (1, 2, 3, 4, 0), (2, 3, 4, 0, 1)) == option_orders(5, 3)
