"""How llama.cpp's own server puts a ticket to a decision model that is read at labels."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from worker.decision.asked import Asked, View, Worded
from worker.decision.control import ControlTokens
from worker.decision.native.inputs import Shown, refuse_media
from worker.decision.native.kinds import Kind, find_kind
from worker.decision.native.labels import NativeLabels, find_labels
from worker.decision.native.temperatures import Temperatures, read_temperatures
from worker.decision.native.template import NativeTemplate, Sheet
from worker.decision.orders import Order, option_orders
from worker.decision.question import Choice, Noul, Question, Text
from worker.decision.text import Piece, PromptText
from worker.errors import CannotRun, Rejected

TEMPLATE_KEY = "tokenizer.chat_template.systemone"

# Two questions that part ways at whatever a template prints of them first.
_PROBES: Mapping[str, Question] = {
    "one": Choice(type="choice", instructions="Which?", criteria={"one": None, "two": None}),
    "another": Noul(type="noul", instructions="Is it?"),
}


class Vocabulary(Protocol):
    """What a native wording needs to know of a model's vocabulary."""

    def encode(self, prompt: PromptText) -> Sequence[int]:
        """Return the token ids of a full prompt."""
        ...


def open_wording(
    architecture: str,
    metadata: Mapping[str, str],
    vocabulary: Vocabulary,
    control: ControlTokens,
) -> "NativeWording":
    """Make the wording that a GGUF's metadata ask for.

    Args:
        architecture: the model's.
        metadata: the GGUF's, as text by key.
        vocabulary: the model's.
        control: the model's control tokens.

    Raises:
        CannotRun: the decision type, its template, labels or temperatures cannot be used.
    """
    kind = find_kind(metadata[f"{architecture}.decision.type"])
    if TEMPLATE_KEY not in metadata:
        raise CannotRun(f"this decision model has no {TEMPLATE_KEY}")
    template = NativeTemplate(metadata[TEMPLATE_KEY], control)
    labels = find_labels(kind, lambda text: vocabulary.encode((Piece(text, trusted=False),)))
    wording = NativeWording(
        kind, template, labels, read_temperatures(kind.name, architecture, metadata)
    )
    try:
        wording.word("", _PROBES)
    except Rejected as fault:
        raise CannotRun(f"the model's own template cannot be used: {fault.message}") from fault
    return wording


class NativeWording:
    """Renders a model's own template and reads it as llama.cpp's server does.

    Args:
        kind: the decision type.
        template: the model's.
        labels: the decision type's, in the model's vocabulary.
        temperatures: the model's.
    """

    version = "1"

    def __init__(
        self,
        kind: Kind,
        template: NativeTemplate,
        labels: NativeLabels,
        temperatures: Temperatures,
    ) -> None:
        self.name = f"native-{kind.name}"
        self.labels = labels.most
        self.lists_questions = kind.lists_questions
        self.sha256 = hashlib.sha256(
            json.dumps([kind.name, template.sha256, temperatures.by_name]).encode()
        ).hexdigest()
        self._kind = kind
        self._template = template
        self._labels = labels
        self._temperatures = temperatures

    def word(
        self, state: Text, questions: Mapping[str, Question], orders: int | None = None
    ) -> Worded:
        """Put a ticket.

        Args:
            state: what the questions are about.
            questions: by id.
            orders: in how many orders a choice's options are shown; None: as llama.cpp does.

        Raises:
            Rejected: a question cannot be put to this model.
        """
        refuse_media(state)
        shows = [
            [self._show(key, question, order) for order in self._orders(question, orders)]
            for key, question in questions.items()
        ]
        sheets = self._sheets(state, shows)
        return Worded(self._probes(sheets[0]), tuple(self._ask(sheets, views) for views in shows))

    def probes(
        self, state: Text, questions: Mapping[str, Question]
    ) -> tuple[PromptText, PromptText]:
        """Return two fixed questions over a state; see :class:`worker.decision.wording.Wording`."""
        listed = questions if self.lists_questions else {}
        shows = [[self._show_as_given(key, question)] for key, question in listed.items()]
        return self._probes(self._sheets(state, shows)[0])

    def _probes(self, sheet: Sheet) -> tuple[PromptText, PromptText]:
        first, second = (
            self._render(sheet, self._show_as_given(key, question))
            for key, question in _PROBES.items()
        )
        return first, second

    def _show_as_given(self, key: str, question: Question) -> Shown:
        return self._show(key, question, self._orders(question, 1)[0])

    def _orders(self, question: Question, orders: int | None) -> tuple[Order, ...]:
        if isinstance(question, Noul) and not self._kind.true_first:
            return ((1, 0),)
        many = orders or self._kind.orders
        return option_orders(len(question.options()), many if isinstance(question, Choice) else 1)

    def _show(self, key: str, question: Question, order: Order) -> Shown:
        if question.instructions is None:
            where = f"questions.{key}.instructions"
            raise Rejected("invalid_ticket", "this model needs instructions", where)
        given = question.options()
        options = [given[index] for index in order]
        try:
            labels = self._labels.label(question, options)
        except Rejected as fault:
            raise Rejected(fault.code, fault.message, f"questions.{key}.criteria") from None
        return Shown(key, question, order, options, labels)

    def _sheets(self, state: Text, shows: Sequence[Sequence[Shown]]) -> list[Sheet]:
        """Return a sheet for each view; one for all where prompts do not list other questions."""
        views = max(map(len, shows)) if self.lists_questions else 1
        return [
            self._template.sheet(
                self._kind, state, [one[min(number, len(one) - 1)] for one in shows]
            )
            for number in range(views)
        ]

    def _ask(self, sheets: Sequence[Sheet], shows: Sequence[Shown]) -> Asked:
        question = shows[0].question
        rates = self._kind.rates and isinstance(question, Noul)
        views = []
        for number, shown in enumerate(shows):
            labels = self._labels.ratings if rates else shown.labels
            prompt = self._render(sheets[min(number, len(sheets) - 1)], shown)
            views.append(View(prompt, tuple(label.tokens for label in labels), shown.order))
        temperature = self._temperatures.find(question.type, len(shows[0].options))
        return Asked(tuple(views), temperature, rates)

    def _render(self, sheet: Sheet, shown: Shown) -> PromptText:
        try:
            return self._template.render(sheet, shown)
        except Rejected as fault:
            raise Rejected(fault.code, fault.message, f"questions.{shown.key}") from None
