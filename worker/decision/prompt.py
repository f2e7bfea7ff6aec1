"""Render a ticket's state and one question as the text a causal model is read after.

The worker's own prompt, ``direct-v1``, is a Jinja file that puts the state first, then the
question, the labelled options and the answer cue. A chat model's own template is wrapped around
it. The template is rendered once, around a mark, and never sees a ticket: what a customer writes
can neither steer it nor become a control token.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jinja2

from worker.decision.labels import Label
from worker.decision.question import Choice, Noul, Question, Text
from worker.decision.sandbox import sandbox
from worker.decision.text import Piece, PromptText
from worker.errors import CannotRun

_MARK = "\N{WHITE SQUARE}the prompt goes here\N{WHITE SQUARE}"

# The names by which templates know it: Qwen, GLM and SmolLM; DeepSeek and Granite; Seed.
_WITHOUT_THINKING = {"enable_thinking": False, "thinking": False, "thinking_budget": 0}
_OPEN_THOUGHT = re.compile(r"<(?P<tag>[\w:]*think(?:ing)?)>\s*\Z")

_DEFAULT_INSTRUCTIONS = {
    "choice": "Which option fits best?",
    "score": "Which level fits best?",
    "noul": "Which statement is true?",
}

# Two questions whose prompts part ways at their first word. What both begin with is the trunk.
_PROBES: tuple[Question, Question] = (
    Choice(type="choice", instructions="Which?", criteria={"one": None, "two": None}),
    Noul(type="noul", instructions="Is it?"),
)
_PROBE_LABELS = ("A", "B")


@dataclass(frozen=True, slots=True)
class Frame:
    """What a model's chat template puts around one user turn.

    Attributes:
        head: before the content; may hold control tokens.
        tail: after the content, up to where the model answers; may hold control tokens.
        chat: whether there is a chat template at all.
    """

    head: str = ""
    tail: str = ""
    chat: bool = False


def chat_frame(template: str, *, bos: str, eos: str) -> Frame:
    """Render a GGUF's chat template once, with thinking switched off, around a mark.

    Args:
        template: the Jinja source in ``tokenizer.chat_template``.
        bos: the text of the beginning-of-sequence token.
        eos: the text of the end-of-sequence token.

    Raises:
        CannotRun: the template cannot be rendered, or alters the content.
    """
    environment = sandbox(jinja2.Undefined)
    # Some templates print the date. A prompt must not change at midnight, so the day is fixed.
    environment.globals["strftime_now"] = datetime(2026, 1, 1, tzinfo=UTC).strftime
    environment.filters["tojson"] = _as_json
    try:
        rendered = environment.from_string(template).render(
            messages=[{"role": "user", "content": _MARK}],
            add_generation_prompt=True,
            **_WITHOUT_THINKING,
            bos_token=bos,
            eos_token=eos,
        )
    except Exception as error:  # the template is foreign code and may raise anything
        raise CannotRun(f"the model's chat template cannot be rendered: {error}") from error
    head, mark, tail = rendered.partition(_MARK)
    if not mark or _MARK in tail:
        raise CannotRun(
            "the model's chat template does not print the user's text once, as it is;"
            " start with --chat-template none to use the plain prompt"
        )
    return Frame(head, _without_open_thought(tail), chat=True)


class PromptTemplate:
    """The wording of prompts, bound to one model's frame.

    Args:
        name: such as ``direct``.
        version: such as ``1``; a new wording is a new version.
        source: the Jinja source.
        frame: what the model's chat template puts around it.

    Raises:
        jinja2.TemplateSyntaxError: *source* is not Jinja.
    """

    def __init__(self, name: str, version: str, source: str, frame: Frame) -> None:
        self.name = name
        self.version = version
        self.frame = frame
        self.sha256 = hashlib.sha256(
            json.dumps([source, frame.chat, frame.head, frame.tail]).encode()
        ).hexdigest()
        self._template = sandbox(jinja2.StrictUndefined).from_string(source)

    def render(
        self,
        state: str,
        question: Question,
        labels: tuple[Label, ...],
        order: tuple[int, ...] | None = None,
    ) -> PromptText:
        """Return the full prompt of one question.

        Args:
            state: as :func:`shown` returns it.
            question: what to ask.
            labels: one for each option, in the order they are shown.
            order: the index of the option shown at each place; None: as given.
        """
        return self._render(state, question, tuple(label.shown for label in labels), order)

    def probes(self, state: str) -> tuple[PromptText, PromptText]:
        """Return two fixed questions rendered over *state*; they share exactly the trunk."""
        first, second = (self._render(state, probe, _PROBE_LABELS) for probe in _PROBES)
        return first, second

    def cue(self) -> PromptText:
        """Return a short prompt that ends as every prompt does."""
        return self.probes("")[0]

    def _render(
        self,
        state: str,
        question: Question,
        labels: tuple[str, ...],
        order: tuple[int, ...] | None = None,
    ) -> PromptText:
        given = question.options()
        options = given if order is None else tuple(given[index] for index in order)
        content = self._template.render(
            state=state,
            type=question.type,
            instructions=shown(question.instructions or _DEFAULT_INSTRUCTIONS[question.type]),
            options=[
                {
                    "label": label,
                    "key": option.key,
                    "description": shown(option.description or ""),
                }
                for label, option in zip(labels, options, strict=True)
            ],
            chat=self.frame.chat,
        )
        return (
            Piece(self.frame.head, trusted=True),
            Piece(content, trusted=False),
            Piece(self.frame.tail, trusted=True),
        )


def shown(text: Text) -> str:
    """Return text as it is and structured data as JSON, its fields in their order."""
    return text if isinstance(text, str) else _as_json(text)


def _as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _without_open_thought(tail: str) -> str:
    """Close a thought that the template leaves open for the model to fill."""
    thought = _OPEN_THOUGHT.search(tail)
    return f"{tail.rstrip()}\n\n</{thought['tag']}>\n\n" if thought else tail
