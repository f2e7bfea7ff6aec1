"""Configure structured logs. No event ever carries text of a ticket."""

import logging
import sys
from contextlib import suppress
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import ExcInfo

from worker.faults import fault_parts, fault_text
from worker.sampling import Sampler
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


def configure_log(level: str, log_format: LogFormat, share: float = 1.0) -> None:
    """Write events to stderr.

    Args:
        level: the least severe level that is written, such as ``info``.
        log_format: ``auto`` means console on a terminal, JSON elsewhere.
        share: of the tickets and requests that go well, how many are told of.
    """
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(exception_formatter=_write_fault)
        if console
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            Sampler(share),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            note_trouble,
            *([] if console else [structlog.processors.ExceptionRenderer(_fault_of)]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Forgiving())),
        cache_logger_on_first_use=True,
    )
    # aiohttp's logs what it cannot parse, which is the caller's text.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL + 1)
    # What libraries log through the standard library is shown from warning on.
    handler = logging.StreamHandler(cast("TextIO", _Forgiving()))
    handler.setFormatter(_Discreet("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _fault_of(exc_info: ExcInfo) -> Any:
    return fault_parts(exc_info[1])


def _write_fault(stream: TextIO, caught: ExcInfo) -> None:
    stream.write("\n" + fault_text(caught[1]))


class _Discreet(logging.Formatter):
    """Words what libraries log; of an exception without what it says."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return fault_text(ei[1])
