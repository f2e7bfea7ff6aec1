"""Turn one ticket into one outcome."""

from dataclasses import dataclass

from worker.decision.answer import make_answer
from worker.decision.labels import LabelPool
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
from worker.decision.prompt import PromptTemplate, shown
from worker.decision.question import Question, Text
from worker.decision.scores import score_reading
from worker.decision.ticket import Ticket
from worker.errors import Rejected
from worker.ports import Branch, Engine, Evaluation, Lane, Reply

MAX_PROMPT_CHARACTERS = 1 << 25
"""The most text that one ticket may become, since each question's prompt repeats the state."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Asks the engine and words what it read; computes no logits itself.

    Attributes:
        engine: where prompts are evaluated.
        prompt: how questions are worded.
        labels: the tokens options are read at.
        provenance: of this process; each outcome carries it.
    """

    engine: Engine
    prompt: PromptTemplate
    labels: LabelPool
    provenance: Provenance

    async def evaluate(self, ticket: Ticket, lane: Lane, deadline: float | None = None) -> Outcome:
        """Answer all questions of a ticket.

        Raises:
            Rejected: the ticket cannot be answered by this worker, ever.
            Retryable: not now.
            EngineFailed: never again in this process.
        """
        self._accept_model(ticket.model)
        state, questions = _inline(ticket)
        reply = await self.engine.score(self._evaluation(state, questions), lane, deadline)
        return self._outcome(ticket, state, questions, reply)

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

    def _evaluation(self, state: Text, questions: dict[str, Question]) -> Evaluation:
        text = shown(state)
        if len(text) * len(questions) > MAX_PROMPT_CHARACTERS:
            raise Rejected(
                "too_large",
                f"{len(questions)} questions about {len(text)} characters of state are more than"
                f" {MAX_PROMPT_CHARACTERS} characters of prompts",
                "questions",
            )
        branches = []
        for key, question in questions.items():
            try:
                labels = self.labels.take(len(question.options()))
            except Rejected as fault:
                raise Rejected(fault.code, fault.message, f"questions.{key}.criteria") from None
            prompt = self.prompt.render(text, question, labels)
            branches.append(Branch(prompt, tuple(label.token for label in labels)))
        return Evaluation(self.prompt.probes(text), tuple(branches))

    def _outcome(
        self, ticket: Ticket, state: Text, questions: dict[str, Question], reply: Reply
    ) -> Outcome:
        answers = {
            key: make_answer(question, score_reading(reading), NO_POLICY)
            for (key, question), reading in zip(questions.items(), reply.readings, strict=True)
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


def _inline(ticket: Ticket) -> tuple[Text, dict[str, Question]]:
    """Return the state and the questions that the ticket carries itself."""
    if ticket.state is None:
        raise Rejected("state_uri_refused", "no bucket is allowed on this worker", "state_uri")
    if ticket.questions is None:
        raise Rejected(
            "unknown_question_set", "no question set is configured on this worker", "question_set"
        )
    return ticket.state, ticket.questions
