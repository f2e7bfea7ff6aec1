"""Open a delivery: from the message's body to a ticket that carries its state itself."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from worker import metrics
from worker.decision.ticket import LARGE_BODY, Ticket, parse_ticket
from worker.errors import Rejected
from worker.ports import Delivery, Document, Documents
from worker.queue.contents import document_state, document_text, too_large
from worker.queue.envelope import Unwrapped, unwrap
from worker.queue.locations import AllowList, Location

_STATE = "state_uri"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Bookcase:
    """The documents that tickets may name.

    Attributes:
        documents: where they are read.
        allowed: which of them.
        max_bytes: the largest, packed and unpacked.
    """

    documents: Documents
    allowed: AllowList
    max_bytes: int

    async def read(
        self, location: Location, where: str, *, declared_bytes: int | None = None
    ) -> Document:
        """Read one document that may be read.

        Raises:
            Rejected: not allowed, too large, or gone.
            AwsUnavailable: not now.
        """
        try:
            self.allowed.check(location, where)
        except Rejected:
            metrics.DOCUMENTS.labels("refused").inc()
            raise
        if declared_bytes is not None and declared_bytes > self.max_bytes:
            metrics.DOCUMENTS.labels("too_large").inc()
            raise too_large(self.max_bytes, where)
        return await self.documents.read(
            location.bucket, location.key, max_bytes=self.max_bytes, where=where
        )


@dataclass(frozen=True, slots=True)
class Opener:
    """Turns deliveries into tickets.

    Attributes:
        max_body_bytes: the largest ticket to accept in a message.
        bookcase: for what lies in S3; None when no bucket is allowed.
    """

    max_body_bytes: int
    bookcase: Bookcase | None = None

    async def unwrap(self, delivery: Delivery) -> Unwrapped:
        """Take an SNS envelope off, and see whether the ticket lies in S3.

        Raises:
            Rejected: it is a pointer, but not to a place in S3.
        """
        # A large body takes a while: not on the loop. One that is too large is refused at once.
        elsewhere = LARGE_BODY < len(delivery.body) <= self._most_bytes()
        take_off = partial(unwrap, delivery.body, delivery.attributes)
        return await _run(take_off, in_thread=elsewhere)

    async def ticket(self, delivery: Delivery, found: Unwrapped) -> Ticket:
        """Parse the ticket that was *found* in *delivery*: in its body, or in S3.

        Raises:
            Rejected: there is no valid ticket, or it may not be read.
            AwsUnavailable: S3 does not give it now.
        """
        if found.pointer is None:
            body, max_bytes = found.body, self.max_body_bytes
        else:
            body, max_bytes = await self._fetch(found, found.pointer), self._most_bytes()
        parse = partial(parse_ticket, body, default_id=delivery.message_id, max_bytes=max_bytes)
        return await _run(parse, in_thread=LARGE_BODY < len(body) <= max_bytes)

    async def with_state(self, ticket: Ticket) -> Ticket:
        """Return *ticket* with the document that its ``state_uri`` names as its state.

        Raises:
            Rejected: the document is gone, may not be read, is too large, or is no text.
            AwsUnavailable: S3 does not give it now.
        """
        if ticket.state_uri is None or self.bookcase is None:
            return ticket
        location = Location.parse(ticket.state_uri, _STATE)
        document = await self.bookcase.read(location, _STATE)
        read = partial(document_state, document, max_bytes=self.bookcase.max_bytes, where=_STATE)
        state = await _run(read, in_thread=len(document.content) > LARGE_BODY)
        return ticket.model_copy(update={"state": state, "state_uri": None})

    async def _fetch(self, found: Unwrapped, pointer: Location) -> str:
        if self.bookcase is None:
            raise Rejected(
                "bucket_not_allowed",
                "the ticket lies in S3, and no bucket is allowed on this worker (--allow-bucket)",
            )
        size = found.declared_bytes()
        document = await self.bookcase.read(pointer, "", declared_bytes=size)
        read = partial(document_text, document, max_bytes=self.bookcase.max_bytes, where="")
        return await _run(read, in_thread=len(document.content) > LARGE_BODY)

    def _most_bytes(self) -> int:
        return self.max_body_bytes if self.bookcase is None else self.bookcase.max_bytes


async def _run(function: Callable[[], Result], *, in_thread: bool) -> Result:
    return await asyncio.to_thread(function) if in_thread else function()
