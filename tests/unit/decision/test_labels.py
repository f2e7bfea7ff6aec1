"""Labels: an option is read at one token that the vocabulary really spells so."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from string import ascii_uppercase

import pytest

from worker.decision.labels import Label, LabelPool, prove_labels
from worker.decision.text import Piece, PromptText
from worker.errors import CannotRun, Rejected

CUE = (Piece("Answer:", trusted=False),)
CHAT_CUE = (Piece("Answer.", trusted=False), Piece("<turn>", trusted=True))


@dataclass
class FakeVocabulary:
    """Greedy longest match; a character without a token of its own becomes two bytes.

    Attributes:
        words: what has a token of its own.
        texts: what a token stands for, where that is not its spelling.
    """

    words: Iterable[str]
    texts: dict[str, str] = field(default_factory=dict)
    _ids: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._ids = {word: 10_000 + index for index, word in enumerate(self.words)}

    def encode(self, prompt: PromptText) -> list[int]:
        text = "".join(piece.text for piece in prompt)
        longest = max(map(len, self._ids), default=0)
        tokens: list[int] = []
        while text:
            starts = (text[:length] for length in range(longest, 0, -1))
            word = next((start for start in starts if start in self._ids), "")
            tokens += [self._ids[word]] if word else [0, ord(text[0])]
            text = text[len(word) or 1 :]
        return tokens

    def text(self, token: int) -> str:
        word = next(word for word, number in self._ids.items() if number == token)
        return self.texts.get(word, word)

    def token(self, word: str) -> int:
        return self._ids[word]


def shown(pool: LabelPool) -> list[str]:
    return [label.shown for label in pool.take(len(pool))]


def spaced(words: Iterable[str]) -> list[str]:
    return [" " + word for word in words]


def test_a_plain_prompt_is_answered_after_a_space() -> None:
    """After "Answer:" the token with the space before it is the label's."""
    vocabulary = FakeVocabulary([*"ABC", *spaced("ABC")])
    expected = tuple(Label(letter, vocabulary.token(" " + letter)) for letter in "ABC")

    assert expected == prove_labels(vocabulary, CUE, chat=False).take(3)


def test_a_chat_prompt_is_answered_without_a_space() -> None:
    """A chat template ends where the answer begins: the bare token is the label's."""
    vocabulary = FakeVocabulary([*spaced("ABC"), *"ABC"])
    expected = tuple(Label(letter, vocabulary.token(letter)) for letter in "ABC")

    assert expected == prove_labels(vocabulary, CHAT_CUE, chat=True).take(3)


@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("before", ["", " "])
def test_the_spelling_that_supplies_more_labels_wins(before: str, chat: bool) -> None:
    """Where one spelling is rare in the vocabulary, the other is used for all labels."""
    rare = {" ": "", "": " "}[before]
    vocabulary = FakeVocabulary([*(before + letter for letter in "ABC"), rare + "A", rare + "B"])
    pool = prove_labels(vocabulary, CHAT_CUE if chat else CUE, chat=chat)

    assert ["A", "B", "C"] == shown(pool)
    assert vocabulary.token(before + "A") == pool.take(1)[0].token


def test_gaps_are_skipped() -> None:
    """A letter that is not one token is not given out; the order of the rest stays."""
    pool = prove_labels(FakeVocabulary(spaced("ABDZ")), CUE, chat=False)

    assert ["A", "B", "D", "Z"] == shown(pool)


def test_letters_come_before_codes_and_numbers() -> None:
    """Labels are given out as A to Z, then two-letter codes, then numbers."""
    vocabulary = FakeVocabulary(spaced(["999", "100", "9", "ZZ", "AB", "ABC", "Z", "A", "a"]))

    assert ["A", "Z", "AB", "ZZ", "100", "999"] == shown(prove_labels(vocabulary, CUE, chat=False))


def test_a_label_does_not_merge_with_the_cue() -> None:
    """A letter that a vocabulary joins with the cue's last character is no token of its own."""
    vocabulary = FakeVocabulary([*"ABC", ":A"])

    assert ["B", "C"] == shown(prove_labels(vocabulary, CUE, chat=False))


def test_a_label_is_what_its_token_says() -> None:
    """A token that stands for another text, such as a normalised one, is no label."""
    vocabulary = FakeVocabulary(spaced("ABC"), texts={" B": " b", " C": "\tC\n"})

    assert ["A", "C"] == shown(prove_labels(vocabulary, CUE, chat=False))


def test_at_most_255_labels_are_kept() -> None:
    """A question has at most 255 options, so no more labels are ever needed."""
    codes = [first + second for first in ascii_uppercase for second in ascii_uppercase]
    pool = prove_labels(FakeVocabulary(spaced([*ascii_uppercase, *codes])), CUE, chat=False)

    assert 255 == len(pool)
    assert [*ascii_uppercase, *codes][:255] == shown(pool)


@pytest.mark.parametrize("words", [[], [" A"], ["a", "b", "1"]])
def test_a_vocabulary_without_two_labels_cannot_run(words: list[str]) -> None:
    """A model that cannot tell two options apart is refused at start."""
    with pytest.raises(CannotRun, match="no two letters are single tokens"):
        prove_labels(FakeVocabulary(words), CUE, chat=False)


def test_as_many_labels_as_options_are_taken() -> None:
    """A question gets the first labels, and a question with too many options the numbers."""
    pool = LabelPool([Label("A", 1), Label("B", 2)])

    assert 2 == len(pool)
    assert (Label("A", 1),) == pool.take(1)
    assert (Label("A", 1), Label("B", 2)) == pool.take(2)
    with pytest.raises(Rejected) as caught:
        pool.take(3)
    assert "too_many_options" == caught.value.code
    assert "3 options, but this model's vocabulary can label 2" == caught.value.message
