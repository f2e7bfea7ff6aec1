"""Encode prompts so that text stays text: only trusted pieces can hold control tokens. Pure.

The tokens are those of the full prompt. It is split at the control tokens of its trusted pieces,
and what lies between two of them is tokenised in one go, whoever wrote it, so that tokens may
span the border between template and state just as they would in the plain rendering.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from worker.decision.control import ControlTokens
from worker.decision.text import PromptText

RawTokenizer = Callable[[str], list[int]]

_SPACE = " \t\n\v\f\r"  # what C's isspace knows


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A control token of a vocabulary.

    Attributes:
        strips_before: whether it swallows white space in front of it.
        strips_after: whether it swallows white space behind it.
    """

    token: int
    strips_before: bool = False
    strips_after: bool = False


class Tokenizer:
    """One vocabulary's view of prompts.

    Args:
        raw: tokenises plain text; spellings of control tokens in it stay text.
        control_tokens: by spelling.
        first: ids that a sequence must begin with: the BOS token, or nothing.

    Attributes:
        control: the spellings of the control tokens.
    """

    def __init__(
        self,
        raw: RawTokenizer,
        control_tokens: Mapping[str, ControlToken],
        first: tuple[int, ...],
    ) -> None:
        self._raw = raw
        self._control_tokens = dict(control_tokens)
        self._first = first
        self.control = ControlTokens(self._control_tokens)

    def encode(self, prompt: PromptText) -> list[int]:
        """Return the token ids of a full prompt, beginning-of-sequence included."""
        tokens: list[int] = []
        before: ControlToken | None = None
        for text, control in self._runs(prompt):
            kept = text.lstrip(_SPACE) if before and before.strips_after else text
            kept = kept.rstrip(_SPACE) if control and control.strips_before else kept
            if kept:
                tokens += self._raw(kept)
            if control:
                tokens.append(control.token)
            before = control
        if self._first and tokens[:1] != list(self._first):
            tokens[:0] = self._first
        return tokens

    def spells_control(self, text: str) -> bool:
        """Return whether *text* holds the spelling of a control token."""
        return self.control.pattern.search(text) is not None

    def _runs(self, prompt: PromptText) -> list[tuple[str, ControlToken | None]]:
        """Return the texts between control tokens, each with the control token that ends it."""
        runs: list[tuple[str, ControlToken | None]] = []
        text = ""
        for piece in prompt:
            if not piece.trusted:
                text += piece.text
                continue
            end = 0
            for match in self.control.pattern.finditer(piece.text):
                text += piece.text[end : match.start()]
                runs.append((text, self._control_tokens[match.group()]))
                text, end = "", match.end()
            text += piece.text[end:]
        runs.append((text, None))
        return runs
