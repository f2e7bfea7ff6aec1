"""Windows over a long state: nothing is left out, whole paragraphs stay whole, all fit."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.decision.windows import Border, Part, Span, cut_text, fine, pack

texts = st.text(alphabet="ab .!\n\r\t。é\N{WINKING FACE}", max_size=120)


@st.composite
def parts_and_sizes(draw: st.DrawFn) -> tuple[list[int], list[Border], int, int]:
    """Tokens and borders of parts, a capacity that each fits, and an overlap."""
    capacity = draw(st.integers(1, 40))
    tokens = draw(st.lists(st.integers(1, capacity), min_size=1, max_size=40))
    borders = [draw(st.sampled_from(Border)) for _ in tokens[1:]] + [Border.PARAGRAPH]
    return tokens, borders, capacity, draw(st.integers(0, 40))


def paragraphs_of(borders: list[Border]) -> list[Span]:
    ends = [0, *(place + 1 for place, one in enumerate(borders) if one is Border.PARAGRAPH)]
    return [Span(start, stop) for start, stop in pairwise(ends)]


@given(texts)
def test_the_parts_are_the_text(text: str) -> None:
    """Nothing is lost or changed, however finely it is cut; each part but the last has an end."""
    parts = cut_text(text)
    finest = [small for part in parts for small in fine(part, lambda _: True)]

    assert text == "".join(part.text for part in parts)
    assert list(text) == [part.text for part in finest]
    assert all(part.border is Border.PARAGRAPH for part in parts)


@given(texts)
def test_a_paragraph_ends_with_its_blank_lines(text: str) -> None:
    """Each begins with text, but for what stands at the very beginning; a blank line ends it."""
    for one, other in pairwise(cut_text(text)):
        assert not other.text.splitlines()[0].isspace()
        last = one.text.splitlines(keepends=True)[-1]
        assert not last.strip()
        assert one.text.strip()


@pytest.mark.parametrize(
    ("text", "halves", "border"),
    [
        ("One. Two three. Four five", ("One. Two three. ", "Four five"), Border.SENTENCE),
        ('He said "No!" And left', ('He said "No!" ', "And left"), Border.SENTENCE),
        ("- milk\n- bread and butter", ("- milk\n", "- bread and butter"), Border.SENTENCE),
        ("一。二三四", ("一。", "二三四"), Border.SENTENCE),
        ("version 1.2 of it", ("version ", "1.2 of it"), Border.WORD),
        ("abcd", ("ab", "cd"), Border.CHARACTER),
        ("\N{WINKING FACE}\N{WINKING FACE}", ("\N{WINKING FACE}",) * 2, Border.CHARACTER),
    ],
)
def test_the_best_border_is_taken(text: str, halves: tuple[str, str], border: Border) -> None:
    """A sentence's end before a word's before none; of several the one nearest the middle."""
    first, second = fine(Part(text, Border.PARAGRAPH), lambda one: one == text)

    assert halves == (first.text, second.text)
    assert (border, Border.PARAGRAPH) == (first.border, second.border)


@given(texts, st.integers(1, 20))
def test_no_part_is_long(text: str, most: int) -> None:
    """Cutting goes on while a part is long, and no further than that."""
    for paragraph in cut_text(text):
        parts = list(fine(paragraph, lambda one: len(one) > most))
        assert all(len(part.text) <= most for part in parts)
        if len(paragraph.text) <= most:
            assert [paragraph] == parts


@given(parts_and_sizes())
def test_windows_cover_everything_in_order(
    case: tuple[list[int], list[Border], int, int],
) -> None:
    """Every part is in a window, each window begins and ends after the one before it."""
    tokens, borders, capacity, overlap = case
    spans = pack(tokens, borders, capacity, overlap)

    assert (0, len(tokens)) == (spans[0].start, spans[-1].stop)
    for one, other in pairwise(spans):
        assert one.start < other.start <= one.stop < other.stop
    assert spans == pack(tokens, borders, capacity, overlap)


@given(parts_and_sizes())
def test_windows_fit(case: tuple[list[int], list[Border], int, int]) -> None:
    """No window has more tokens than it may, no two share more than they may."""
    tokens, borders, capacity, overlap = case
    spans = pack(tokens, borders, capacity, overlap)

    assert all(0 < sum(tokens[one.start : one.stop]) <= capacity for one in spans)
    assert all(sum(tokens[other.start : one.stop]) <= overlap for one, other in pairwise(spans))


@given(parts_and_sizes())
def test_paragraphs_stay_whole(case: tuple[list[int], list[Border], int, int]) -> None:
    """One that fits a window is whole in at least one; only longer ones are cut at an end."""
    tokens, borders, capacity, overlap = case
    spans = pack(tokens, borders, capacity, overlap)

    for paragraph in paragraphs_of(borders):
        if sum(tokens[paragraph.start : paragraph.stop]) <= capacity:
            assert any(one.start <= paragraph.start and paragraph.stop <= one.stop for one in spans)
            assert not any(paragraph.start < one.stop < paragraph.stop for one in spans)


@given(parts_and_sizes())
def test_windows_overlap(case: tuple[list[int], list[Border], int, int]) -> None:
    """Neighbours share a part wherever the overlap and what comes next leave room for one."""
    tokens, borders, capacity, overlap = case
    spans = pack(tokens, borders, capacity, overlap)
    whole = {one.start: sum(tokens[one.start : one.stop]) for one in paragraphs_of(borders)}

    for one, other in pairwise(spans):
        following = whole.get(one.stop, capacity + 1)
        if following > capacity:
            following = tokens[one.stop]
        shared = tokens[one.stop - 1]
        if one.stop - 1 > one.start and shared <= min(overlap, capacity - following):
            assert other.start < one.stop


def test_an_overlap_begins_with_a_paragraph() -> None:
    """As many as fit; where not even the last one does, with a sentence of it."""
    paragraphs = [Border.PARAGRAPH] * 6
    assert [Span(0, 4), Span(2, 6)] == pack([10] * 6, paragraphs, 40, 25)
    assert [Span(0, 4), Span(3, 6)] == pack([10] * 6, paragraphs, 40, 19)
    assert [Span(0, 4), Span(4, 6)] == pack([10] * 6, paragraphs, 40, 9)

    sentences = [Border.PARAGRAPH, Border.SENTENCE, Border.WORD, Border.PARAGRAPH] * 2
    assert [Span(0, 4), Span(2, 5), Span(4, 8)] == pack([10] * 8, sentences, 40, 20)


def test_a_long_paragraph_is_cut_at_a_sentence() -> None:
    """In the window's second half; else at a word, and the next paragraph goes on beside it."""
    word, sentence, paragraph = Border.WORD, Border.SENTENCE, Border.PARAGRAPH
    late = [word, word, sentence, word, word, paragraph, paragraph]
    early = [sentence, word, word, word, word, paragraph, paragraph]

    assert [Span(0, 3), Span(3, 7)] == pack([10] * 7, late, 40, 0)
    assert [Span(0, 4), Span(4, 7)] == pack([10] * 7, early, 40, 0)


def test_a_heading_gets_no_window_of_its_own() -> None:
    """A short paragraph before one that is cut in any case shares its first window."""
    heading = [Border.PARAGRAPH, *[Border.SENTENCE] * 6, Border.PARAGRAPH]

    assert [Span(0, 4), Span(4, 8)] == pack([10] * 8, heading, 40, 0)
