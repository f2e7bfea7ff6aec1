"""Evaluate one ticket exactly: the same bits whatever else is asked or was evaluated before.

The context is empty before and after. Branches that do not begin with the trunk come first, each
alone in the context; then the trunk, and each branch forked from it with nothing but the trunk
beside it.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from worker.decision.scores import Reading
from worker.engine.plan import Plan, spans

TRUNK, FORK = 0, 1
"""The two sequences of a context: a trunk, and the branch that is forked from it."""


class Context(Protocol):
    """What exact evaluation needs of a llama.cpp context."""

    def decode(
        self, tokens: Sequence[int], *, position: int, sequence: int, read: bool = False
    ) -> None:
        """Decode *tokens* in one call."""
        ...

    def read(self, label_tokens: Sequence[int]) -> Reading:
        """Read the logits of the last decoded token."""
        ...

    def fork(self) -> None:
        """Make the branch sequence a copy of the whole trunk."""
        ...

    def remove(self, sequence: int) -> None:
        """Remove a whole sequence."""
        ...


def evaluate(
    context: Context,
    plan: Plan,
    prompts: Sequence[Sequence[int]],
    labels: Sequence[Sequence[int]],
    between_calls: Callable[[], None] = lambda: None,
) -> tuple[Reading, ...]:
    """Decode what *plan* says and read every branch.

    Args:
        context: an empty context; it is empty again afterwards, also after an error.
        plan: made from *prompts*.
        prompts: the tokens of each branch's full prompt.
        labels: the label tokens of each branch.
        between_calls: called before every decode; may raise to give the work up.

    Returns:
        One reading for each branch, in order.
    """
    readings: dict[int, Reading] = {}

    def decode(tokens: Sequence[int], start: int, stop: int, sequence: int, *, read: bool) -> None:
        for span in spans(start, stop):
            between_calls()
            context.decode(
                tokens[span.start : span.stop],
                position=span.start,
                sequence=sequence,
                read=read and span.stop == stop,
            )

    def branch(index: int, start: int, sequence: int) -> None:
        decode(prompts[index], start, len(prompts[index]), sequence, read=True)
        readings[index] = context.read(labels[index])
        context.remove(sequence)

    try:
        for index in plan.whole:
            branch(index, 0, TRUNK)
        if plan.forked:
            trunk = prompts[plan.forked[0]]
            decode(trunk, 0, plan.trunk_tokens, TRUNK, read=False)
        for index in plan.forked:
            context.fork()
            branch(index, plan.trunk_tokens, FORK)
    finally:
        context.remove(FORK)
        context.remove(TRUNK)
    return tuple(readings[index] for index in range(len(prompts)))
