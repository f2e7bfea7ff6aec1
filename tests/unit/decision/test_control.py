"""Control tokens of a template told from those that a text spells."""

from collections.abc import Callable

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


def split(template: str, text: str, change: Callable[[str], str] = str) -> tuple[Piece, ...] | None:
    """Put *text*, changed, into a template at every @."""

    def render(veil: Callable[[str], str]) -> str:
        return template.replace("@", change(veil(text)))

    return CONTROL.split(render(str), render(CONTROL.veil), lambda: render(CONTROL.veil_starts))


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
    """Its own tokens are found all the same, wherever the text may hold others."""

    def spaced(text: str) -> str:
        return text.replace("|", " ")

    def escaped(text: str) -> str:
        return text.replace("<", "{")

    assert (trusted("<s>"), plain("END<s>")) == split(
        "<s>@", "end<s>", lambda t: t.replace("end", "END")
    )
    assert (trusted("<s>"), plain("a b<s>")) == split("<s>@", "a|b<s>", spaced)
    assert (trusted("<s>"), plain("{s>|")) == split("<s>@", "<s>|", escaped)


@pytest.mark.parametrize(
    ("template", "text", "change"),
    [
        ("<s><@>", "S", str.lower),
        ("<s>@", "x<s>", lambda text: text.replace("x<", "{<")),
        ("<s>@", "<s>", lambda text: text * len(text.strip("<"))),
    ],
)
def test_what_cannot_be_told_apart_is_not_trusted(
    template: str, text: str, change: Callable[[str], str]
) -> None:
    """A template that makes control tokens of a text, or counts on them, trusts none of it."""
    pieces = split(template, text, change)

    assert pieces is None or 1 == sum(piece.trusted for piece in pieces)


@given(st.lists(st.text("<>ab(|", min_size=1, max_size=4), max_size=30), st.text("<>ab(|"))
def test_the_longest_spelling_is_found(spellings: list[str], text: str) -> None:
    """At each place, whatever the spellings have in common."""
    longest_first = sorted(spellings, key=len, reverse=True)
    found, start = [], 0
    while start < len(text):
        here = next((one for one in longest_first if text.startswith(one, start)), "")
        found += [here] if here else []
        start += len(here) or 1

    assert found == ControlTokens(spellings).pattern.findall(text)


def test_a_text_full_of_beginnings_is_searched_in_no_time() -> None:
    """Six thousand spellings that begin alike cost no more than one; else this takes minutes."""
    control = ControlTokens(f"<unused{number}>" for number in range(6000))

    assert control.pattern.search("<unused" * 300_000) is None
    assert control.pattern.search("<unused" * 300_000 + "5999>") is not None
