"""How long a released delivery stays away."""

import random

_FIRST_SECONDS = 2


def backoff_seconds(receive_count: int, most_seconds: int) -> int:
    """Return a delay with full jitter that grows with each receipt: 1 to 2·2ⁿ, held to *most*."""
    longest = min(most_seconds, _FIRST_SECONDS * 2 ** min(receive_count, 32))
    return random.randint(1, longest)  # noqa: S311 - spreads load, keeps no secret
