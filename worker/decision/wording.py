"""What the story needs of a wording, be it the worker's own or a model's."""

from collections.abc import Mapping
from typing import Protocol

from worker.decision.asked import Worded
from worker.decision.question import Question, Text
from worker.decision.text import PromptText


class Wording(Protocol):
    """Puts tickets to one model."""

    @property
    def name(self) -> str:
        """How the outcome names it."""
        ...

    @property
    def version(self) -> str:
        """Of that name; another wording is another version."""
        ...

    @property
    def sha256(self) -> str:
        """Of everything that prompts and readings depend on, apart from the ticket."""
        ...

    @property
    def labels(self) -> int:
        """The most options that it can label."""
        ...

    @property
    def lists_questions(self) -> bool:
        """Whether each prompt lists all questions of the ticket."""
        ...

    def probes(
        self, state: Text, questions: Mapping[str, Question]
    ) -> tuple[PromptText, PromptText]:
        """Return two short fixed questions over a state, which show where the trunk ends.

        Args:
            state: what they are about.
            questions: the ticket's, which do not matter unless each prompt lists them.
        """
        ...

    def word(
        self, state: Text, questions: Mapping[str, Question], orders: int | None = None
    ) -> Worded:
        """Put a ticket.

        Args:
            state: what the questions are about.
            questions: by id.
            orders: in how many orders the options are shown; None: as the wording does itself.

        Raises:
            Rejected: a question cannot be put to this model; with its place.
        """
        ...
