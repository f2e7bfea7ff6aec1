"""Count which answers people overturn."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from worker import metrics
from worker.decision.answer import Answer, NoulAnswer
from worker.decision.feedback import Feedback, option_name
from worker.decision.outcome import Outcome

REMEMBERED_TICKETS = 10_000
"""What is answered after so many others is told by the message, or is unknown."""

OTHER = "other"
"""Stands for questions that are in no configured set: tickets may bring any."""

_UNTOLD = "untold"

Result = Literal["upheld", "overturned", "unknown", "repeated"]


@dataclass(slots=True)
class _Answered:
    option: str
    disposition: str
    decided: str | None = None


class Overrides:
    """What was answered lately, and what people made of it; holds no text of a ticket.

    Args:
        known_questions: returns the ids that metrics may name.
    """

    def __init__(self, known_questions: Callable[[], frozenset[str]] = frozenset) -> None:
        self._known_questions = known_questions
        self._tickets: OrderedDict[str, dict[str, _Answered]] = OrderedDict()
        self._counts: dict[str, Counter[str]] = {}

    def note(self, outcome: Outcome) -> None:
        """Remember what was answered."""
        if outcome.answers:
            self._remember(
                outcome.ticket_id,
                {
                    key: _Answered(best_option(answer), answer.verdict.disposition)
                    for key, answer in outcome.answers.items()
                },
            )

    def take(self, feedback: Feedback) -> Result:
        """Count what a person decided, once for each answer, and say what became of the answer."""
        decided = option_name(feedback.decided)
        ticket = self._tickets.get(feedback.ticket_id, {})
        answered = ticket.get(feedback.question)
        if answered is None and feedback.answer is not None:
            disposition = feedback.disposition or _UNTOLD
            answered = _Answered(option_name(feedback.answer), disposition)
            self._remember(feedback.ticket_id, {**ticket, feedback.question: answered})
        if answered is None:
            self._count(feedback.question, feedback.disposition or _UNTOLD, "unknown")
            return "unknown"
        if answered.decided == decided:
            return "repeated"  # a message may come twice
        answered.decided = decided
        result: Result = "upheld" if answered.option == decided else "overturned"
        self._count(feedback.question, answered.disposition, result)
        return result

    def told(self) -> dict[str, dict[str, int]]:
        """Return how many answers were upheld, overturned and unknown, by question."""
        return {question: dict(counts) for question, counts in sorted(self._counts.items())}

    def _remember(self, ticket_id: str, answered: dict[str, _Answered]) -> None:
        self._tickets[ticket_id] = answered
        self._tickets.move_to_end(ticket_id)
        if len(self._tickets) > REMEMBERED_TICKETS:
            self._tickets.popitem(last=False)

    def _count(self, question: str, disposition: str, result: Result) -> None:
        named = question if question in self._known_questions() else OTHER
        metrics.FEEDBACK.labels(named, disposition, result).inc()
        self._counts.setdefault(named, Counter())[result] += 1


def best_option(answer: Answer) -> str:
    """Return the key of the option that was answered; the first on a tie."""
    if isinstance(answer, NoulAnswer):
        return "true" if answer.noul >= 0.5 else "false"
    return max(answer.probabilities, key=answer.probabilities.__getitem__)
