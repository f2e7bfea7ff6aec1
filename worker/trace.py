"""The trace that a message belongs to, carried on to its outcome. Pure.

Source of the formats: W3C Trace Context (https://www.w3.org/TR/trace-context/), and X-Ray's header
(https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from worker.decision.attributes import Attribute

_PARENT = "traceparent"
_STATE = "tracestate"
NAMES = (_PARENT, _STATE)
"""The message attributes that carry a trace."""

AWS_HEADER: Final = "AWSTraceHeader"
"""The system attribute of SQS that carries X-Ray's."""

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")
_ROOT = re.compile(r"(?:^|;)Root=1-([0-9a-f]{8})-([0-9a-f]{24})(?:;|$)")
_SPAN = re.compile(r"(?:^|;)Parent=([0-9a-f]{16})(?:;|$)")


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a message belongs.

    Attributes:
        parent: a ``traceparent``; empty when the message has none that is valid.
        state: its ``tracestate``, or nothing.
        aws_header: X-Ray's header as it came, or nothing.
    """

    parent: str = ""
    state: str = ""
    aws_header: str = ""

    def __bool__(self) -> bool:
        return bool(self.parent)

    @property
    def trace_id(self) -> str | None:
        """The trace's id, for logs."""
        match = _TRACEPARENT.fullmatch(self.parent)
        return match["trace"] if match else None

    def attributes(self) -> dict[str, Attribute]:
        """Return the message attributes that carry it on: two at most."""
        found = {_PARENT: self.parent, _STATE: self.state}
        return {name: Attribute("String", value) for name, value in found.items() if value}


NO_TRACE = Trace()


def read_trace(attributes: Mapping[str, str], aws_header: str = "") -> Trace:
    """Return the trace that a message's attributes tell of.

    What is not valid is dropped, as the specification asks. X-Ray's header stands in for a missing
    ``traceparent``: its ids are the same in another notation.

    Args:
        attributes: of the message, and of an SNS envelope in it.
        aws_header: the value of :data:`AWS_HEADER`.
    """
    parent = attributes.get(_PARENT, "")
    if not _TRACEPARENT.fullmatch(parent):
        return Trace(_from_x_ray(aws_header), aws_header=aws_header)
    state = attributes.get(_STATE, "")
    return Trace(parent, state if _TRACESTATE.fullmatch(state) else "", aws_header)


def _from_x_ray(header: str) -> str:
    root, span = _ROOT.search(header), _SPAN.search(header)
    if root is None or span is None:
        return ""
    sampled = "01" if "Sampled=1" in header.split(";") else "00"
    parent = f"00-{root[1]}{root[2]}-{span[1]}-{sampled}"
    return parent if _TRACEPARENT.fullmatch(parent) else ""
