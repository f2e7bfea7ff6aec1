"""Prompt text in pieces that say who wrote them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt.

    Attributes:
        trusted: whether spellings of control tokens in it mean control tokens. Text that a
            customer had a hand in is never trusted.
    """

    text: str = field(repr=False)
    trusted: bool


PromptText = tuple[Piece, ...]
