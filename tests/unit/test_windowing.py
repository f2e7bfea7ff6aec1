"""Windows over long states, by the tokens that prompts really have."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.factories import QUESTIONS, make_ticket, make_wording
from tests.fakes import FakeEngine
from tests.native_wording import GIVEN, STATE, make_native
from worker.decision.overflow import Overflow
from worker.decision.question import Text
from worker.decision.wording import Wording
from worker.errors import Rejected, UsageError
from worker.settings import Settings
from worker.windowing import LONGEST_WHOLE_CHARACTERS, Windows, open_overflow

SMALL = Overflow(
    rule="window", window_tokens=700, question_tokens=100, overlap_tokens=60, max_windows=64
)
"""For an engine whose tokens are characters; the prompt around a state has some 150 of them."""

LIMIT = SMALL.window_tokens - SMALL.question_tokens
PROSE = " ".join(f"Sentence number {number} of this text." for number in range(60))


def tokens_of(state: Text, wording: Wording | None = None) -> int:
    """Return the tokens of the longer of the two short questions about a state."""
    probes = (wording or make_wording()).probes(state, make_ticket().questions or {})
    return max(sum(len(piece.text) for piece in probe) for probe in probes)


async def windows_over(
    state: Text, overflow: Overflow = SMALL, wording: Wording | None = None, **questions: Any
) -> list[Any] | None:
    asked = make_ticket(questions=questions or QUESTIONS).questions or {}
    windows = Windows(FakeEngine(), wording or make_wording(), overflow)
    found = await windows.over(state, asked)
    return None if found is None else list(found)


async def refusal_of(state: Text, overflow: Overflow = SMALL) -> str:
    with pytest.raises(Rejected) as caught:
        await windows_over(state, overflow)
    assert ("prompt_too_long", "state") == (caught.value.code, caught.value.where)
    return caught.value.message


async def test_a_state_that_fits_is_left_whole() -> None:
    """To the last token; with one more it is read in windows."""
    room = LIMIT - tokens_of("")

    assert await windows_over("x" * room) is None
    assert 2 == len(await windows_over("x" * (room + 1)) or ())


paragraphs = st.lists(
    st.text("ab. ", min_size=1, max_size=60).map(str.strip).filter(bool), min_size=20, max_size=60
)


@settings(max_examples=30)
@given(paragraphs, st.sampled_from(["\n\n", "\r\n\r\n", "\n \n\n"]))
async def test_windows_are_of_whole_paragraphs(texts: list[str], between: str) -> None:
    """Every paragraph is in a window, in order; every prompt leaves room for a question."""
    state = between.join(texts)
    windows = await windows_over(state)
    if windows is None:
        assert tokens_of(state) <= LIMIT
        return
    place = 0
    for window in windows:
        assert tokens_of(window) <= LIMIT
        place = state.index(window, place)  # each begins after the one before
        assert set(window.split(between)) <= set(texts)
    assert set(texts) == {text for window in windows for text in window.split(between)}
    assert state.startswith(windows[0])
    assert state.endswith(windows[-1])
    assert windows == await windows_over(state)


separators = st.sampled_from(["", " ", ". ", "! ", "\n", "\n\n", " \t ", "\N{WINKING FACE}" * 30])


@settings(max_examples=20)
@given(st.lists(separators, min_size=150, max_size=250))
async def test_no_text_is_left_out(between: list[str]) -> None:
    """Whatever it looks like: nothing but white space is between two windows."""
    text = "".join(f"<{number}>{one}" for number, one in enumerate(between))
    windows = await windows_over(text) or [text]
    start = end = 0
    for window in windows:
        assert tokens_of(window) <= LIMIT or len(windows) == 1
        start = text.index(window, start)
        assert start <= end or not text[end:start].strip()
        end = start + len(window)
    assert not text[end:].strip()


async def test_a_long_paragraph_is_cut_between_sentences() -> None:
    """And neighbours share some: the most that they may, but for less than one sentence."""
    windows = await windows_over(PROSE)

    assert windows is not None
    for one, other in pairwise(windows):
        assert one.endswith(".")
        assert other.startswith("Sentence")
        assert any(one.endswith(other[:size]) for size in range(30, SMALL.overlap_tokens + 1))


@pytest.mark.parametrize("keys", [["desk"], ["refund"], list(QUESTIONS)])
async def test_questions_do_not_move_windows(keys: list[str]) -> None:
    """They depend on state and template alone, however long a question beside is."""
    long = {"type": "noul", "instructions": "Is it? " * 100}
    asked = {key: QUESTIONS[key] for key in keys}

    alone = await windows_over(PROSE, **asked)
    assert alone == await windows_over(PROSE, **asked, long=long)
    assert alone == await windows_over(PROSE)


@pytest.mark.parametrize("state", [PROSE.replace(" ", '"'), PROSE.replace(" ", "\n\n")])
async def test_what_a_template_escapes_fits_too(state: str) -> None:
    """A state that has more tokens in its prompt than by itself is cut to more windows."""
    openjev = make_native()
    windows = await windows_over(state, wording=openjev)

    assert windows is not None
    assert max(tokens_of(one, openjev) for one in windows) <= LIMIT
    assert len(windows) > len(state) // (LIMIT - tokens_of("", openjev))
    assert state.startswith(windows[0])
    assert state.endswith(windows[-1])


async def test_listed_questions_count() -> None:
    """Nimble's prompts list all of a ticket's questions, so there is less room in each window."""
    nimble = make_native("nimble", template=STATE + "{{ questions | tojson }}" + GIVEN)
    wide = replace(SMALL, window_tokens=1400)
    few = await windows_over(PROSE, wide, nimble, desk=QUESTIONS["desk"])
    many = await windows_over(PROSE, wide, nimble)

    assert len(many or ()) > len(few or ()) > 1


async def test_arrays_are_cut_between_elements() -> None:
    """Each window is an array of some of them, in order; none is cut."""
    events = [{"at": number, "what": ["clicked", None]} for number in range(60)]
    windows = await windows_over(events)

    assert windows is not None
    assert all(tokens_of(window) <= LIMIT for window in windows)
    assert all(window == events[window[0]["at"] :][: len(window)] for window in windows)
    assert events == [
        event
        for number, window in enumerate(windows)
        for event in window
        if not any(event in before for before in windows[:number])
    ]


async def test_what_cannot_be_cut_is_rejected() -> None:
    """Objects, elements longer than a window, a window without room: by name and with counts."""
    wide = {"mails": [PROSE]}
    size = tokens_of(wide)
    element = refusal_of(["short", PROSE])

    assert f"has {size} tokens, {LIMIT} tokens fit" in await refusal_of(wide)
    assert "not over objects" in await refusal_of(wide)
    assert f"element 1 has {len(json.dumps([PROSE]))} tokens" in await element
    assert f"{tokens_of('')} are not the state's" in await refusal_of(
        PROSE, replace(SMALL, window_tokens=tokens_of("") + 110)
    )


async def test_the_number_of_windows_is_bounded() -> None:
    """With the counts; before anything is evaluated."""
    windows = await windows_over(PROSE)
    count = len(windows or ())

    assert windows == await windows_over(PROSE, replace(SMALL, max_windows=count))
    message = await refusal_of(PROSE, replace(SMALL, max_windows=count - 1))
    assert f"about {len(PROSE)} tokens" in message
    assert f"at most {count - 1} windows" in message


async def test_a_very_long_text_is_cut_without_being_measured_whole() -> None:
    """Which may still turn out to be one window."""
    huge = "word " * (LONGEST_WHOLE_CHARACTERS // 5 + 1) + "end"
    wide = replace(SMALL, window_tokens=len(huge) + 1000, overlap_tokens=20_000)

    assert await windows_over(huge, wide) is None
    assert len(await windows_over(huge, replace(wide, window_tokens=len(huge))) or ()) == 2


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (8192, 1024, 896)),
        ({"window_tokens": 512}, (512, 128, 48)),
        ({"window_question_tokens": 192}, (8192, 192, 1000)),
        ({"window_overlap_tokens": 0}, (8192, 1024, 0)),
    ],
)
def test_sizes_come_of_the_context(values: dict[str, Any], expected: tuple[int, ...]) -> None:
    """Unless they are set."""
    overflow = open_overflow(Settings(**values), 8192)

    assert expected == (
        overflow.window_tokens,
        overflow.question_tokens,
        overflow.overlap_tokens,
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"window_tokens": 8193}, "--window-tokens is 8193, the context holds 8192"),
        ({"window_overlap_tokens": 4096}, "are more than a window of 8192 tokens"),
        ({"window_question_tokens": 8193}, "are more than a window of 8192 tokens"),
    ],
)
def test_windows_that_cannot_be_read_stop_the_start(values: dict[str, Any], message: str) -> None:
    """With the numbers."""
    with pytest.raises(UsageError, match=message):
        open_overflow(Settings(**values), 8192)
