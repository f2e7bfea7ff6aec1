"""The plan: which tokens are decoded, in which call. Exactness rests on it."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.engine.plan import CHUNK_TOKENS, Plan, Span, common_prefix, plan, spans

lengths = st.integers(1, 5000)
starts = st.integers(0, 3000)


def sizes(start: int, length: int) -> list[int]:
    return [len(span) for span in spans(start, start + length)]


@given(starts, lengths, st.integers(3, 600))
@example(0, 1, CHUNK_TOKENS)
@example(0, 513, CHUNK_TOKENS)
@example(7, 1025, CHUNK_TOKENS)
def test_spans_cover_everything_once(start: int, length: int, chunk: int) -> None:
    """Calls follow each other without gap or overlap, none too long and none of one token."""
    found = spans(start, start + length, chunk)

    assert start == found[0].start
    assert start + length == found[-1].stop
    assert all(one.stop == other.start for one, other in pairwise(found))
    assert all(1 <= len(span) <= chunk for span in found)
    assert length == 1 or all(len(span) > 1 for span in found)


@given(starts, lengths)
def test_borders_are_fixed(start: int, length: int) -> None:
    """Every border but the last one inside lies on a multiple of 512 from the start."""
    found = spans(start, start + length)
    inner = [span.stop - start for span in found[:-1]]

    assert [512 * number for number in range(1, len(inner))] == inner[:-1]
    assert not inner or inner[-1] in (512 * len(inner), 512 * len(inner) - 1)


@given(starts, lengths, lengths)
def test_a_longer_prompt_begins_with_the_same_calls(start: int, length: int, more: int) -> None:
    """Calls depend on what was before, never on what follows: all but the last two agree."""
    shorter, longer = spans(start, start + length), spans(start, start + length + more)

    assert shorter[:-2] == longer[: max(0, len(shorter) - 2)]


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (1, [1]),
        (2, [2]),
        (511, [511]),
        (512, [512]),
        (513, [511, 2]),
        (514, [512, 2]),
        (1023, [512, 511]),
        (1024, [512, 512]),
        (1025, [512, 511, 2]),
        (1026, [512, 512, 2]),
    ],
)
@pytest.mark.parametrize("start", [0, 1, 700])
def test_calls_around_the_chunk_size(start: int, length: int, expected: list[int]) -> None:
    """A remainder of one token shares with the chunk before it."""
    assert expected == sizes(start, length)


def test_nothing_needs_no_call() -> None:
    """An empty range is no call at all."""
    assert () == spans(5, 5)


def test_a_span_is_a_range() -> None:
    """A span ends before its stop."""
    assert 3 == len(Span(4, 7))


tokens = st.lists(st.integers(0, 3), max_size=12)


@given(tokens, tokens)
def test_the_common_prefix_is_the_longest(first: list[int], second: list[int]) -> None:
    """All tokens before it agree, and the ones after it differ or are missing."""
    length = common_prefix(first, second)

    assert first[:length] == second[:length]
    assert first[length : length + 1] != second[length : length + 1] or length == len(first)
    assert length == common_prefix(second, first)
    assert len(first) == common_prefix(first, first + second)


def probes_of(trunk: list[int]) -> tuple[list[int], list[int]]:
    """Return two prompts that share just *trunk*."""
    return [*trunk, 101, 102], [*trunk, 201]


def test_branches_fork_from_the_trunk() -> None:
    """The trunk is decoded once, but for its last token, which the branches decode."""
    trunk = [1, 2, 3, 4, 5]
    prompts = [[*trunk, 7], [*trunk, 8, 9]]

    assert plan(probes_of(trunk), prompts) == Plan(
        whole=(), trunk_tokens=4, forked=(0, 1), input_tokens=13, evaluated_tokens=9, cells=7
    )


@pytest.mark.parametrize(
    "prompt",
    [
        [1, 2, 9, 4, 5, 7],
        [1, 2, 3, 4, 9, 9, 9],
        [1, 2, 3],
        [1, 2, 3, 4, 5],
        [7],
    ],
)
def test_a_branch_that_does_not_begin_with_the_trunk_is_whole(prompt: list[int]) -> None:
    """Such a branch is evaluated from its first token, beside others that do fork."""
    trunk = [1, 2, 3, 4, 5]
    found = plan(probes_of(trunk), [prompt, [*trunk, 7]])

    assert ((0,), (1,), 4) == (found.whole, found.forked, found.trunk_tokens)
    assert len(prompt) + 6 == found.input_tokens == found.evaluated_tokens


@pytest.mark.parametrize("trunk", [[], [1], [1, 2]])
def test_a_trunk_of_one_token_is_none(trunk: list[int]) -> None:
    """What would be a call of one token is not decoded as a trunk: all branches are whole."""
    found = plan(probes_of(trunk), [[*trunk, 7, 8], [*trunk, 9]])

    assert ((0, 1), (), 0) == (found.whole, found.forked, found.trunk_tokens)


def test_the_shortest_trunk_has_two_tokens() -> None:
    """Three shared tokens are enough: two for the trunk, one for the branches."""
    found = plan(probes_of([1, 2, 3]), [[1, 2, 3, 7]])

    assert ((), (0,), 2) == (found.whole, found.forked, found.trunk_tokens)


def test_without_forks_no_trunk_is_decoded() -> None:
    """A trunk that no branch begins with costs nothing."""
    found = plan(probes_of([1, 2, 3, 4]), [[9, 9], [9]])

    assert (0, 3, 3, 2) == (
        found.trunk_tokens,
        found.input_tokens,
        found.evaluated_tokens,
        found.cells,
    )


trunks = st.lists(st.integers(0, 2), max_size=6)
branches = st.lists(st.integers(0, 2), min_size=1, max_size=8)


@st.composite
def tickets(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Draw a trunk and prompts, of which some begin with it."""
    trunk = draw(trunks)
    prompts = draw(st.lists(branches | branches.map(lambda end: trunk + end), min_size=1))
    return trunk, prompts


def calls(found: Plan, index: int, length: int) -> list[tuple[int, int]]:
    """Return the calls that branch *index* is evaluated with, the trunk's included."""
    start = found.trunk_tokens if index in found.forked else 0
    trunk = spans(0, start) if start else ()
    return [(span.start, span.stop) for span in (*trunk, *spans(start, length))]


@given(tickets(), st.data())
def test_a_branch_does_not_depend_on_the_others(
    ticket: tuple[list[int], list[list[int]]], data: st.DataObject
) -> None:
    """A question is evaluated by the same calls whatever else is asked, in whatever order."""
    trunk, prompts = ticket
    index = data.draw(st.integers(0, len(prompts) - 1))
    others = data.draw(st.lists(branches, max_size=3))
    order = data.draw(st.permutations([prompts[index], *others]))
    position = order.index(prompts[index])
    length = len(prompts[index])
    alone = calls(plan(probes_of(trunk), [prompts[index]]), 0, length)

    assert alone == calls(plan(probes_of(trunk), prompts), index, length)
    assert alone == calls(plan(probes_of(trunk), order), position, length)


@given(tickets())
def test_a_plan_counts_what_it_decodes(ticket: tuple[list[int], list[list[int]]]) -> None:
    """Every branch is planned once, none of its calls has one token, and the sums are right."""
    trunk, prompts = ticket
    found = plan(probes_of(trunk), prompts)
    decoded = found.trunk_tokens + sum(
        len(prompt) - (found.trunk_tokens if index in found.forked else 0)
        for index, prompt in enumerate(prompts)
    )

    assert list(range(len(prompts))) == sorted([*found.whole, *found.forked])
    assert decoded == found.evaluated_tokens
    assert sum(map(len, prompts)) == found.input_tokens
    assert max(map(len, prompts)) == found.cells
    for index, prompt in enumerate(prompts):
        lone = [call for call in calls(found, index, len(prompt)) if call[1] - call[0] == 1]
        assert not lone or len(prompt) == 1
