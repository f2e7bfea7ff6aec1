"""The spellings of a vocabulary's control tokens, found in text."""

import json
import re
from collections.abc import Iterable, Sequence
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
        alphabet = {c for spelling in known for c in spelling} - _KEPT
        self._veils = {ord(c): _FIRST_PRIVATE + ord(c) for c in alphabet if ord(c) < 1 << 16}
        self._unveils = {veil: plain for plain, veil in self._veils.items()}

    def veil(self, text: str) -> str:
        """Return *text* with each character that control tokens are spelled with out of the way.

        A control token in a rendering of veiled texts is the template's own.
        """
        return text.translate(self._veils)

    def keep_veils(self, escaped: str) -> str:
        """Return JSON text whose veiled characters were escaped with them as they are."""
        return _ESCAPED_VEIL.sub(lambda match: self._kept_veil(match.group()), escaped)

    def _kept_veil(self, escape: str) -> str:
        character: str = json.loads(f'"{escape}"')
        return character if ord(character) in self._unveils else escape

    def split(self, rendered: str, veiled: str) -> PromptText | None:
        """Return a rendering in pieces of which only the template's own control tokens are trusted.

        Args:
            rendered: what the template made of the texts.
            veiled: what the same template made of the same texts, veiled.

        Returns:
            None where the template's tokens cannot be told from the texts'.
        """
        own = list(self.pattern.finditer(veiled))
        if veiled.translate(self._unveils) != rendered:
            # The template looks into the texts. Then all is well only if no token was added.
            found = list(self.pattern.finditer(rendered))
            if [match.group() for match in found] != [match.group() for match in own]:
                return None
            own = found
        pieces: list[Piece] = []
        end = 0
        for match in own:
            pieces.append(Piece(rendered[end : match.start()], trusted=False))
            pieces.append(Piece(match.group(), trusted=True))
            end = match.end()
        pieces.append(Piece(rendered[end:], trusted=False))
        return tuple(piece for piece in pieces if piece.text)


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
