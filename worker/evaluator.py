"""Turn one ticket into one outcome."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from worker.decision.aggregation import aggregate
from worker.decision.asked import Worded
from worker.decision.control import ControlTokens
from worker.decision.decided import decide
from worker.decision.evidence import Witness
from worker.decision.inquiry import Inquiry, Shelf, inquire
from worker.decision.outcome import Outcome, Provenance, Timings, Usage, rejection
from worker.decision.overflow import REJECT_LONG, Overflow
from worker.decision.policy import REVIEW_ALL
from worker.decision.policy_file import Decider
from worker.decision.prompt import shown
from worker.decision.question import Question, Text
from worker.decision.question_set import NO_SETS
from worker.decision.scores import Reading, Scores, score_views
from worker.decision.spelled import refuse_spelled
from worker.decision.ticket import Ticket
from worker.decision.wording import Wording
from worker.drift import Drift
from worker.errors import Rejected
from worker.gate import Gate
from worker.overrides import Overrides
from worker.ports import Branch, Engine, Evaluation, Lane, Reply
from worker.windowing import Windows

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
        shelf: where tickets' question sets are looked up; a set's own orders win.
        policy: turns scores into verdicts.
        overflow: what becomes of a state that is too long for one prompt; a set's own words win.
        overrides: what people make of its answers.
        drift: how far those are from what the policy was calibrated on.
        gate: where an evaluation that must be alone waits for all others, of both lanes.
    """

    engine: Engine
    wording: Wording
    provenance: Provenance
    orders: int | None = None
    control: ControlTokens | None = None
    shelf: Shelf = NO_SETS
    policy: Decider = REVIEW_ALL
    overflow: Overflow = REJECT_LONG
    overrides: Overrides = field(default_factory=Overrides)
    drift: Drift = field(default_factory=lambda: Drift({}))
    gate: Gate = field(default_factory=Gate)

    async def evaluate(
        self,
        ticket: Ticket,
        lane: Lane,
        deadline: float | None = None,
        *,
        alone: bool = False,
        witness: Witness | None = None,
    ) -> Outcome:
        """Answer all questions of a ticket.

        Args:
            ticket: what is asked.
            lane: who waits.
            deadline: event-loop time after which the answer is useless.
            alone: while nothing else is evaluated.
            witness: sees what the answers are read from; with one no state is read in windows.

        Raises:
            Rejected: the ticket cannot be answered by this worker, ever.
            Retryable: not now.
            EngineFailed: never again in this process.
        """
        self._accept_model(ticket.model)
        inquiry = inquire(ticket, self.shelf)
        orders = inquiry.orders or self.orders
        overflow = inquiry.overflow(self.overflow)
        worded = [await self._word(inquiry, orders)]
        provenance = self.provenance.in_orders(orders)
        ahead = lane is Lane.INTERACTIVE
        async with self.gate.enter(alone=alone, ahead=ahead, deadline=deadline):
            windows = None if witness else await self._windows(inquiry, overflow)
            if windows is not None:
                provenance = provenance.in_windows(overflow, len(windows))
                worded = [await self._word(replace(inquiry, state=one), orders) for one in windows]
            evaluations = [_evaluation(one, witness) for one in worded]
            replies = await self.engine.score_all(evaluations, lane, deadline)
        if witness is not None:
            [whole], [reply] = worded, replies
            witness.see(whole, reply.readings, reply.prompt_tokens, reply.trunk_tokens)
        read = [_scores(one, reply.readings) for one, reply in zip(worded, replies, strict=True)]
        return decide(
            ticket,
            inquiry,
            read[0] if windows is None else _aggregated(inquiry, read, overflow),
            self.policy,
            provenance=provenance,
            usage=_usage(replies),
            timings=_timings(replies),
        )

    def follow(self, outcome: Outcome) -> None:
        """Note what went out, so that what becomes of it can be told."""
        self.overrides.note(outcome)
        self.drift.note(outcome)

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

    async def _windows(self, inquiry: Inquiry, overflow: Overflow) -> Sequence[Text] | None:
        if overflow.rule == "reject":  # by the engine, should it be too long
            return None
        return await Windows(self.engine, self.wording, overflow).over(
            inquiry.state, inquiry.questions
        )

    async def _word(self, inquiry: Inquiry, orders: int | None) -> Worded:
        state, questions = inquiry.state, inquiry.questions

        def word() -> Worded:
            if self.control is not None:
                refuse_spelled(self.control, state, questions)
            return self.wording.word(state, questions, orders)

        # A long ticket takes a while, and the event loop has leases to keep.
        characters = self._prompt_characters(state, questions, orders or 1)
        is_long = characters > LONG_PROMPTS_CHARACTERS
        return await asyncio.to_thread(word) if is_long else word()

    def _prompt_characters(self, state: Text, questions: dict[str, Question], orders: int) -> int:
        characters = len(shown(state))
        if self.wording.lists_questions:
            characters += sum(len(question.model_dump_json()) for question in questions.values())
        prompts = len(questions) * orders
        if characters * prompts > MAX_PROMPT_CHARACTERS:
            raise Rejected(
                "too_large",
                f"{prompts} prompts, each with the same {characters} characters, are more than"
                f" {MAX_PROMPT_CHARACTERS} characters",
                "questions",
            )
        return characters * prompts


def _evaluation(worded: Worded, witness: Witness | None) -> Evaluation:
    views = [view for asked in worded.questions for view in asked.views]
    return Evaluation(
        worded.probes,
        tuple(Branch(view.prompt, view.label_tokens) for view in views),
        None if witness is None else witness.max_prompt_tokens,
    )


def _scores(worded: Worded, readings: tuple[Reading, ...]) -> list[Scores]:
    """Return the scores of each question from the readings of all their views."""
    left = iter(readings)
    return [score_views(asked, [next(left) for _ in asked.views]) for asked in worded.questions]


def _aggregated(
    inquiry: Inquiry, windows: Sequence[Sequence[Scores]], overflow: Overflow
) -> list[Scores]:
    """Return the scores of each question from those in each window."""
    return [
        aggregate(question, scores, overflow.aggregation, overflow.noul_aggregation)
        for question, scores in zip(
            inquiry.questions.values(), zip(*windows, strict=True), strict=True
        )
    ]


def _usage(replies: Sequence[Reply]) -> Usage:
    input_tokens = sum(reply.input_tokens for reply in replies)
    evaluated_tokens = sum(reply.evaluated_tokens for reply in replies)
    return Usage(
        input_tokens=input_tokens,
        evaluated_tokens=evaluated_tokens,
        reused_tokens=max(0, input_tokens - evaluated_tokens),
    )


def _timings(replies: Sequence[Reply]) -> Timings:
    """Return the time from the door to the first call of any window, and on to the last reading."""
    waiting_seconds = min(reply.waiting_seconds for reply in replies)
    until_read = max(reply.waiting_seconds + reply.evaluation_seconds for reply in replies)
    return Timings(waiting_seconds=waiting_seconds, evaluation_seconds=until_read - waiting_seconds)
