"""The formats a parsed body may be in, told apart by its fields, each with its own errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from worker.decision.evidence import Witness
from worker.decision.outcome import Outcome
from worker.decision.ticket import Ticket
from worker.sidecar import semif, systemone
from worker.sidecar.refusal import Refusal

WriteAnswer = Callable[[Outcome], dict[str, Any]]
ErrorAnswer = tuple[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Query:
    """A request, read.

    Attributes:
        ticket: asks what it asks.
        write: words the ticket's outcome.
        witness: of whatever *write* tells beyond the outcome.
    """

    ticket: Ticket
    write: WriteAnswer
    witness: Witness | None = None


class Format(Protocol):
    """How a request is read, and how an answer or a refusal is worded."""

    def read(self, tree: Any, request_id: str) -> Query:
        """Read a parsed body; *request_id* is the id of a ticket without one.

        Raises:
            Rejected: with the place and the reason.
        """
        ...

    def error(self, refusal: Refusal) -> ErrorAnswer:
        """Return status and body for a refusal."""
        ...


class SystemOne:
    """System One's requests, answers and errors."""

    def read(self, tree: Any, request_id: str) -> Query:
        return Query(systemone.read_request(tree, request_id), systemone.write_answer)

    def error(self, refusal: Refusal) -> ErrorAnswer:
        return refusal.status, systemone.write_error(refusal)


class Semif:
    """The SemIf sample's requests, answers and errors.

    Args:
        spells_control: whether a text holds the spelling of a control token.
    """

    def __init__(self, spells_control: Callable[[str], bool]) -> None:
        self._spells_control = spells_control

    def read(self, tree: Any, request_id: str) -> Query:
        request = semif.read_request(tree, self._spells_control)
        witness = Witness(semif.max_tokens_each(request))
        return Query(
            semif.to_ticket(request, request_id),
            lambda outcome: semif.write_answer(request, outcome, witness),
            witness,
        )

    def error(self, refusal: Refusal) -> ErrorAnswer:
        return semif.status_of(refusal), semif.write_error(refusal)


class Undecided(SystemOne):
    """Before the body says what it is, an error is worded so that both kinds of client read it."""

    def error(self, refusal: Refusal) -> ErrorAnswer:
        return refusal.status, systemone.write_error(refusal) | semif.write_error(refusal)


SYSTEM_ONE: Format = SystemOne()
UNDECIDED: Format = Undecided()


def format_of(tree: Any, spells_control: Callable[[str], bool]) -> Format:
    """Return the format of a parsed body."""
    if not isinstance(tree, dict):
        return UNDECIDED
    if tree.keys() & semif.FIELDS and not tree.keys() & {"questions", "question_set"}:
        return Semif(spells_control)
    return SYSTEM_ONE
