"""Word an exception for a log: of which type it is and where it came from, never what it says.

What a library's exception says may be the text that it could not handle. Only our own errors hold
no text of a ticket, so only their messages are kept.
"""

import traceback
from collections.abc import Iterator
from typing import Any

from worker.errors import WorkerError


def fault_parts(error: BaseException) -> list[dict[str, Any]]:
    """Return an exception and what it came of, each as type, message (of ours only) and frames."""
    return [
        {
            "exc_type": type(one).__name__,
            "exc_value": _message(one),
            "frames": [
                {"filename": frame.filename, "lineno": frame.lineno, "name": frame.name}
                for frame in traceback.extract_tb(one.__traceback__)
            ],
        }
        for one in _chain(error)
    ]


def fault_text(error: BaseException) -> str:
    """Return the same as Python prints tracebacks, the first cause first."""
    parts = []
    for one in reversed(list(_chain(error))):
        frames = "".join(traceback.format_tb(one.__traceback__))
        message = _message(one)
        last = f"{type(one).__name__}: {message}" if message else type(one).__name__
        parts.append(f"Traceback (most recent call last):\n{frames}{last}\n")
    return "\n".join(parts)


def _message(error: BaseException) -> str:
    return str(error) if isinstance(error, WorkerError) else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, what it came of, and what a group of them holds; each once."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting.append(one.__cause__ or (None if one.__suppress_context__ else one.__context__))
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
