"""Dead letters: why each one died, and the letter that sends it back. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from worker.desk.letters import Letter
from worker.desk.mailbox import Received

REDRIVEN = "redriven"
"""The reason of a message that the queue itself gave up, after too many receipts."""

OTHER = "other"
"""The reason of a message whose reason is not one of ours, and therefore not shown."""

CODE = "code"
REASON_ATTRIBUTES = frozenset({CODE, "where", "message"})
"""What the worker adds to a message that it dead-letters."""

# Ours look so; whatever else is written there may be anybody's text.
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters with one reason.

    Attributes:
        count: how many.
        oldest_at: when the oldest was sent, Unix time in seconds.
        newest_at: when the newest was sent.
    """

    reason: str
    count: int
    oldest_at: float
    newest_at: float


def reason_of(message: Received) -> str:
    """Return why *message* is a dead letter, as a word that is safe to show."""
    code = message.texts().get(CODE)
    if code is None:
        return REDRIVEN
    return code if _CODE.fullmatch(code) else OTHER


def group_letters(messages: Iterable[Received]) -> list[Group]:
    """Group dead letters by reason, the most frequent first; a message counts once."""
    by_reason: dict[str, dict[str, float]] = {}
    for message in messages:
        by_reason.setdefault(reason_of(message), {})[message.message_id] = message.sent_at
    groups = [
        Group(reason, len(sent), min(sent.values()), max(sent.values()))
        for reason, sent in by_reason.items()
    ]
    return sorted(groups, key=lambda group: (-group.count, group.reason))


def is_chosen(message: Received, reasons: Sequence[str] | None) -> bool:
    """Say whether *message* has one of *reasons*; None chooses all."""
    return reasons is None or reason_of(message) in reasons


def letter_back(message: Received, *, is_fifo: bool) -> Letter:
    """Return the letter that sends *message* back as it first was, without its reason."""
    attributes: Mapping[str, object] = message.attributes
    if CODE in attributes:
        attributes = {
            name: value for name, value in attributes.items() if name not in REASON_ATTRIBUTES
        }
    kept = {name: _sendable(value) for name, value in attributes.items()}
    return Letter(
        message.message_id,
        "",
        message.body,
        len(message.body.encode()) + sum(map(_size_bytes, kept.items())),
        attributes=kept,
        group_id=message.group_id or (message.message_id if is_fifo else None),
        # The dead letter's own id: a second redrive of it is dropped, another death is not.
        deduplication_id=message.message_id if is_fifo else None,
    )


def _sendable(value: object) -> dict[str, object]:
    # SQS answers with empty lists beside the value, and takes none.
    found = dict(value) if isinstance(value, Mapping) else {}
    return {
        name: found[name] for name in ("DataType", "StringValue", "BinaryValue") if name in found
    }


def _size_bytes(attribute: tuple[str, Mapping[str, object]]) -> int:
    name, parts = attribute
    texts = [part if isinstance(part, bytes) else str(part).encode() for part in parts.values()]
    return len(name.encode()) + sum(map(len, texts))
