"""A decision model's own template, rendered as llama.cpp renders it."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import jinja2

from worker.decision.control import ControlTokens
from worker.decision.native.values import as_json, printed
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

    def render(self, values: Mapping[str, Any], veiled: Mapping[str, Any]) -> PromptText:
        """Return a prompt in which only the template's own control tokens are trusted.

        Args:
            values: the template's variables.
            veiled: the same, with every text of the ticket veiled.

        Raises:
            Rejected: the template refuses, or its tokens cannot be told from the ticket's.
        """
        prompt = self._control.split(_print(self._plain, values), _print(self._veiled, veiled))
        if prompt is None:
            raise Rejected(
                "control_tokens",
                "the text spells control tokens, and the model's template does not let them be told"
                " from its own",
            )
        return prompt

    def _as_veiled_json(self, value: Any, *arguments: Any, **options: Any) -> str:
        return self._control.keep_veils(as_json(value, *arguments, **options))


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
