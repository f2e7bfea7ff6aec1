"""The Jinja environment that templates are rendered in."""

from typing import NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


def sandbox(undefined: type[jinja2.Undefined]) -> ImmutableSandboxedEnvironment:
    """Return an environment for text, set as chat templates expect it.

    Args:
        undefined: what a name without a value is.
    """
    # No autoescape: prompts are text, not HTML.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=undefined,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.globals["raise_exception"] = _raise_exception
    return environment


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
