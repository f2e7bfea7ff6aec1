"""Which finished trunks are kept, which prefix of a new one they cover, what is evicted. Pure.

A trunk may be reused up to a border between two of its own calls that is also a border of the new
trunk: up to there both were, or would be, decoded by the same calls, so the bits are the same.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from worker.engine.plan import spans

State = tuple[bytearray, ...]
"""A saved trunk, in the pieces in which llama.cpp wrote it."""


@dataclass(frozen=True, eq=False, slots=True)
class Parked:
    """One parked trunk.

    Attributes:
        tokens: how many it holds.
    """

    tokens: int
    state: State = field(repr=False)

    @property
    def size_bytes(self) -> int:
        """Bytes of its state."""
        return sum(map(len, self.state))


@dataclass(frozen=True, slots=True)
class Found:
    """A parked trunk that covers a new one's beginning.

    Attributes:
        parked: what to restore.
        usable_tokens: up to where; the rest of what is restored must be removed.
    """

    parked: Parked
    usable_tokens: int


class Trunks:
    """Parked trunks within a bound in bytes; the least recently used are evicted.

    Args:
        max_bytes: of all states together; 0 parks nothing.
        divisible: whether a restored state can be cut back to a border. Recurrent memories cannot:
            they are found at their own length only.
    """

    def __init__(self, max_bytes: int, *, divisible: bool) -> None:
        self._max_bytes = max_bytes
        self._divisible = divisible
        self._parked: OrderedDict[bytes, Parked] = OrderedDict()
        # By the tokens of a prefix that ends on a border: the keys of the trunks that have it.
        self._prefixes: dict[bytes, dict[bytes, None]] = {}
        self.bytes_used = 0

    def __len__(self) -> int:
        return len(self._parked)

    def find(self, trunk: Sequence[int], most_tokens: int | None = None) -> Found | None:
        """Return the parked trunk that covers most of *trunk*, and count it as used.

        Args:
            trunk: the new one.
            most_tokens: that the parked one may have: before it is cut, all of it is restored.
        """
        key = trunk_key(trunk)
        for border in reversed(borders(len(trunk))):
            for owner in reversed(self._prefixes.get(_prefix(key, border), ())):
                parked = self._parked[owner]
                if most_tokens is None or parked.tokens <= most_tokens:
                    self._parked.move_to_end(owner)
                    return Found(parked, border)
        return None

    def items(self) -> list[tuple[list[int], State]]:
        """Return all parked trunks with their tokens, the least recently used first."""
        return [(_tokens(key), parked.state) for key, parked in self._parked.items()]

    def get(self, key: bytes) -> Parked | None:
        """Return the trunk that is parked whole under a key, if it is."""
        return self._parked.get(key)

    def has_key(self, key: bytes) -> bool:
        """Return whether exactly the trunk of *key* is parked; changes nothing."""
        return key in self._parked

    def park(self, trunk: Sequence[int], state: State) -> list[tuple[list[int], State]]:
        """Keep the state of *trunk*, evicting what was used longest ago.

        Returns:
            The trunks that were evicted with their tokens; *trunk* itself if it is too large.
        """
        key = trunk_key(trunk)
        self._evict(key)
        parked = Parked(len(trunk), state)
        if parked.size_bytes > self._max_bytes:
            return [(list(trunk), state)]
        evicted = []
        while self.bytes_used + parked.size_bytes > self._max_bytes:
            oldest, other = next(iter(self._parked.items()))
            evicted.append((_tokens(oldest), other.state))
            self._evict(oldest)
        self._parked[key] = parked
        self.bytes_used += parked.size_bytes
        for prefix in self._findable(key):
            self._prefixes.setdefault(prefix, {})[key] = None
        return evicted

    def drop(self, parked: Parked) -> None:
        """Forget a parked trunk that turned out to be unusable."""
        for key, other in list(self._parked.items()):
            if other is parked:
                self._evict(key)

    def _evict(self, key: bytes) -> None:
        parked = self._parked.pop(key, None)
        if parked is None:
            return
        self.bytes_used -= parked.size_bytes
        for prefix in self._findable(key):
            owners = self._prefixes[prefix]
            del owners[key]
            if not owners:
                del self._prefixes[prefix]

    def _findable(self, key: bytes) -> list[bytes]:
        if not self._divisible:
            return [key]
        return [_prefix(key, border) for border in borders(len(key) // _TOKEN_BYTES)]


_TOKEN_BYTES = 4


def trunk_key(trunk: Sequence[int]) -> bytes:
    """Return the tokens themselves as a key: no two trunks share one."""
    return np.asarray(trunk, np.int32).tobytes()


def borders(tokens: int) -> tuple[int, ...]:
    """Return where the calls of a trunk of so many tokens end."""
    return tuple(span.stop for span in spans(0, tokens))


def _tokens(key: bytes) -> list[int]:
    found: list[int] = np.frombuffer(key, np.int32).tolist()
    return found


def _prefix(key: bytes, tokens: int) -> bytes:
    return key[: tokens * _TOKEN_BYTES]
