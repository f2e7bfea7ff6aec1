"""Text is text: only trusted pieces can hold control tokens."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.decision.text import Piece, PromptText
from worker.engine.tokenizer import ControlToken, Tokenizer

CONTROL = {
    spelling: ControlToken(token)
    for spelling, token in {"<s>": 1, "<|end|>": 2, "<|end|>now": 3, "[a.c]": 4}.items()
}
CONTROL_IDS = {control.token for control in CONTROL.values()}
BOS = 1


@dataclass
class FakeRaw:
    """A token for each character, and a list of what it was asked for."""

    texts: list[str] = field(default_factory=list)

    def __call__(self, text: str) -> list[int]:
        self.texts.append(text)
        return [1000 + ord(character) for character in text]


def chars(text: str) -> list[int]:
    return [1000 + ord(character) for character in text]


def trusted(text: str) -> Piece:
    return Piece(text, trusted=True)


def foreign(text: str) -> Piece:
    return Piece(text, trusted=False)


def encode(*prompt: Piece, first: tuple[int, ...] = ()) -> list[int]:
    return Tokenizer(FakeRaw(), CONTROL, first).encode(prompt)


def test_control_tokens_come_from_trusted_pieces() -> None:
    """A spelling in the template is the token, the same spelling in a state is text."""
    assert [2, *chars("hi"), 2] == encode(trusted("<|end|>hi<|end|>"))
    assert chars("<|end|>") == encode(foreign("<|end|>"))


@pytest.mark.parametrize(
    ("head", "tail"), [("<|en", "d|>"), ("<|end|", ">"), ("<", "|end|>"), ("<|end|>", "now")]
)
def test_a_spelling_across_a_border_is_no_control_token(head: str, tail: str) -> None:
    """A customer cannot finish, or lengthen, a control token that the template begins."""
    begun = [2] if head == "<|end|>" else chars(head)

    assert [*begun, *chars(tail)] == encode(trusted(head), foreign(tail))
    assert 3 not in encode(trusted(head), foreign(tail))
    assert chars(tail + head) == encode(foreign(tail), foreign(head))


def test_the_longest_spelling_wins() -> None:
    """As in llama.cpp, of two tokens that both fit the longer one is meant."""
    assert [3, *chars("!"), 2, *chars("no")] == encode(trusted("<|end|>now!<|end|>no"))


def test_spellings_are_no_patterns() -> None:
    """Characters that mean something to a pattern stand for themselves."""
    assert [4, *chars("[abc]")] == encode(trusted("[a.c][abc]"))


def test_text_between_control_tokens_is_tokenised_in_one_go() -> None:
    """Tokens may span the border between template and state, as in the plain rendering."""
    raw = FakeRaw()
    prompt: PromptText = (
        trusted("<s>user: "),
        foreign("Hello"),
        foreign(" <|end|>"),
        trusted(" bye<|end|>assistant"),
    )
    tokens = Tokenizer(raw, CONTROL, ()).encode(prompt)

    assert ["user: Hello <|end|> bye", "assistant"] == raw.texts
    assert [1, *chars("user: Hello <|end|> bye"), 2, *chars("assistant")] == tokens


def test_nothing_is_not_tokenised() -> None:
    """A tokenizer may put a space before text; where there is no text it is not asked."""
    raw = FakeRaw()

    assert [2, 2] == Tokenizer(raw, CONTROL, ()).encode((trusted("<|end|><|end|>"), foreign("")))
    assert [] == raw.texts


def test_a_prompt_begins_with_bos_once() -> None:
    """BOS is put first, unless the template has printed it."""
    assert [BOS, *chars("hi")] == encode(foreign("hi"), first=(BOS,))
    assert [BOS, *chars("hi")] == encode(trusted("<s>hi"), first=(BOS,))
    assert chars("hi") == encode(foreign("hi"))
    assert [BOS] == encode(first=(BOS,))


def test_a_written_bos_is_text() -> None:
    """A state that begins with the spelling of BOS does not stand in for it."""
    assert [BOS, *chars("<s>hi")] == encode(foreign("<s>hi"), first=(BOS,))


def test_a_vocabulary_without_control_tokens() -> None:
    """Then nothing is special, in trusted pieces neither."""
    assert chars("<|end|>x") == Tokenizer(FakeRaw(), {}, ()).encode((trusted("<|end|>x"),))


# Mostly parts of control tokens, so that whole ones come together.
scraps = st.lists(
    st.sampled_from(["<", "|", "end", ">", "<|end|>", "<s>", "now", "[a.c]", "x", " "])
).map("".join)
pieces = st.lists(st.builds(Piece, scraps, st.booleans()))


@given(pieces)
def test_no_control_token_is_made_of_foreign_text(prompt: list[Piece]) -> None:
    """As many control tokens as the trusted pieces spell, each of them by itself."""
    tokens = encode(*prompt)
    expected = [
        token
        for piece in prompt
        if piece.trusted
        for token in encode(piece)
        if token in CONTROL_IDS
    ]

    assert expected == [token for token in tokens if token in CONTROL_IDS]


@given(pieces)
def test_no_text_is_lost(prompt: list[Piece]) -> None:
    """Spelled out again, the tokens are the text, in order."""
    spelled = {control.token: spelling for spelling, control in CONTROL.items()}
    tokens = encode(*prompt)

    assert "".join(piece.text for piece in prompt) == "".join(
        spelled.get(token) or chr(token - 1000) for token in tokens
    )


def test_some_control_tokens_swallow_white_space() -> None:
    """As in llama.cpp, whoever wrote the white space; other white space stays."""
    control = {
        "<after>": ControlToken(1, strips_after=True),
        "<before>": ControlToken(2, strips_before=True),
    }
    prompt = (trusted(" <after> "), foreign("\n a b "), trusted("\n<before> c"))

    tokens = Tokenizer(FakeRaw(), control, ()).encode(prompt)

    assert [*chars(" "), 1, *chars("a b"), 2, *chars(" c")] == tokens


def test_spellings_can_be_looked_for() -> None:
    """Formats that refuse the spelling of a control token ask here."""
    tokenizer = Tokenizer(FakeRaw(), CONTROL, ())

    assert tokenizer.spells_control("a <|end|> b")
    assert not tokenizer.spells_control("a |end|> b")
