"""Ask the engine of this process."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from worker.decision.canonical import canonical_sha256
from worker.decision.outcome import Outcome
from worker.decision.policy_file import Profile
from worker.decision.question import Text
from worker.decision.question_set import QuestionSet
from worker.decision.ticket import Ticket
from worker.errors import DecodeFailed, EngineBusy, Rejected
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.quality.asking import Answered, Refused, read_given
from worker.quality.run_file import Source
from worker.rulebook import bind_policy
from worker.settings import Settings

LOCAL = "local"


@dataclass(frozen=True, slots=True)
class _OneSet:
    """A shelf on which every name means the same set, also one put in another way."""

    question_set: QuestionSet

    def find(self, asked: str) -> QuestionSet:
        """Return the set; see :class:`worker.decision.inquiry.Shelf`."""
        del asked
        return self.question_set


@dataclass(frozen=True, slots=True)
class InProcess:
    """A target that is an evaluator.

    Attributes:
        evaluator: answers, in the batch lane.
        clock: seconds, to time answers with.
    """

    evaluator: Evaluator
    clock: Callable[[], float] = time.perf_counter

    async def source(self) -> Source:
        """Return who answers; see :class:`worker.quality.asking.Target`."""
        provenance = self.evaluator.provenance
        return Source(
            target=LOCAL,
            model=provenance.model.name,
            provenance_sha256=canonical_sha256(provenance.model_dump(mode="json")),
            provenance=provenance,
        )

    async def ask(self, case_id: str, state: Text, question_set: QuestionSet) -> Answered:
        """Ask all questions about a state; see :class:`worker.quality.asking.Target`."""
        evaluator = replace(self.evaluator, shelf=_OneSet(question_set))
        ticket = Ticket(ticket_id=case_id, state=state, question_set=question_set.key)
        began = self.clock()
        try:
            outcome = await _patiently(evaluator, ticket)
        except Rejected as fault:
            raise Refused(fault.code, str(fault)) from None
        except DecodeFailed:
            raise Refused("decode_failed", "llama.cpp refused a call twice") from None
        return _answered(outcome, question_set, self.clock() - began)


def fit_policy(evaluator: Evaluator, question_set: QuestionSet, settings: Settings) -> Evaluator:
    """Return the evaluator with a policy that was made for this set, which may be on no shelf.

    Raises:
        UsageError: the policy was made for other content of the set, and that is to be refused.
    """
    if not isinstance(evaluator.policy, Profile):
        return evaluator
    policy = bind_policy(evaluator.policy, evaluator.provenance, settings, [question_set])
    return replace(evaluator, policy=policy)


async def _patiently(evaluator: Evaluator, ticket: Ticket) -> Outcome:
    while True:
        try:
            return await evaluator.evaluate(ticket, Lane.BATCH)
        except EngineBusy as error:
            await asyncio.sleep(error.seconds)


def _answered(outcome: Outcome, question_set: QuestionSet, seconds: float) -> Answered:
    answers = outcome.answers or {}
    given = {}
    for key, question in question_set.questions.items():
        answer = answers[key]
        beside = {
            "label_mass": answer.label_mass,
            "top_is_label": answer.top_is_label,
            "disposition": answer.verdict.disposition,
            "temperature": answer.verdict.temperature,
        }
        given[key] = read_given(question, answer.model_dump(), beside)
    return Answered(
        given,
        seconds,
        outcome.timings.evaluation_seconds if outcome.timings else None,
        outcome.usage.input_tokens if outcome.usage else None,
        outcome.usage.evaluated_tokens if outcome.usage else None,
    )
