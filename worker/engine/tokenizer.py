"""Encode prompts so that text stays text: only trusted pieces can hold control tokens. Pure.

The tokens are those of the full prompt. It is split at the control tokens of its trusted pieces,
and what lies between two of them is tokenised in one go, whoever wrote it, so that tokens may
span the border between template and state just as they would in the plain rendering.
"""

import re
from collections.abc import Callable, Mapping

from worker.decision.text import PromptText

RawTokenizer = Callable[[str], list[int]]


class Tokenizer:
    """One vocabulary's view of prompts.

    Args:
        raw: tokenises plain text; spellings of control tokens in it stay text.
        control_tokens: token id by spelling.
        first: ids that a sequence must begin with: the BOS token, or nothing.
    """

    def __init__(
        self, raw: RawTokenizer, control_tokens: Mapping[str, int], first: tuple[int, ...]
    ) -> None:
        self._raw = raw
        self._control_tokens = dict(control_tokens)
        self._first = first
        # The longest spelling wins, as in llama.cpp.
        spellings = sorted(self._control_tokens, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, spellings)) or r"(?!)")

    def encode(self, prompt: PromptText) -> list[int]:
        """Return the token ids of a full prompt, beginning-of-sequence included."""
        tokens: list[int] = []
        text = ""
        for piece in prompt:
            if not piece.trusted:
                text += piece.text
                continue
            end = 0
            for match in self._control.finditer(piece.text):
                text += piece.text[end : match.start()]
                tokens += self._plain(text)
                tokens.append(self._control_tokens[match.group()])
                text, end = "", match.end()
            text += piece.text[end:]
        tokens += self._plain(text)
        if self._first and tokens[:1] != list(self._first):
            tokens[:0] = self._first
        return tokens

    def _plain(self, text: str) -> list[int]:
        return self._raw(text) if text else []
