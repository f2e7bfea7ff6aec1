"""Cut a state that is too long for one prompt into overlapping windows.

A text is cut into parts (:func:`cut_text`, :func:`fine`) that are counted in tokens and put
together again (:func:`pack`). A window ends at the end of a paragraph wherever it can: a paragraph
that fits a window is whole in at least one. One that does not is cut at the end of a sentence,
else of a word, else between two characters.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate

VERSION = 1
"""Of the rules below; windows that are cut in another way have another."""


class Border(IntEnum):
    """Where a part ends, from the worst place to cut to the best."""

    CHARACTER = 0
    WORD = 1
    SENTENCE = 2
    PARAGRAPH = 3


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text, with the white space that follows it."""

    text: str = field(repr=False)
    border: Border


@dataclass(frozen=True, slots=True)
class _End:
    border: Border
    pattern: re.Pattern[str]


# Each is linear in the text. A line break ends a sentence, since lists have no full stops.
_ENDS = (
    _End(
        Border.SENTENCE,
        re.compile(r"""[.!?…]["'”’»)\]]*\s+|[。\uff01\uff1f]|\n\s*"""),
    ),
    _End(Border.WORD, re.compile(r"\s+")),
)


def cut_text(text: str) -> list[Part]:
    """Cut a text after each run of blank lines; the parts together are the text."""
    paragraphs: list[Part] = []
    lines: list[str] = []
    written = ended = False
    for line in text.splitlines(keepends=True):
        is_blank = not line.strip()
        if ended and not is_blank:
            paragraphs.append(Part("".join(lines), Border.PARAGRAPH))
            lines, written, ended = [], False, False
        lines.append(line)
        written = written or not is_blank
        ended = written and is_blank
    if lines:
        paragraphs.append(Part("".join(lines), Border.PARAGRAPH))
    return paragraphs


def fine(part: Part, is_long: Callable[[str], bool]) -> Iterator[Part]:
    """Yield a part, or the parts that it is cut into while a text *is_long*; in order.

    What is long is cut near its middle, at the end of a sentence, else of a word, else between
    two characters.
    """
    return _fine(part, is_long, _ENDS)


def _fine(part: Part, is_long: Callable[[str], bool], ends: tuple[_End, ...]) -> Iterator[Part]:
    """Look for *ends* only: halves of a text without the end of a sentence have none either."""
    text = part.text
    if len(text) < 2 or not is_long(text):
        yield part
        return
    border, place = Border.CHARACTER, len(text) // 2
    while ends:
        found = _near_middle(ends[0].pattern, text)
        if found is not None:
            border, place = ends[0].border, found
            break
        ends = ends[1:]
    yield from _fine(Part(text[:place], border), is_long, ends)
    yield from _fine(Part(text[place:], part.border), is_long, ends)


def _near_middle(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the end of a match near the middle of a text, looked for further and further away."""
    size = len(text)
    middle, reach = size // 2, 128
    while True:
        first, last = max(0, middle - reach), min(size, middle + reach)
        ends = (match.end() for match in pattern.finditer(text, first, last))
        # A match that ends where looking ended may go on.
        place = min(
            (end for end in ends if end < last), key=lambda end: abs(end - middle), default=None
        )
        if place is not None or last - first == size:
            return place
        reach *= 4


@dataclass(frozen=True, slots=True)
class Span:
    """Parts ``start`` to ``stop`` (exclusive)."""

    start: int
    stop: int


def pack(
    tokens: Sequence[int], borders: Sequence[Border], capacity: int, overlap: int
) -> list[Span]:
    """Put parts together to windows.

    Each window is a run of parts, begins before the end of the one before it, and ends after it.

    Args:
        tokens: of each part, at least 1 and at most *capacity*.
        borders: at which each part ends; the last one's is a paragraph's.
        capacity: the most tokens of a window.
        overlap: the most tokens that a window repeats of the one before: as many whole
            paragraphs as fit, else the end of a paragraph from the best border. Fewer, or
            none, where the next paragraph fits a window, but not beside them.

    Returns:
        The windows, in order.
    """
    return list(_Packing(tokens, borders, capacity, overlap).windows())


class _Packing:
    def __init__(
        self, tokens: Sequence[int], borders: Sequence[Border], capacity: int, overlap: int
    ) -> None:
        self._borders = (Border.PARAGRAPH, *borders)  # of place n: where part n begins
        self._before = (0, *accumulate(tokens))
        self._capacity = capacity
        self._overlap = overlap

    def windows(self) -> Iterator[Span]:
        start = end = 0
        last = len(self._before) - 1
        while end < last:
            start = self._start(start, end) if end else 0
            end = self._stop(start, end)
            yield Span(start, end)

    def _tokens(self, start: int, stop: int) -> int:
        return self._before[stop] - self._before[start]

    def _paragraph_end(self, place: int) -> int:
        """Return where the paragraph ends that the part at *place* is of."""
        return self._borders.index(Border.PARAGRAPH, place + 1)

    def _whole(self, place: int) -> bool:
        """Return whether a paragraph begins at *place* that fits a window."""
        begins = self._borders[place] is Border.PARAGRAPH
        return begins and self._tokens(place, self._paragraph_end(place)) <= self._capacity

    def _start(self, start: int, end: int) -> int:
        """Return where the window begins that goes on where the one from *start* ended."""
        next_end = self._paragraph_end(end) if self._whole(end) else end + 1
        room = min(self._overlap, self._capacity - self._tokens(end, next_end))
        first = max(start + 1, bisect_left(self._before, self._before[end] - room))
        return self._best(range(first, end), default=end, prefer=min)

    def _stop(self, start: int, end: int) -> int:
        """Return where the window from *start* ends, which is after *end*."""
        reach = bisect_right(self._before, self._before[start] + self._capacity) - 1
        places = range(end + 1, reach + 1)
        whole = max(
            (place for place in places if self._borders[place] is Border.PARAGRAPH), default=end
        )
        if whole == len(self._before) - 1 or (whole > end and self._whole(whole)):
            return whole
        # What comes next is cut in any case. Not near the beginning: windows cost an evaluation.
        half = bisect_right(self._before, self._before[start] + self._capacity // 2)
        within = range(max(whole + 1, half), reach + 1)
        return self._best(within, default=reach, prefer=max)

    def _best(self, places: range, *, default: int, prefer: Callable[..., int]) -> int:
        """Return the place of the best border, of those the first or the last."""
        if not places:
            return default
        best = max(self._borders[place] for place in places)
        return prefer(place for place in places if self._borders[place] == best)
