"""The spellings of a vocabulary's control tokens, found in text."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from os.path import commonprefix

from worker.decision.text import Piece, PromptText

_FIRST_PRIVATE = 0xF0000  # the private use plane 15 has a place for each character of plane 0
_ESCAPED_VEIL = re.compile(r"\\u(db[89abAB][0-9a-f])\\u(d[c-f][0-9a-f]{2})")
_KEPT = frozenset(' \t\n\v\f\r"\\')


class ControlTokens:
    """The control tokens of one vocabulary, by spelling.

    Args:
        spellings: such as ``<|im_start|>``.
    """

    def __init__(self, spellings: Iterable[str]) -> None:
        known = sorted(set(spellings))
        # The longest spelling wins, as in llama.cpp.
        self.pattern = re.compile(_any_of(known) if known else r"(?!)")
        # White space must stay what it is for a template that trims, and so must what JSON escapes.
        letters = "".join(known)
        alphabet = {*letters, *letters.lower(), *letters.upper()} - _KEPT
        self._veils = {ord(c): _FIRST_PRIVATE + ord(c) for c in alphabet if ord(c) < 1 << 16}
        starts = {ord(spelling[0]) for spelling in known}
        self._start_veils = {c: veil for c, veil in self._veils.items() if c in starts}
        self._unveils = {veil: plain for plain, veil in self._veils.items()}

    def veil(self, text: str) -> str:
        """Return *text* with each character that control tokens are spelled with out of the way.

        A control token in a rendering of veiled texts is the template's own.
        """
        return text.translate(self._veils)

    def veil_starts(self, text: str) -> str:
        """Return *text* with the characters that control tokens begin with out of the way.

        A template that looks into a text may still handle this one as it handles the text itself.
        """
        return text.translate(self._start_veils)

    def keep_veils(self, escaped: str) -> str:
        """Return JSON text whose veiled characters were escaped with them as they are."""
        return _ESCAPED_VEIL.sub(lambda match: self._kept_veil(match.group()), escaped)

    def _kept_veil(self, escape: str) -> str:
        character: str = json.loads(f'"{escape}"')
        return character if ord(character) in self._unveils else escape

    def split(
        self, rendered: str, veiled: str, start_veiled: Callable[[], str]
    ) -> PromptText | None:
        """Return a rendering in pieces of which only the template's own control tokens are trusted.

        Args:
            rendered: what the template made of the texts.
            veiled: what the same template made of the same texts, veiled.
            start_veiled: renders the same texts with their starts veiled; asked only if needed.

        Returns:
            None where the template's tokens cannot be told from the texts'.
        """
        own = self._found(veiled)
        if not _fits(own, veiled, rendered):
            # The template looks into the texts, so that places differ. What its tokens are is known
            # nevertheless: a rendering in which there are no others shows where they are.
            lightly = start_veiled()
            found = self._found(lightly)
            if not _fits(found, lightly, rendered):
                found = self._found(rendered)
            if [match.group() for match in found] != [match.group() for match in own]:
                return None
            own = found
        return tuple(_cut(rendered, own))

    def _found(self, text: str) -> list[re.Match[str]]:
        return list(self.pattern.finditer(text))


def _fits(found: Sequence[re.Match[str]], veiled: str, rendered: str) -> bool:
    """Return whether what was found in one rendering stands at the same places of another."""
    return len(veiled) == len(rendered) and all(
        rendered.startswith(match.group(), match.start()) for match in found
    )


def _cut(text: str, own: Iterable[re.Match[str]]) -> Iterator[Piece]:
    end = 0
    for match in own:
        if match.start() > end:
            yield Piece(text[end : match.start()], trusted=False)
        yield Piece(match.group(), trusted=True)
        end = match.end()
    if end < len(text):
        yield Piece(text[end:], trusted=False)


def _any_of(spellings: Sequence[str]) -> str:
    """Return a pattern of the longest of *spellings*, which are sorted and not empty.

    What several have in common is tried once: a vocabulary may have thousands, all of them with
    the same beginning, and a text may be full of it.
    """
    first, last = spellings[0], spellings[-1]
    shared = len(commonprefix((first, last)))  # noqa: RUF071 - characters are what is meant
    rest = [spelling[shared:] for spelling in spellings if len(spelling) > shared]
    pattern = re.escape(first[:shared])
    if not rest:
        return pattern
    branches = "|".join(_any_of(list(group)) for _, group in groupby(rest, key=itemgetter(0)))
    ends_here = "?" if len(first) == shared else ""
    return f"{pattern}(?:{branches}){ends_here}"
