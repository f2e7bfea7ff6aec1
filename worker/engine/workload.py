"""Synthetic tickets, to measure an engine with."""

import asyncio
import time
from dataclasses import dataclass

from worker.decision.text import Piece, PromptText
from worker.ports import Branch, Engine, Evaluation, Lane

_WORD = " word"  # one token in most vocabularies
_LABEL_TOKENS = (100, 101, 102, 103)  # any will do: what is read is thrown away


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of ticket.

    Attributes:
        state: words of the state.
        questions: how many.
        words: words of each question.
    """

    state: int
    questions: int
    words: int

    def __str__(self) -> str:
        return f"{self.state} + {self.questions} × {self.words}"


def synthetic_ticket(shape: Shape, number: int) -> Evaluation:
    """Return a ticket that shares no trunk with those of other numbers."""

    def prompt(question: int, words: int) -> PromptText:
        text = f"{number}{_WORD * shape.state}\n{question}{_WORD * words}"
        return (Piece(text, trusted=False),)

    branches = tuple(
        Branch(prompt(question, shape.words), _LABEL_TOKENS) for question in range(shape.questions)
    )
    return Evaluation((prompt(1, 1), prompt(2, 1)), branches)


async def tokens_per_second(engine: Engine, tickets: list[Evaluation]) -> float:
    """Evaluate *tickets* side by side; return the tokens decoded in a second."""
    started_at = time.perf_counter()
    replies = await asyncio.gather(*(engine.score(ticket, Lane.BATCH) for ticket in tickets))
    evaluated = sum(reply.evaluated_tokens for reply in replies)
    return evaluated / (time.perf_counter() - started_at)
