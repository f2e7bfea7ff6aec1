"""The packages that tracing needs beside the worker's own."""

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from worker.errors import UsageError

_NEEDED = {
    "opentelemetry.sdk.trace": "opentelemetry-sdk",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
}


def check_extra(find: Callable[[str], Any] = find_spec) -> None:
    """Check that spans can be kept and sent.

    Raises:
        UsageError: a package is missing; it names what installs it.
    """
    missing = [package for module, package in _NEEDED.items() if not _is_there(module, find)]
    if missing:
        raise UsageError(
            f"--tracing needs {' and '.join(missing)}: pip install 'decision-worker[tracing]'"
        )


def _is_there(module: str, find: Callable[[str], Any]) -> bool:
    with suppress(ModuleNotFoundError):  # of a package around it
        return find(module) is not None
    return False
