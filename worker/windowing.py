"""Find the windows that a state is read in which is too long for one prompt."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from worker.decision.overflow import Overflow
from worker.decision.prompt import shown
from worker.decision.question import Question, Text
from worker.decision.text import Piece, PromptText
from worker.decision.windows import Border, Part, Span, cut_text, fine, pack
from worker.decision.wording import Wording
from worker.errors import Rejected, UsageError
from worker.ports import Engine
from worker.settings import Settings

LONGEST_WHOLE_CHARACTERS = 1 << 19
"""A text of more is not measured as a whole: it is cut, and may turn out to be one window."""

LEAST_WINDOW_TOKENS = 16
"""Windows with less room for the state say nothing, and any character fits that."""

_LONG_CHARACTERS = 1 << 18  # take long enough to cut that an event loop should not do it
_CHARACTERS_PER_TOKEN = 16  # parts of more are halved before they are measured
_ROUNDS = 8
_USUAL_QUESTION_TOKENS = 1024

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Windows:
    """Cuts states by the tokens that their prompts really have.

    Attributes:
        engine: counts tokens.
        wording: puts a state to the model.
        overflow: how large windows are.
    """

    engine: Engine
    wording: Wording
    overflow: Overflow

    async def over(self, state: Text, questions: Mapping[str, Question]) -> Sequence[Text] | None:
        """Return the windows of a state in order; None when it fits one prompt as it is.

        A function of state and template alone; of *questions*, too, where prompts list them all.

        Raises:
            Rejected: it cannot be cut, or to too many windows only; with the counts.
        """
        limit = self.overflow.window_tokens - self.overflow.question_tokens
        characters = len(shown(state))
        if characters <= LONGEST_WHOLE_CHARACTERS:
            tokens = await self._longest([state], questions)
            if tokens <= limit:
                return None
            size = f"{tokens} tokens"
        else:
            size = f"{characters} characters"
        if isinstance(state, dict):
            raise _too_long(
                f"a prompt with the state has {size}, {limit} tokens fit; windows are read over"
                " text and arrays, not over objects"
            )
        around = await self._longest([state[:0]], questions)
        windows = await self._fitting(state, questions, limit, around)
        return None if len(windows) == 1 else windows  # it fits as it is, its ends included

    async def _fitting(
        self, state: str | list[object], questions: Mapping[str, Question], limit: int, around: int
    ) -> Sequence[Text]:
        """Return windows whose prompts fit *limit*; without a state they have *around* tokens."""
        capacity = limit - around
        known: dict[str, int] = {}
        for _ in range(_ROUNDS):
            if capacity < LEAST_WINDOW_TOKENS:
                break
            windows = await self._cut(state, capacity, known)
            longest = await self._longest(windows, questions)
            if longest <= limit:
                return windows
            # In the prompt the state has more tokens than by itself, as escaped text does.
            capacity = min(capacity - 1, capacity * (limit - around) // (longest - around))
        raise _too_long(
            f"{limit} tokens for a prompt without its question, of which {around} are not the"
            " state's, leave no room for windows"
        )

    async def _cut(
        self, state: str | list[object], capacity: int, known: dict[str, int]
    ) -> Sequence[Text]:
        overlap = min(self.overflow.overlap_tokens, capacity // 2)
        if isinstance(state, str):
            # Finer than the overlap, so that there is always something to repeat.
            parts = await self._parts(state, max(1, (overlap or capacity // 4) // 2), known)
        else:
            parts = [Part(shown([one]), Border.PARAGRAPH) for one in state]
            await self._count((part.text for part in parts), known)
        tokens = [known[part.text] for part in parts]
        if max(tokens) > capacity:
            raise _too_long(
                f"element {tokens.index(max(tokens))} has {max(tokens)} tokens, a window holds"
                f" {capacity} of the state; elements are not cut"
            )
        most = self.overflow.max_windows
        spans: list[Span] = []
        if sum(tokens) <= most * capacity:
            spans = pack(tokens, [part.border for part in parts], capacity, overlap)
        if not 0 < len(spans) <= most:
            raise _too_long(
                f"the state has about {sum(tokens)} tokens; at most {most} windows of {capacity}"
                f" are read, each with up to {overlap} of the one before"
            )
        if not isinstance(state, str):
            return [state[span.start : span.stop] for span in spans]
        return [
            "".join(part.text for part in parts[span.start : span.stop]).rstrip() for span in spans
        ]

    async def _parts(self, text: str, grain: int, known: dict[str, int]) -> list[Part]:
        """Cut a text to parts of at most *grain* tokens, or of one character."""

        def is_long(part: str) -> bool:
            return len(part) > grain * _CHARACTERS_PER_TOKEN or known.get(part, 0) > grain

        def cut(parts: Sequence[Part]) -> list[Part]:
            return [small for part in parts for small in fine(part, is_long)]

        parts = await _aside(len(text), cut_text, text)
        while True:
            parts = await _aside(len(text), cut, parts)
            unknown = dict.fromkeys(part.text for part in parts if part.text not in known)
            if not unknown:
                return parts
            await self._count(unknown, known)

    async def _count(self, texts: Iterable[str], known: dict[str, int]) -> None:
        """Add the tokens of texts to what is known, each by itself."""
        texts = list(texts)
        prompts = [(), *((Piece(text, trusted=False),) for text in texts)]
        first, *counts = await self.engine.measure(prompts)  # some begin with a token of their own
        known.update(
            (text, max(1, count - first)) for text, count in zip(texts, counts, strict=True)
        )

    async def _longest(self, states: Sequence[Text], questions: Mapping[str, Question]) -> int:
        """Return the tokens of the longest prompt of a short question about any of *states*."""

        def word() -> list[PromptText]:
            return [one for state in states for one in self.wording.probes(state, questions)]

        characters = sum(len(shown(state)) for state in states)
        return max(await self.engine.measure(await _aside(characters, word)))


def open_overflow(settings: Settings, context_tokens: int) -> Overflow:
    """Return what becomes of long states, as far as no question set says otherwise.

    Raises:
        UsageError: windows of that size cannot be read, or would have no room for the state.
    """
    window_tokens = settings.window_tokens or context_tokens
    question_tokens = settings.window_question_tokens
    if question_tokens is None:
        question_tokens = min(_USUAL_QUESTION_TOKENS, window_tokens // 4)
    overlap_tokens = settings.window_overlap_tokens
    if overlap_tokens is None:
        overlap_tokens = max(0, window_tokens - question_tokens) // 8
    if window_tokens > context_tokens:
        raise UsageError(f"--window-tokens is {window_tokens}, the context holds {context_tokens}")
    if question_tokens + 2 * overlap_tokens > window_tokens:
        raise UsageError(
            f"--window-question-tokens ({question_tokens}) and twice --window-overlap-tokens"
            f" ({overlap_tokens}) are more than a window of {window_tokens} tokens"
        )
    return Overflow(
        rule=settings.overflow,
        window_tokens=window_tokens,
        question_tokens=question_tokens,
        overlap_tokens=overlap_tokens,
        max_windows=settings.max_windows,
        aggregation=settings.aggregation,
        noul_aggregation=settings.noul_aggregation,
    )


def _too_long(message: str) -> Rejected:
    return Rejected("prompt_too_long", message, "state")


async def _aside(characters: int, function: Callable[..., Result], *arguments: object) -> Result:
    """Call *function*, in a thread when the loop would feel it."""
    if characters < _LONG_CHARACTERS:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)
