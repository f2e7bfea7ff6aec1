"""The labels that llama.cpp's server reads each decision type at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_letters, ascii_lowercase, ascii_uppercase
from typing import Protocol

from worker.decision.native.kinds import RATINGS, Kind
from worker.decision.question import MAX_OPTIONS, Choice, Option, Question
from worker.errors import CannotRun, Rejected

Encode = Callable[[str], Sequence[int]]
"""Tokenises plain text."""

_SPELLINGS = {"true": ("yes", "Yes", "YES"), "false": ("no", "No", "NO")}


@dataclass(frozen=True, slots=True)
class NativeLabel:
    """One label.

    Attributes:
        shown: its text for the template; None where the type's templates write it themselves.
        tokens: the tokens that spell it.
    """

    shown: str | None
    tokens: tuple[int, ...]


class NativeLabels(Protocol):
    """Labels of one decision type in one vocabulary."""

    @property
    def most(self) -> int:
        """The most options that can be labelled."""
        ...

    @property
    def ratings(self) -> Sequence[NativeLabel]:
        """The labels of a rating."""
        ...

    def label(self, question: Question, options: Sequence[Option]) -> tuple[NativeLabel, ...]:
        """Return a label for each of *options*, which are shown in this order.

        Raises:
            Rejected: the vocabulary has not enough.
        """
        ...


def find_labels(kind: Kind, encode: Encode) -> NativeLabels:
    """Find a decision type's labels.

    Raises:
        CannotRun: the vocabulary lacks them.
    """
    if kind.labels == "groups":
        return SpelledLabels(encode)
    if kind.labels == "letters":
        letters = [NativeLabel(None, tuple(encode(c))) for c in ascii_uppercase + ascii_lowercase]
        if any(len(label.tokens) != 1 for label in letters):
            raise CannotRun(
                f"{kind.name} needs all letters to be single tokens, which they are not"
            )
        return PooledLabels(letters)
    codes = [NativeLabel(code, tuple(encode(code))) for code in _codes()]
    single = [label for label in codes if len(label.tokens) == 1]
    if len(single) < RATINGS:
        raise CannotRun(f"only {len(single)} letters are single tokens in this model's vocabulary")
    return PooledLabels(single[:MAX_OPTIONS])


@dataclass(frozen=True, slots=True)
class PooledLabels:
    """Labels that are given out in order, whatever the options are.

    Attributes:
        pool: all that there are.
    """

    pool: Sequence[NativeLabel]

    @property
    def most(self) -> int:
        """The most options that can be labelled."""
        return len(self.pool)

    @property
    def ratings(self) -> Sequence[NativeLabel]:
        """The labels of a rating: the first ones, whatever they spell."""
        return self.pool[:RATINGS]

    def label(
        self,
        question: Question,  # noqa: ARG002 - the same for every question
        options: Sequence[Option],
    ) -> tuple[NativeLabel, ...]:
        """Return the first labels."""
        if len(options) > self.most:
            raise Rejected(
                "too_many_options",
                f"{len(options)} options, but this model can label {self.most}",
                "criteria",
            )
        return tuple(self.pool[: len(options)])


class SpelledLabels:
    """Labels that depend on the question: yes and no, a level's number, an option's own letter.

    Args:
        encode: tokenises plain text.

    Raises:
        CannotRun: yes, no, or a digit is not a single token in any spelling.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._fixed = {key: self._tokens(*spellings) for key, spellings in _SPELLINGS.items()}
        self._fixed |= {str(level): self._tokens(str(level)) for level in range(10)}
        if not all(self._fixed.values()):
            raise CannotRun("yes, no and the digits are not single tokens in this vocabulary")
        self._pool = {code: self._tokens(code) for code in _spelled_codes()}

    @property
    def most(self) -> int:
        """The most options that can be labelled."""
        return min(MAX_OPTIONS, len({tokens for tokens in self._pool.values() if tokens}))

    @property
    def ratings(self) -> Sequence[NativeLabel]:
        """The labels of a rating: the digits."""
        return tuple(NativeLabel(str(n), self._fixed[str(n)]) for n in range(RATINGS))

    def label(self, question: Question, options: Sequence[Option]) -> tuple[NativeLabel, ...]:
        """Return a label for each option."""
        if not isinstance(question, Choice):
            return tuple(NativeLabel(option.key, self._fixed[option.key]) for option in options)
        return tuple(self._take(_wanted(options)))

    def _take(self, wanted: Sequence[str]) -> Iterator[NativeLabel]:
        used: set[int] = set()
        for code in wanted:
            for candidate in (code, *self._pool):
                tokens = self._pool.get(candidate) or self._tokens(candidate)
                if tokens and tokens[0] not in used:
                    used.add(tokens[0])
                    spaced = [
                        token for token in self._tokens(f" {candidate}") if token != tokens[0]
                    ]
                    yield NativeLabel(candidate, (tokens[0], *spaced))
                    break
            else:
                raise Rejected(
                    "too_many_options",
                    f"{len(wanted)} options, but this model can label {len(used)}",
                    "criteria",
                )

    def _tokens(self, *spellings: str) -> tuple[int, ...]:
        """Return the tokens of those spellings that are single tokens, each once."""
        encoded = (tuple(self._encode(spelling)) for spelling in spellings)
        return tuple(dict.fromkeys(tokens[0] for tokens in encoded if len(tokens) == 1))


def _wanted(options: Sequence[Option]) -> list[str]:
    """Return the code each option should have: its own letter, else a letter, else a number."""
    keys = [option.key for option in options]
    if all(len(key) == 1 and key in ascii_letters for key in keys):
        return keys
    if len(options) <= len(ascii_uppercase):
        return list(ascii_uppercase[: len(options)])
    return [f"{number:02}" for number in range(len(options))]


def _codes() -> Iterator[str]:
    yield from ascii_uppercase
    yield from _pairs()


def _pairs() -> Iterator[str]:
    return (first + second for first in ascii_uppercase for second in ascii_uppercase)


def _spelled_codes() -> Iterator[str]:
    yield from ascii_uppercase
    yield from (f"{number:02}" for number in range(100))
    yield from ascii_lowercase
    yield from (f"#{number}" for number in range(200))
    yield from _pairs()
