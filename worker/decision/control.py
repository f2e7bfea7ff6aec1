"""The spellings of a vocabulary's control tokens, found in text."""

import json
import re
from collections.abc import Iterable

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
        # The longest spelling wins, as in llama.cpp.
        longest_first = sorted(spellings, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        # White space must stay what it is for a template that trims, and so must what JSON escapes.
        alphabet = {c for spelling in longest_first for c in spelling} - _KEPT
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
