"""Word the outcome of a ticket that was decided."""

from collections.abc import Sequence

from worker.decision.answer import Answer, make_answer
from worker.decision.inquiry import Inquiry
from worker.decision.outcome import (
    SCHEMA,
    Outcome,
    Provenance,
    Timings,
    Usage,
    outcome_id,
    questions_sha256,
)
from worker.decision.policy import Verdict, most_cautious
from worker.decision.policy_file import Decider
from worker.decision.question import Question
from worker.decision.scores import Scores, tempered
from worker.decision.ticket import Ticket


def decide(
    ticket: Ticket,
    inquiry: Inquiry,
    scores: Sequence[Scores],
    policy: Decider,
    *,
    provenance: Provenance,
    usage: Usage,
    timings: Timings,
) -> Outcome:
    """Turn scores into an outcome.

    Args:
        ticket: that was asked.
        inquiry: its state and questions.
        scores: one for each question, in order.
        policy: turns them into verdicts.
        provenance: of the process.
        usage: of the ticket.
        timings: of the ticket.
    """
    answers = {}
    for (key, question), score in zip(inquiry.questions.items(), scores, strict=True):
        answers[key] = _answer(key, question, score, policy, inquiry.key)
    whole = provenance.model_copy(
        update={
            "question_set": inquiry.origin(),
            "questions_sha256": questions_sha256(inquiry.questions),
        }
    )
    return Outcome(
        schema=SCHEMA,
        outcome_id=outcome_id(
            ticket_id=ticket.ticket_id,
            state=inquiry.state,
            questions=whole.questions_sha256 or "",
            provenance=whole,
        ),
        ticket_id=ticket.ticket_id,
        status="decided",
        answers=answers,
        disposition=most_cautious(answer.verdict for answer in answers.values()),
        metadata=ticket.metadata,
        usage=usage,
        timings=timings,
        provenance=whole,
        attribute_ids=inquiry.attributes,
    )


def verdict_of(
    key: str, question: Question, scores: Scores, policy: Decider, question_set: str | None
) -> Verdict:
    """Return what a policy says of an answer, with the temperature that was used, if one was.

    Args:
        key: the question's id.
        question: that was asked.
        scores: of its options, after the temperature.
        policy: that decides.
        question_set: ``name@version`` of the set that the question is part of.
    """
    verdict = policy.decide(key, question, scores, question_set)
    temperature = policy.temperature(key, question, question_set)
    return (
        verdict if temperature == 1.0 else verdict.model_copy(update={"temperature": temperature})
    )


def _answer(
    key: str, question: Question, scores: Scores, policy: Decider, question_set: str | None
) -> Answer:
    scores = tempered(scores, policy.temperature(key, question, question_set))
    verdict = verdict_of(key, question, scores, policy, question_set)
    return make_answer(question, scores, verdict)
