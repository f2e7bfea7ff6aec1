"""Leave out log lines of work that went well, by a share; what failed is always told."""

import zlib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog

_IDS = ("ticket_id", "message_id", "request_id")
_LINES = 1 << 32


@dataclass(frozen=True, slots=True)
class Sampler:
    """A structlog processor.

    Which tickets are told depends on their ids alone, so that a ticket which comes again, or asks
    again elsewhere, is told again.

    Attributes:
        share: of the tickets and requests that went well, how many are told.
    """

    share: float

    def __call__(
        self, _: Any, __: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Return *event*.

        Raises:
            structlog.DropEvent: it went well, and is not one of the share.
        """
        if self.share < 1 and went_well(event) and not self._tells(event):
            raise structlog.DropEvent
        return event

    def _tells(self, event: Mapping[str, Any]) -> bool:
        name = next((str(event[name]) for name in _IDS if name in event), "")
        return zlib.crc32(name.encode("utf-8", "surrogatepass")) < self.share * _LINES


def went_well(event: Mapping[str, Any]) -> bool:
    """Return whether an event is the end of a ticket or a request with nothing wrong."""
    if event["event"] == "delivery_finished":
        return event.get("result") == "decided"
    return event["event"] == "request_finished" and int(event.get("status", 500)) < 400
