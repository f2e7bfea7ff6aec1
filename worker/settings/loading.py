"""Read the settings from flags and environment, and say what is wrong with them."""

import difflib
import os
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from worker.errors import UsageError
from worker.settings.joined import PREFIX, Settings
from worker.settings.platform import from_platform

# What a setting with a pattern must be, in words.
_PATTERNS = {
    "queue_url": "the URL of an SQS queue",
    "feedback_queue_url": "the URL of an SQS queue",
    "topic_arn": "an ARN of an SNS topic",
    "tensor_split": "numbers with commas between them",
}


def load_settings(flags: dict[str, Any]) -> Settings:
    """Read the settings: a flag wins over the environment.

    Args:
        flags: the values given on the command line, by field name.

    Raises:
        UsageError: everything that is wrong, in one line.
    """
    faults = _unknown_names(list(os.environ))
    names = {name: f"--{name.replace('_', '-')}" for name in flags}
    platform = from_platform(os.environ)
    try:
        settings = Settings(**{**{name: value for name, (value, _) in platform.items()}, **flags})
    except ValidationError as error:
        names = {name: source for name, (_, source) in platform.items()} | names
        faults += [_fault(fault, names) for fault in error.errors(include_url=False)]
    else:
        if not faults:
            return settings
    raise UsageError("settings: " + "; ".join(faults))


def _unknown_names(environment: list[str]) -> list[str]:
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    faults = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0)
            faults.append(f"{name} is not a setting; the nearest is {nearest[0]}")
    return faults


def _fault(fault: Any, names: Mapping[str, str]) -> str:
    if not fault["loc"]:
        return str(fault["ctx"]["error"])
    name = str(fault["loc"][0])
    shown = names.get(name, PREFIX + name.upper())
    if fault["type"] == "string_pattern_mismatch":
        return f"{shown}: must be {_PATTERNS[name]}"
    text = str(fault["msg"])
    return f"{shown}: {text[0].lower()}{text[1:]}"
