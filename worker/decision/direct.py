"""The worker's own wording, for any causal model: a prompt template and proved labels."""

from collections.abc import Mapping
from dataclasses import dataclass

from worker.decision.asked import Asked, View, Worded
from worker.decision.labels import LabelPool
from worker.decision.orders import option_orders
from worker.decision.prompt import PromptTemplate, shown
from worker.decision.question import Question, Score, Text
from worker.decision.text import PromptText
from worker.errors import Rejected


@dataclass(frozen=True, slots=True)
class DirectWording:
    """Shows labelled options and reads the labels.

    Attributes:
        prompt: how questions are worded.
        pool: the tokens options are read at.
    """

    prompt: PromptTemplate
    pool: LabelPool

    @property
    def lists_questions(self) -> bool:
        """Each prompt holds one question."""
        return False

    @property
    def name(self) -> str:
        """The prompt's name."""
        return self.prompt.name

    @property
    def version(self) -> str:
        """The prompt's version."""
        return self.prompt.version

    @property
    def sha256(self) -> str:
        """Of template and frame."""
        return self.prompt.sha256

    @property
    def labels(self) -> int:
        """The most options that can be labelled."""
        return len(self.pool)

    def probes(
        self, state: Text, questions: Mapping[str, Question]
    ) -> tuple[PromptText, PromptText]:
        """Return two fixed questions over a state; see :class:`Wording`."""
        del questions
        return self.prompt.probes(shown(state))

    def word(
        self, state: Text, questions: Mapping[str, Question], orders: int | None = None
    ) -> Worded:
        """Put a ticket.

        Args:
            state: what the questions are about.
            questions: by id.
            orders: in how many orders the options are shown [1]; levels are shown as given, since
                their order has a meaning.

        Raises:
            Rejected: a question has more options than there are labels.
        """
        text = shown(state)
        asked = tuple(self._ask(text, key, one, orders or 1) for key, one in questions.items())
        return Worded(self.probes(state, questions), asked)

    def _ask(self, state: str, key: str, question: Question, orders: int) -> Asked:
        count = len(question.options())
        try:
            labels = self.pool.take(count)
        except Rejected as fault:
            raise Rejected(fault.code, fault.message, f"questions.{key}.criteria") from None
        tokens = tuple((label.token,) for label in labels)
        return Asked(
            tuple(
                View(self.prompt.render(state, question, labels, order), tokens, order)
                for order in option_orders(count, 1 if isinstance(question, Score) else orders)
            )
        )
