"""What a decision model's template is given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from worker.decision.native.kinds import Kind
from worker.decision.native.labels import NativeLabel
from worker.decision.native.values import Array, Object, native_value
from worker.decision.question import Choice, Option, Question, Text
from worker.errors import Rejected

Veil = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A question with its options as they are shown.

    Attributes:
        key: the question's id.
        question: what is asked.
        order: the index of the option at each place.
        options: in that order.
        labels: one for each option.
    """

    key: str
    question: Question
    order: tuple[int, ...]
    options: Sequence[Option]
    labels: Sequence[NativeLabel]


class Inputs:
    """The variables of a template for one ticket.

    Args:
        kind: the decision type.
        state: the ticket's.
        listed: the ticket's questions, for templates that list them all.
        veil: what becomes of each of the ticket's texts.
    """

    def __init__(
        self, kind: Kind, state: Text, listed: Sequence[Shown], veil: Veil | None = None
    ) -> None:
        self._sorts_keys = kind.sorts_keys
        self._veil = veil
        self._common: dict[str, Any] = {"state": self._text(state), "images": Array()}
        if kind.lists_questions:
            self._common["questions"] = Array(Object(self._asked(shown)) for shown in listed)

    def of(self, shown: Shown) -> dict[str, Any]:
        """Return the variables for one of its questions."""
        return self._common | self._asked(shown)

    def _asked(self, shown: Shown) -> dict[str, Any]:
        return {
            "id": self._text(shown.key),
            "type": shown.question.type,
            "instructions": self._text(shown.question.instructions),
            "options": Array(self._options(shown)),
        }

    def _options(self, shown: Shown) -> list[Object]:
        own_keys = isinstance(shown.question, Choice)  # other keys are the format's
        options = []
        for option, label in zip(shown.options, shown.labels, strict=True):
            values = {
                "key": self._text(option.key) if own_keys else option.key,
                "description": self._text(option.description),
            }
            if label.shown is not None:
                values["label"] = label.shown
            options.append(Object(sorted(values.items()) if self._sorts_keys else values))
        return options

    def _text(self, text: Text | None) -> Any:
        value = native_value(text, sort_keys=self._sorts_keys)
        return value if self._veil is None else _veiled(value, self._veil)


def refuse_media(state: Text) -> None:
    """Refuse a state whose chat messages hold images or sound, which llama.cpp would take out.

    Raises:
        Rejected: it does.
    """
    messages = state.get("messages") if isinstance(state, dict) else state
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") in ("image_url", "input_audio"):
                raise Rejected("media", "images and sound are not supported", "state")


def _veiled(value: Any, veil: Veil) -> Any:
    if isinstance(value, str):
        return veil(value)
    if isinstance(value, dict):
        return Object((veil(key), _veiled(item, veil)) for key, item in value.items())
    if isinstance(value, list):
        return Array(_veiled(item, veil) for item in value)
    return value
