"""Configure structured logs. No event ever carries text of a ticket."""

import logging
import sys
from contextlib import suppress
from typing import Any, Literal, TextIO, cast

import structlog

from worker.troubles import note_trouble

LogFormat = Literal["auto", "json", "console"]


class _Forgiving:
    """Standard error, for events: one that cannot be written must not stop the work it tells of."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def configure_log(level: str, log_format: LogFormat) -> None:
    """Write events to stderr.

    Args:
        level: the least severe level that is written, such as ``info``.
        log_format: ``auto`` means console on a terminal, JSON elsewhere.
    """
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    # No local variables in tracebacks: they hold tickets.
    renderer: Any = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            note_trouble,
            *([] if console else [_structured_exceptions()]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Forgiving())),
        cache_logger_on_first_use=True,
    )
    # aiohttp's logs what it cannot parse, which is the caller's text.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL + 1)
    # What libraries log through the standard library is shown from warning on.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(name)s: %(message)s")


def _structured_exceptions() -> Any:
    return structlog.processors.ExceptionRenderer(
        structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    )
