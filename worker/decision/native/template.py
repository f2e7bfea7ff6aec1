"""A decision model's own template, rendered as llama.cpp renders it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jinja2

from worker.decision.control import ControlTokens
from worker.decision.native.inputs import Inputs, Shown
from worker.decision.native.kinds import Kind
from worker.decision.native.values import as_json, printed
from worker.decision.question import Text
from worker.decision.sandbox import sandbox
from worker.decision.text import PromptText
from worker.errors import CannotRun, Rejected


class NativeTemplate:
    """The template in ``tokenizer.chat_template.systemone``.

    Args:
        source: its Jinja source.
        control: the vocabulary's control tokens.

    Raises:
        CannotRun: *source* is not Jinja.
    """

    def __init__(self, source: str, control: ControlTokens) -> None:
        self._control = control
        try:
            self._plain = _environment(as_json).from_string(source)
            self._veiled = _environment(self._as_veiled_json).from_string(source)
        except jinja2.TemplateError as error:
            raise CannotRun(f"the model's systemone template is not Jinja: {error}") from error
        self.sha256 = hashlib.sha256(source.encode()).hexdigest()

    def render(self, sheet: "Sheet", shown: Shown) -> PromptText:
        """Return the prompt of a question, with only the template's own control tokens trusted.

        Args:
            sheet: the ticket.
            shown: one of its questions, or a probe.

        Raises:
            Rejected: the template refuses, or its tokens cannot be told from the ticket's.
        """
        prompt = self._control.split(
            _print(self._plain, sheet.plain.of(shown)),
            _print(self._veiled, sheet.veiled.of(shown)),
            lambda: _print(self._veiled, sheet.start_veiled.of(shown)),
        )
        if prompt is None:
            raise Rejected(
                "control_tokens",
                "the text spells control tokens, and the model's template does not let them be told"
                " from its own",
            )
        return prompt

    def sheet(self, kind: Kind, state: Text, listed: Sequence[Shown]) -> "Sheet":
        """Return a ticket as this template is given it."""
        return Sheet(self._control, kind, state, listed)

    def _as_veiled_json(self, value: Any, *arguments: Any, **options: Any) -> str:
        return self._control.keep_veils(as_json(value, *arguments, **options))


class Sheet:
    """What a template is given about one ticket, plain and veiled.

    Args:
        control: knows the veils.
        kind: the decision type.
        state: the ticket's.
        listed: the ticket's questions.
    """

    def __init__(
        self, control: ControlTokens, kind: Kind, state: Text, listed: Sequence[Shown]
    ) -> None:
        self._ticket = kind, state, listed
        self._control = control
        self.plain = Inputs(kind, state, listed)
        self.veiled = Inputs(kind, state, listed, control.veil)

    @cached_property
    def start_veiled(self) -> Inputs:
        """Made when a template looks into texts, which few do."""
        return Inputs(*self._ticket, self._control.veil_starts)


def _environment(serialise: Callable[..., str]) -> jinja2.Environment:
    environment = sandbox(jinja2.Undefined)
    environment.finalize = printed
    environment.filters["tojson"] = serialise
    return environment


def _print(template: jinja2.Template, values: Mapping[str, Any]) -> str:
    try:
        return template.render(values)
    except Exception as error:  # noqa: BLE001 - foreign code, and its words may be the ticket's
        raise Rejected(
            "template_failed",
            f"the model's template cannot render this question ({type(error).__name__})",
        ) from None
