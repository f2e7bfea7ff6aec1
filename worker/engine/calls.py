"""What one llama.cpp call holds, and how it can fail."""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.errors import WorkerError


class NativeError(WorkerError):
    """llama.cpp refused a call; the context may be used on, its sequences must be removed."""


class CellsExhausted(NativeError):
    """A call found no cells for its tokens; nothing of it was stored."""


class Aborted(WorkerError):
    """A call was given up on request; the context may be used on, its sequences must be removed."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens of one call that follow each other.

    Attributes:
        tokens: ids.
        position: of the first one.
        sequences: what they all belong to.
        read: whether the last one's logits will be read.
    """

    tokens: Sequence[int]
    position: int
    sequences: tuple[int, ...]
    read: bool
