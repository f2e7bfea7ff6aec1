"""The labels of the decision types."""

from collections.abc import Iterable, Sequence

import pytest

from tests.factories import make_choice, make_noul, make_score
from worker.decision.native.kinds import find_kind
from worker.decision.native.labels import NativeLabel, find_labels
from worker.decision.question import Question
from worker.errors import CannotRun, Rejected

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class FakeVocabulary:
    """Knows some texts as single tokens, numbered in the order given."""

    def __init__(self, single: Iterable[str]) -> None:
        self.single = list(single)

    def __call__(self, text: str) -> Sequence[int]:
        return [self.single.index(text)] if text in self.single else [-1, -1]


def labels_of(kind: str, single: Iterable[str], question: Question) -> tuple[NativeLabel, ...]:
    return find_labels(find_kind(kind), FakeVocabulary(single)).label(question, question.options())


def test_openjev_reads_letters_that_its_template_writes() -> None:
    """A to Z and a to z, 52 in all; each must be one token."""
    labels = find_labels(find_kind("openjev"), FakeVocabulary(LETTERS))

    assert 52 == labels.most
    assert [NativeLabel(None, (0,)), NativeLabel(None, (1,))] == list(
        labels.label(make_choice(), make_choice().options())
    )
    with pytest.raises(CannotRun, match="letters"):
        find_labels(find_kind("openjev"), FakeVocabulary(LETTERS[1:]))


def test_codes_are_those_that_are_single_tokens() -> None:
    """In order, gaps left out, the template told what they are; 255 at most."""
    single = [*LETTERS[:3], "E", "AB", "CA", "AA", "ZZ", "AAA", "F", "G"]
    labels = find_labels(find_kind("lev"), FakeVocabulary(single))
    question = make_choice(criteria=dict.fromkeys("abcdefghij"))

    assert ["A", "B", "C", "E", "F", "G", "AA", "AB", "CA", "ZZ"] == [
        label.shown for label in labels.label(question, question.options())
    ]
    assert 10 == labels.most
    assert list("ABCEFG") == [label.shown for label in labels.ratings][:6]
    pairs = [first + second for first in LETTERS[:26] for second in LETTERS[:26]]
    assert 255 == find_labels(find_kind("nimble"), FakeVocabulary([*LETTERS[:26], *pairs])).most
    with pytest.raises(CannotRun, match="only 8 letters"):
        find_labels(find_kind("pplx-decider"), FakeVocabulary(LETTERS[:8]))


BASIC = ["yes", "Yes", "no", "No", *map(str, range(10))]


def test_lfm2_reads_yes_and_no_and_numbers_in_their_spellings() -> None:
    """Every spelling that is one token; a level's own digit."""
    assert [NativeLabel("true", (0, 1)), NativeLabel("false", (2, 3))] == list(
        labels_of("lfm2-d1", BASIC, make_noul())
    )
    assert [NativeLabel(str(n), (4 + n,)) for n in range(3)] == list(
        labels_of("lfm2-d1", BASIC, make_score())
    )
    with pytest.raises(CannotRun, match="yes, no"):
        find_labels(find_kind("lfm2-d1"), FakeVocabulary(BASIC[2:]))


@pytest.mark.parametrize(
    ("keys", "single", "shown"),
    [
        (["x", "y"], ["A", "B"], ["A", "B"]),  # no tokens of their own: the pool's
        (["x", "b"], ["x", "b", "A"], ["x", "b"]),  # letters name themselves
        (["xx", "b"], ["A", "B", "b"], ["A", "B"]),
        (["xx", "b"], ["B", "00", "a"], ["B", "00"]),  # A is none, so B; B is taken, so the next
        (["xx", "é"], ["#3", "QQ"], ["#3", "QQ"]),
    ],
)
def test_lfm2_labels_a_choice(keys: list[str], single: list[str], shown: list[str]) -> None:
    """By letters, else by whatever of the pool is one token and not taken."""
    question = make_choice(criteria=dict.fromkeys(keys))

    assert shown == [label.shown for label in labels_of("lfm2-d1", [*BASIC, *single], question)]


def test_lfm2_labels_many_options_by_number() -> None:
    """From 27 options on; a spelling with a space counts as well."""
    numbers = [f"{n:02}" for n in range(30)]
    question = make_choice(criteria={f"o{n}": None for n in range(27)})
    labels = labels_of("lfm2-d1", [*BASIC, *numbers, " 01"], question)

    assert numbers[:27] == [label.shown for label in labels]
    assert (len(BASIC) + 1, len(BASIC) + 30) == labels[1].tokens


def test_too_many_options_are_rejected() -> None:
    """With the numbers."""
    with pytest.raises(Rejected, match="3 options, but this model can label 2"):
        labels_of("lfm2-d1", [*BASIC, "A", "B"], make_choice(criteria=dict.fromkeys("xyz")))
    question = make_choice(criteria={f"o{n}": None for n in range(53)})
    with pytest.raises(Rejected, match="53 options, but this model can label 52"):
        labels_of("openjev", LETTERS, question)


@pytest.mark.parametrize("kind", ["kev", "laya", "clef", "julia-1", "lfm2-d1-omni", "", "Lev"])
def test_other_types_are_refused_by_name(kind: str) -> None:
    """With what to use instead."""
    with pytest.raises(CannotRun, match=f"type {kind}, .*llama-server"):
        find_kind(kind)
