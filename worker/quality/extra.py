"""The packages that measuring needs beside the worker's own."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from worker.errors import UsageError

_NEEDED = {"sklearn": "scikit-learn", "scipy": "scipy"}


def check_extra(find: Callable[[str], Any] = find_spec) -> None:
    """Check that measures can be computed, without the seconds that importing all of it takes.

    Raises:
        UsageError: a package is missing; it names what installs it.
    """
    missing = [package for module, package in _NEEDED.items() if find(module) is None]
    if missing:
        raise UsageError(
            f"measures need {' and '.join(missing)}: pip install 'decision-worker[quality]'"
        )
