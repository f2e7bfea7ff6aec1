"""The orders in which a question's options are shown, so that no place is favoured."""

import hashlib

MAX_ORDERS = 32

Order = tuple[int, ...]


def option_orders(options: int, orders: int) -> tuple[Order, ...]:
    """Return the orders to show *options* options in, each as the option's index at each place.

    One: as given. Two: forward and reversed. More: rotations, the given order first; never more
    than there are options. Which rotations is a function of the two numbers alone.
    """
    given = tuple(range(options))
    if orders == 1 or options == 1:
        return (given,)
    if orders == 2:
        return (given, given[::-1])
    shifts = sorted(range(1, options), key=lambda shift: _drawn(options, shift))
    return tuple(given[shift:] + given[:shift] for shift in (0, *shifts[: orders - 1]))


def _drawn(options: int, shift: int) -> bytes:
    """Return a number that orders shifts at random, the same in every release of Python."""
    return hashlib.sha256(f"{options} options, shifted by {shift}".encode()).digest()
