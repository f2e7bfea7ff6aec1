"""Control tokens of a template told from those that a text spells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.decision.control import ControlTokens
from worker.decision.text import Piece

CONTROL = ControlTokens(["<s>", "<|end|>", "<|end|>now", "[a.c]"])


def trusted(text: str) -> Piece:
    return Piece(text, trusted=True)


def plain(text: str) -> Piece:
    return Piece(text, trusted=False)


def split(template: str, text: str) -> tuple[Piece, ...] | None:
    """Put *text* into a template at every @."""
    return CONTROL.split(template.replace("@", text), template.replace("@", CONTROL.veil(text)))


@pytest.mark.parametrize(
    ("template", "text", "pieces"),
    [
        ("<s>@<|end|>", "hi", (trusted("<s>"), plain("hi"), trusted("<|end|>"))),
        ("<s>@<|end|>", "a<s>", (trusted("<s>"), plain("a<s>"), trusted("<|end|>"))),
        ("<@>", "s", (plain("<s>"),)),
        ("<|end@", "|>", (plain("<|end|>"),)),
        ("<|end|>@", "now", (trusted("<|end|>"), plain("now"))),
        ("@@", "<|end|>now", (plain("<|end|>now<|end|>now"),)),
        ("<|end|>now", "", (trusted("<|end|>now"),)),
        ("no tokens: @", "[abc]", (plain("no tokens: [abc]"),)),
    ],
)
def test_only_the_templates_tokens_are_trusted(
    template: str, text: str, pieces: tuple[Piece, ...]
) -> None:
    """Those that a text spells, or helps to spell, are text."""
    assert pieces == split(template, text)


@given(st.text(alphabet="<|end>[a.c] now\N{COMBINING ACUTE ACCENT}𝄞"))
def test_a_veiled_text_spells_nothing(text: str) -> None:
    """And a rendering loses nothing by being split."""
    assert CONTROL.pattern.search(CONTROL.veil(text)) is None
    pieces = split("<s>@[a.c]@", text) or ()

    assert f"<s>{text}[a.c]{text}" == "".join(piece.text for piece in pieces)
    assert ["<s>", "[a.c]"] == [piece.text for piece in pieces if piece.trusted]


def test_a_template_that_looks_into_a_text() -> None:
    """Where the two renderings differ, no token may have been added."""
    shouted = CONTROL.split("<s>END", f"<s>{CONTROL.veil('end').upper()}")

    assert (trusted("<s>"), plain("END")) == shouted
    assert CONTROL.split("<s>END<s>", f"<s>{CONTROL.veil('end<s>').upper()}") is None
