"""Answer one parsed body in the format it is in."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from worker.counted import count_answers
from worker.decision.strict_json import parse_json
from worker.decision.ticket import LARGE_BODY
from worker.errors import WorkerError
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.sidecar.formats import UNDECIDED, Format, format_of
from worker.traced import evaluate_traced
from worker.tracing import NO_TRACER, Tracer

Result = TypeVar("Result")


class Unanswered(Exception):
    """There is no answer.

    Args:
        error: why.
        wording: the format in which to say so.
    """

    def __init__(self, error: WorkerError, wording: Format) -> None:
        super().__init__(str(error))
        self.error = error
        self.wording = wording


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the evaluator on behalf of one request.

    Attributes:
        evaluator: who answers.
        deadline: event-loop time after which the answer is useless.
        only: the one format that is taken; None tells by the body's fields.
        spells_control: whether a text holds the spelling of a control token of the model.
        tracer: keeps the span of each evaluation.
    """

    evaluator: Evaluator
    deadline: float
    only: Format | None
    spells_control: Callable[[str], bool]
    tracer: Tracer = NO_TRACER

    async def answer(self, body: bytes, ticket_id: str) -> dict[str, Any]:
        """Answer one body; *ticket_id* is that of a ticket without one.

        Raises:
            Unanswered: with the reason, and the format it should be worded in.
        """
        wording = self.only or UNDECIDED
        try:
            tree = await off_loop(body, parse_json, body)
            wording = self.only or format_of(tree, self.spells_control)
            query = await off_loop(body, wording.read, tree, ticket_id)
            structlog.contextvars.bind_contextvars(ticket_id=query.ticket.ticket_id)
            outcome = await evaluate_traced(
                self.tracer,
                self.evaluator,
                query.ticket,
                Lane.INTERACTIVE,
                self.deadline,
                witness=query.witness,
            )
        except WorkerError as error:
            raise Unanswered(error, wording) from error
        count_answers(outcome)
        self.evaluator.follow(outcome)
        return query.write(outcome)


async def off_loop(body: bytes, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call *function*, in a thread when *body* is so large that the loop would feel it."""
    if len(body) < LARGE_BODY:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)
