"""Unwrap a message: an SNS envelope first, then a pointer into S3. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.errors import Rejected
from worker.queue.locations import Location

POINTER_CLASSES = (
    "software.amazon.payloadoffloading.PayloadS3Pointer",
    "com.amazon.sqs.javamessaging.MessageS3Pointer",
)
"""How AWS's extended clients mark a body that lies in S3: the current name, then the older one."""

SIZE_ATTRIBUTES = ("ExtendedPayloadSize", "SQSLargePayloadSize")
"""The attribute that carries the size of such a body in bytes: current, then older name."""

_TEXT_ATTRIBUTES = ("String", "Number", "String.Array")
_TICKET_FIELDS = frozenset({"state", "state_uri", "questions", "question_set"})


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """What a message holds.

    Attributes:
        body: the text that was sent; empty when it lies in S3.
        pointer: where the text lies instead.
        attributes: of the message and, where they differ, of the envelope in it.
    """

    body: str = field(repr=False)
    pointer: Location | None = None
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)

    def declared_bytes(self) -> int | None:
        """Return how many bytes lie in S3, as far as the sender has said so."""
        for name in SIZE_ATTRIBUTES:
            if self.attributes.get(name, "").isdecimal():
                return int(self.attributes[name])
        return None


def unwrap(body: str, attributes: Mapping[str, str] | None = None) -> Unwrapped:
    """Unwrap *body*.

    Args:
        body: of an SQS message: text, an SNS envelope, or a pointer, also one in an envelope.
        attributes: the message's own, by name; binary ones left out.

    Raises:
        Rejected: it is a pointer, but not to a place in S3.
    """
    found = dict(attributes or {})
    if (envelope := _envelope(body)) is not None:
        body = envelope["Message"]
        found.update(_text_attributes(envelope.get("MessageAttributes")))
    if (place := _pointer(body)) is not None:
        bucket, key = place.get("s3BucketName"), place.get("s3Key")
        if not isinstance(bucket, str) or not isinstance(key, str):
            raise Rejected("invalid_ticket", "the S3 pointer names no bucket and key")
        return Unwrapped("", Location.checked(bucket, key, ""), found)
    return Unwrapped(body, attributes=found)


def pointer_body(location: Location) -> str:
    """Return the body that stands for a text at *location*, as AWS's extended clients write it."""
    place = {"s3BucketName": location.bucket, "s3Key": location.key}
    return json.dumps([POINTER_CLASSES[0], place], ensure_ascii=False)


def _envelope(body: str) -> dict[str, Any] | None:
    # Looked for before it is parsed: most bodies are tickets, and some of them large.
    if '"TopicArn"' not in body or '"Notification"' not in body:
        return None
    tree = _json(body)
    is_envelope = (
        isinstance(tree, dict)
        and tree.get("Type") == "Notification"
        and str(tree.get("TopicArn")).startswith("arn:")
        and isinstance(tree.get("MessageId"), str)
        and isinstance(tree.get("Message"), str)
        and not _TICKET_FIELDS & tree.keys()
    )
    return tree if is_envelope else None


def _pointer(body: str) -> dict[str, Any] | None:
    # A ticket is an object, so an array that begins with such a name is nothing else.
    if not body.lstrip().startswith("["):
        return None
    tree = _json(body)
    if not isinstance(tree, list) or len(tree) != 2 or tree[0] not in POINTER_CLASSES:
        return None
    return tree[1] if isinstance(tree[1], dict) else {}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # whoever parses the ticket says what is wrong
        return None


def _text_attributes(tree: Any) -> dict[str, str]:
    if not isinstance(tree, dict):
        return {}
    return {
        name: entry["Value"]
        for name, entry in tree.items()
        if isinstance(entry, dict)
        and entry.get("Type") in _TEXT_ATTRIBUTES
        and isinstance(entry.get("Value"), str)
    }
