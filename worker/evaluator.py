"""Turn one ticket into one outcome."""

import asyncio
from dataclasses import dataclass

from worker.decision.answer import make_answer
from worker.decision.asked import Worded
from worker.decision.control import ControlTokens
from worker.decision.outcome import (
    SCHEMA,
    Outcome,
    Provenance,
    Timings,
    Usage,
    outcome_id,
    questions_sha256,
    rejection,
)
from worker.decision.policy import NO_POLICY, most_cautious
from worker.decision.prompt import shown
from worker.decision.question import Question, Text
from worker.decision.scores import Reading, Scores, score_views
from worker.decision.spelled import refuse_spelled
from worker.decision.ticket import Ticket
from worker.decision.wording import Wording
from worker.errors import Rejected
from worker.ports import Branch, Engine, Evaluation, Lane, Reply

LONG_PROMPTS_CHARACTERS = 1 << 20
"""Prompts of more text take long enough to render that an event loop should not do it."""

MAX_PROMPT_CHARACTERS = 1 << 25
"""The most text that one ticket may become, since each question's prompt repeats the state."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Asks the engine and words what it read; computes no logits itself.

    Attributes:
        engine: where prompts are evaluated.
        wording: how questions are put to the model.
        provenance: of this process; each outcome carries it.
        orders: in how many orders options are shown; None: as the wording does itself.
        control: control tokens that no ticket may spell; None: spelled, they are text.
    """

    engine: Engine
    wording: Wording
    provenance: Provenance
    orders: int | None = None
    control: ControlTokens | None = None

    async def evaluate(self, ticket: Ticket, lane: Lane, deadline: float | None = None) -> Outcome:
        """Answer all questions of a ticket.

        Raises:
            Rejected: the ticket cannot be answered by this worker, ever.
            Retryable: not now.
            EngineFailed: never again in this process.
        """
        self._accept_model(ticket.model)
        state, questions = _inline(ticket)
        worded = await self._word(state, questions)
        reply = await self.engine.score(_evaluation(worded), lane, deadline)
        return self._outcome(ticket, state, questions, worded, reply)

    def reject(
        self, fault: Rejected, *, ticket_id: str, body: str, ticket: Ticket | None = None
    ) -> Outcome:
        """Word the rejection of a ticket."""
        return rejection(
            fault, ticket_id=ticket_id, body=body, ticket=ticket, provenance=self.provenance
        )

    def _accept_model(self, asked: str | None) -> None:
        name = self.provenance.model.name
        if asked is not None and asked != name and not asked.startswith("jev-"):
            raise Rejected("unknown_model", f"this worker answers as {name} or jev-*", "model")

    async def _word(self, state: Text, questions: dict[str, Question]) -> Worded:
        def word() -> Worded:
            if self.control is not None:
                refuse_spelled(self.control, state, questions)
            return self.wording.word(state, questions, self.orders)

        # A long ticket takes a while, and the event loop has leases to keep.
        is_long = self._prompt_characters(state, questions) > LONG_PROMPTS_CHARACTERS
        return await asyncio.to_thread(word) if is_long else word()

    def _prompt_characters(self, state: Text, questions: dict[str, Question]) -> int:
        characters = len(shown(state))
        if self.wording.lists_questions:
            characters += sum(len(question.model_dump_json()) for question in questions.values())
        prompts = len(questions) * (self.orders or 1)
        if characters * prompts > MAX_PROMPT_CHARACTERS:
            raise Rejected(
                "too_large",
                f"{prompts} prompts, each with the same {characters} characters, are more than"
                f" {MAX_PROMPT_CHARACTERS} characters",
                "questions",
            )
        return characters * prompts

    def _outcome(
        self,
        ticket: Ticket,
        state: Text,
        questions: dict[str, Question],
        worded: Worded,
        reply: Reply,
    ) -> Outcome:
        scores = _scores(worded, reply.readings)
        answers = {
            key: make_answer(question, score, NO_POLICY)
            for (key, question), score in zip(questions.items(), scores, strict=True)
        }
        questions_hash = questions_sha256(questions)
        provenance = self.provenance.model_copy(update={"questions_sha256": questions_hash})
        return Outcome(
            schema=SCHEMA,
            outcome_id=outcome_id(
                ticket_id=ticket.ticket_id,
                state=state,
                questions=questions_hash,
                provenance=provenance,
            ),
            ticket_id=ticket.ticket_id,
            status="decided",
            answers=answers,
            disposition=most_cautious(answer.verdict for answer in answers.values()),
            metadata=ticket.metadata,
            usage=Usage(
                input_tokens=reply.input_tokens,
                evaluated_tokens=reply.evaluated_tokens,
                reused_tokens=max(0, reply.input_tokens - reply.evaluated_tokens),
            ),
            timings=Timings(
                waiting_seconds=reply.waiting_seconds,
                evaluation_seconds=reply.evaluation_seconds,
            ),
            provenance=provenance,
        )


def _evaluation(worded: Worded) -> Evaluation:
    views = [view for asked in worded.questions for view in asked.views]
    return Evaluation(
        worded.probes, tuple(Branch(view.prompt, view.label_tokens) for view in views)
    )


def _scores(worded: Worded, readings: tuple[Reading, ...]) -> list[Scores]:
    """Return the scores of each question from the readings of all their views."""
    left = iter(readings)
    return [score_views(asked, [next(left) for _ in asked.views]) for asked in worded.questions]


def _inline(ticket: Ticket) -> tuple[Text, dict[str, Question]]:
    """Return the state and the questions that the ticket carries itself."""
    if ticket.state is None:
        raise Rejected("state_uri_refused", "no bucket is allowed on this worker", "state_uri")
    if ticket.questions is None:
        raise Rejected(
            "unknown_question_set", "no question set is configured on this worker", "question_set"
        )
    return ticket.state, ticket.questions
