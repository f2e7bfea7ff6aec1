"""Outcomes over the topic's limit: the text goes to S3, a pointer to it is published."""

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from worker.decision.attributes import Attribute
from worker.ports import Documents, Publisher
from worker.queue.envelope import SIZE_ATTRIBUTES, pointer_body
from worker.queue.locations import Location, Prefix

MOST_ATTRIBUTES = 10
"""Raw delivery to SQS drops a message that has more."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OffloadingPublisher:
    """A publisher that takes outcomes of any size, in the format of AWS's extended clients.

    Attributes:
        publisher: for what fits, and for pointers.
        documents: where large outcomes are written.
        place: bucket and prefix.
        max_bytes: the most that the topic takes, attributes included.
    """

    publisher: Publisher
    documents: Documents
    place: Prefix
    max_bytes: int

    async def publish(
        self,
        message: str,
        attributes: Mapping[str, Attribute],
        *,
        outcome_id: str,
        group_id: str | None,
    ) -> None:
        """Publish one outcome; see :class:`worker.ports.Publisher`.

        A large one lies in S3 before its pointer is published; a repeat is the same object.
        """
        if message_bytes(message, attributes) > self.max_bytes:
            content = message.encode()
            where = Location(self.place.bucket, self.place.key(f"{outcome_id}.json"))
            await self.documents.write(where.bucket, where.key, content, "application/json")
            message = pointer_body(where)
            attributes = pointer_attributes(attributes, len(content))
            _log.info("outcome_offloaded", size_bytes=len(content), bucket=where.bucket)
        await self.publisher.publish(message, attributes, outcome_id=outcome_id, group_id=group_id)


def message_bytes(message: str, attributes: Mapping[str, Attribute]) -> int:
    """Return the size of a message as SNS counts it: names, types and values too."""
    return len(message.encode()) + sum(
        len(name.encode()) + len(attribute.type) + len(attribute.value.encode())
        for name, attribute in attributes.items()
    )


def pointer_attributes(
    attributes: Mapping[str, Attribute], size_bytes: int
) -> dict[str, Attribute]:
    """Return *attributes* with the size of what lies in S3, which takes one of the ten places.

    Whoever finds that attribute knows the body for a pointer, so it comes before the last answers.
    """
    kept = dict(attributes)
    answers = [name for name in kept if name.startswith("answer.")]
    while len(kept) >= MOST_ATTRIBUTES and answers:
        del kept[answers.pop()]
    return kept | {SIZE_ATTRIBUTES[0]: Attribute("Number", str(size_bytes))}
