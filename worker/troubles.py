"""The last warnings and errors of this process, for those who watch it."""

from collections import deque
from collections.abc import Mapping, MutableMapping
from typing import Any

_KEPT = 10
_kept: deque[dict[str, str]] = deque(maxlen=_KEPT)  # append is atomic: any thread may log


def note_trouble(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Keep an event's name, level and time if it is a warning or worse; a structlog processor.

    Nothing else of it is kept: what an error says is for the log.
    """
    if event.get("level") not in (None, "debug", "info"):
        _kept.append(
            {
                "event": str(event["event"]),
                "level": str(event["level"]),
                "at": str(event["timestamp"]).partition(".")[0],
            }
        )
    return event


def last_troubles() -> list[dict[str, str]]:
    """Return the last warnings and errors, the oldest first."""
    return list(_kept)
