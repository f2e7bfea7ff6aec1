"""What the worker tells a trace, in words of its own; a tracer that keeps nothing costs nothing."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol

from worker.errors import MadeWay, OutOfTurn, Rejected
from worker.trace import NO_TRACE, Trace

Attributes = Mapping[str, str | int | float | bool]
"""What a span says. Never text of a ticket: ids, names of ours, counts and seconds."""


class Kind(StrEnum):
    """What a span's part in a conversation is, as OpenTelemetry calls it."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    CLIENT = "CLIENT"
    PRODUCER = "PRODUCER"
    CONSUMER = "CONSUMER"


class Span(Protocol):
    """A piece of work that has a beginning and an end."""

    @property
    def trace(self) -> Trace:
        """Where whatever comes of this work belongs; no trace when none is kept."""
        ...

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        ...

    def fail(self, error_type: str, *, is_fault: bool = True) -> None:
        """Say that the work failed.

        Args:
            error_type: a word of ours, or an exception's type; never what it says.
            is_fault: whether the worker or what it depends on is to blame, not the ticket.
        """
        ...


class Tracer(Protocol):
    """Makes spans."""

    def span(
        self,
        name: str,
        kind: Kind,
        attributes: Attributes,
        *,
        parent: Trace | None = None,
        links: Sequence[Trace] = (),
        started_ns: int | None = None,
    ) -> AbstractContextManager[Span]:
        """Return a span that lasts while the body runs, and fails with it.

        Args:
            name: of few different ones.
            kind: its part.
            attributes: that are known at its beginning.
            parent: where it belongs, told from outside; the span around it becomes a link. None:
                in the span around it.
            links: other traces that have to do with it.
            started_ns: when it began, Unix time in nanoseconds; None: now.
        """
        ...


class _Nothing:
    """A span that is not kept, and what makes it."""

    trace = NO_TRACE

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def set(self, *_: Any) -> None:
        """Keep nothing."""

    def fail(self, *_: Any, **__: Any) -> None:
        """Keep nothing."""

    def span(self, *_: Any, **__: Any) -> "_Nothing":
        return self


_NOTHING = _Nothing()
NO_TRACER: Tracer = _NOTHING
"""Keeps nothing."""


def fail_with(span: Span, error: BaseException) -> None:
    """Say that *error* ended the work of *span*: by its type, or by a rejection's code."""
    if isinstance(error, Rejected):
        span.fail(error.code, is_fault=False)
    else:
        orderly = isinstance(error, MadeWay | OutOfTurn)
        span.fail(type(error).__name__, is_fault=not orderly)
