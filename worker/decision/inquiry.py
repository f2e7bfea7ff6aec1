"""What a ticket asks, once the set that it may name is looked up."""

from dataclasses import dataclass, replace
from typing import Protocol

from worker.decision.outcome import QuestionSetProvenance
from worker.decision.overflow import Overflow
from worker.decision.question import Question, Text
from worker.decision.question_set import QuestionSet
from worker.decision.ticket import Ticket
from worker.errors import Rejected


class Shelf(Protocol):
    """Where question sets are looked up."""

    def find(self, asked: str) -> QuestionSet:
        """Return the set that a ticket asks for.

        Raises:
            Rejected: there is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A state and questions about it.

    Attributes:
        question_set: that the questions are from; None: the ticket brought them itself.
    """

    state: Text
    questions: dict[str, Question]
    question_set: QuestionSet | None = None

    @property
    def orders(self) -> int | None:
        """In how many orders the set wants options shown; None: it does not say."""
        return self.question_set.defaults.orders if self.question_set else None

    def overflow(self, usual: Overflow) -> Overflow:
        """Return what becomes of a long state: as the set says, else as *usual*."""
        if self.question_set is None:
            return usual
        named = self.question_set.defaults
        return replace(
            usual,
            rule=named.overflow or usual.rule,
            aggregation=named.aggregation or usual.aggregation,
            noul_aggregation=named.noul_aggregation or usual.noul_aggregation,
        )

    @property
    def attributes(self) -> tuple[str, ...] | None:
        """The questions whose answers are message attributes; None: the set does not say."""
        named = self.question_set.defaults.attributes if self.question_set else None
        return None if named is None else tuple(named)

    @property
    def key(self) -> str | None:
        """Name and version of the question set."""
        return self.question_set.key if self.question_set else None

    def origin(self) -> QuestionSetProvenance | None:
        """Return what the outcome tells about the question set."""
        one = self.question_set
        if one is None:
            return None
        return QuestionSetProvenance(name=one.name, version=one.version, sha256=one.sha256())


def inquire(ticket: Ticket, shelf: Shelf) -> Inquiry:
    """Return what a ticket asks.

    Raises:
        Rejected: it names a set that is not configured, or its state has not been read.
    """
    if ticket.state is None:
        raise Rejected("state_uri_refused", "no bucket is allowed on this worker", "state_uri")
    if ticket.questions is not None:
        return Inquiry(ticket.state, ticket.questions)
    question_set = shelf.find(ticket.question_set or "")
    return Inquiry(ticket.state, question_set.questions, question_set)
