"""Labels: the single tokens at which options are read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Protocol

from worker.decision.question import MAX_OPTIONS
from worker.decision.text import Piece, PromptText
from worker.errors import CannotRun, Rejected


class Vocabulary(Protocol):
    """What proving a label needs to know of a model's vocabulary."""

    def encode(self, prompt: PromptText) -> Sequence[int]:
        """Return the token ids of a full prompt."""
        ...

    def text(self, token: int) -> str:
        """Return the text that a token stands for."""
        ...


@dataclass(frozen=True, slots=True)
class Label:
    """One label.

    Attributes:
        shown: its text in the prompt, such as ``A``.
        token: the id of the one token that spells it after the answer cue.
    """

    shown: str
    token: int


class LabelPool:
    """The labels that one vocabulary can supply, in the order they are given out."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self._labels = tuple(labels)

    def __len__(self) -> int:
        return len(self._labels)

    def take(self, count: int) -> tuple[Label, ...]:
        """Return the first *count* labels.

        Raises:
            Rejected: the vocabulary cannot supply so many.
        """
        if count > len(self._labels):
            raise Rejected(
                "too_many_options",
                f"{count} options, but this model's vocabulary can label {len(self._labels)}",
            )
        return self._labels[:count]


def prove_labels(vocabulary: Vocabulary, cue: PromptText, *, chat: bool) -> LabelPool:
    """Collect the labels that are one exact token of *vocabulary* after the answer cue.

    A plain prompt ends in ``Answer:``, which a space follows in ordinary text; a chat template
    ends where the answer begins. The spelling that supplies more labels wins.

    Raises:
        CannotRun: not even two labels can be proved.
    """
    spellings = ("", " ") if chat else (" ", "")
    pools = [list(_proved(vocabulary, cue, before=spelling)) for spelling in spellings]
    best = max(pools, key=len)
    if len(best) < 2:
        raise CannotRun("no two letters are single tokens in this model's vocabulary")
    return LabelPool(best[:MAX_OPTIONS])


def _candidates() -> Iterator[str]:
    """Yield letters, then two-letter codes, then numbers."""
    yield from ascii_uppercase
    yield from (first + second for first in ascii_uppercase for second in ascii_uppercase)
    yield from map(str, range(10, 1000))


def _proved(vocabulary: Vocabulary, cue: PromptText, before: str) -> Iterator[Label]:
    without = list(vocabulary.encode(cue))
    found = 0
    for shown in _candidates():
        if found == MAX_OPTIONS:
            return
        tokens = list(vocabulary.encode((*cue, Piece(before + shown, trusted=False))))
        one_more = tokens[:-1] == without
        if one_more and vocabulary.text(tokens[-1]).strip() == shown:
            found += 1
            yield Label(shown, tokens[-1])
