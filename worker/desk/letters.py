"""Letters for a queue: one ticket each, in batches that SQS takes. Pure."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.decision.outcome import FORBIDDEN
from worker.decision.ticket import parse_ticket
from worker.desk.sources import Skipped, SourceDocument
from worker.errors import Rejected
from worker.queue.locations import Prefix

MOST_ENTRIES = 10
MOST_BYTES = 1_048_576
"""What one message, and one batch, may have at most."""

_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in FORBIDDEN}


@dataclass(frozen=True, slots=True)
class Upload:
    """A document that goes to S3 before its letter is sent."""

    bucket: str
    key: str
    content: bytes = field(repr=False)
    content_type: str


@dataclass(frozen=True, slots=True)
class Letter:
    """One message to send.

    Attributes:
        name: of what it was made of, for messages.
        ticket_id: of its ticket.
        body: its text.
        size_bytes: of body and attributes.
        upload: what must lie in S3 first.
        attributes: SQS message attributes, as SQS has them.
        group_id: its message group.
        deduplication_id: by which a FIFO queue drops repeats.
    """

    name: str
    ticket_id: str
    body: str = field(repr=False)
    size_bytes: int
    upload: Upload | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    group_id: str | None = None
    deduplication_id: str | None = None

    def sha256(self) -> str:
        """Return the hash of the body, which tells a changed document from the one before."""
        return hashlib.sha256(self.body.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked about every document.

    Attributes:
        fields: of every ticket: ``questions`` or ``question_set``, and ``metadata``.
        max_bytes: the largest body that the queue takes.
        bucket: where larger documents go; None skips them.
        group_id: the message group of all letters.
        is_fifo: whether the queue is a FIFO queue, on which each letter is a group of its own
            unless one is given.
    """

    fields: Mapping[str, Any]
    max_bytes: int = MOST_BYTES
    bucket: Prefix | None = None
    group_id: str | None = None
    is_fifo: bool = False

    def letter(self, document: SourceDocument) -> Letter | Skipped:
        """Return the letter that asks about *document*."""
        body = self._body(document.ticket_id, {"state": document.state})
        upload = None
        size = len(body.encode())
        if size > self.max_bytes:
            if self.bucket is None:
                reason = f"its ticket has {size} bytes, the queue takes {self.max_bytes}: --bucket"
                return Skipped(document.name, reason)
            upload = _upload(document, self.bucket)
            uri = f"s3://{upload.bucket}/{upload.key}"
            body = self._body(document.ticket_id, {"state_uri": uri})
            size = len(body.encode())
        try:
            parse_ticket(body)
        except Rejected as fault:  # such as a document that is nested too deeply
            return Skipped(document.name, fault.message)
        letter_id = hashlib.sha256(body.encode()).hexdigest() if self.is_fifo else None
        group_id = self.group_id or (letter_id if self.is_fifo else None)
        return Letter(
            document.name,
            document.ticket_id,
            body,
            size,
            upload,
            group_id=group_id,
            deduplication_id=letter_id,
        )

    def _body(self, ticket_id: str, state: Mapping[str, Any]) -> str:
        tree = {"ticket_id": ticket_id, **state, **self.fields}
        text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.translate(_ESCAPES)


def batches(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Group *letters*, in order, into batches of at most ten, and at most a mebibyte together."""
    batch: list[Letter] = []
    size = 0
    for letter in letters:
        if batch and (len(batch) == MOST_ENTRIES or size + letter.size_bytes > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += letter.size_bytes
    if batch:
        yield batch


def _upload(document: SourceDocument, bucket: Prefix) -> Upload:
    """Name the object by its content: the same document is the same object, and no name tells."""
    if isinstance(document.state, str):
        content, suffix, content_type = document.state.encode(), "txt", "text/plain; charset=utf-8"
    else:
        text = json.dumps(document.state, ensure_ascii=False, separators=(",", ":"))
        content, suffix, content_type = text.encode(), "json", "application/json"
    key = bucket.key(f"{hashlib.sha256(content).hexdigest()}.{suffix}")
    return Upload(bucket.bucket, key, content, content_type)
