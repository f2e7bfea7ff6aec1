"""Collect outcomes from a subscriber queue until all that were submitted are in."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from worker.desk.mailbox import Mailbox, Received
from worker.desk.outcomes import Outcome, OutcomeFile, parse_outcome
from worker.errors import AwsUnavailable, Rejected
from worker.queue.contents import document_text
from worker.queue.envelope import unwrap
from worker.queue.opening import Bookcase

_WAIT_SECONDS = 5
_HIDE_SECONDS = 120
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass(slots=True)
class Collection:
    """What was found so far.

    Attributes:
        written: outcomes that were written now.
        repeats: outcomes that were there already; they are deleted.
        others: message ids of outcomes of other tickets; they are left on the queue.
        unreadable: message ids of what is no outcome, or lies where it may not or cannot be read.
        fault: why the last call to the queue failed, when it did.
    """

    written: int = 0
    repeats: int = 0
    others: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    fault: str | None = None


@dataclass(eq=False, slots=True)
class Collector:
    """Collects outcomes from one queue.

    Attributes:
        mailbox: the queue.
        file: where outcomes go.
        submitted: the tickets to wait for.
        bookcase: for outcomes that lie in S3; None when no bucket is allowed.
        timeout_seconds: how long to go on when no outcome comes.
        on_step: told how many more of the submitted tickets are in.
        stopping: set to end after the poll in flight.
    """

    mailbox: Mailbox
    file: OutcomeFile
    submitted: set[str]
    bookcase: Bookcase | None
    timeout_seconds: float
    on_step: Callable[[int], None]
    stopping: asyncio.Event
    result: Collection = field(default_factory=Collection, init=False)
    _failed_polls: int = field(default=0, init=False)

    def missing(self) -> set[str]:
        """Return the submitted tickets without an outcome."""
        return self.submitted - self.file.ticket_ids

    async def run(self) -> Collection:
        """Collect until nothing is missing, nothing comes any more, or the stop.

        Raises:
            AwsUnusable: the queue cannot be used.
        """
        loop = asyncio.get_running_loop()
        self.on_step(len(self.submitted) - len(self.missing()))
        heard_at = loop.time()
        while self.missing() and not self.stopping.is_set():
            if await self._take():
                heard_at = loop.time()
            elif loop.time() - heard_at >= self.timeout_seconds:
                break
        return self.result

    async def _take(self) -> bool:
        """Receive once, write what is new, then delete; say whether there was an outcome of ours.

        A call that fails is not the end: what was not deleted comes back as a repeat.
        """
        try:
            messages = await self.mailbox.receive(
                wait_seconds=_WAIT_SECONDS, hide_seconds=_HIDE_SECONDS
            )
            self.result.fault, self._failed_polls = None, 0
            ours = [
                (message, outcome)
                for message in messages
                if (outcome := await self._open(message)) is not None
            ]
            if not ours:
                return False
            self._write([outcome for _, outcome in ours])
            await self.mailbox.delete([message for message, _ in ours])
        except AwsUnavailable as error:
            self.result.fault = str(error)
            await self._pause()
            return False
        return True

    async def _open(self, message: Received) -> Outcome | None:
        """Return the outcome in *message* when it is of a submitted ticket."""
        try:
            outcome = parse_outcome(await self._text(message))
        except (Rejected, AwsUnavailable):
            outcome = None
        if outcome is None:
            self.result.unreadable.add(message.message_id)
            return None
        self.result.unreadable.discard(message.message_id)
        if outcome["ticket_id"] not in self.submitted:
            self.result.others.add(message.message_id)
            return None
        return outcome

    async def _text(self, message: Received) -> str:
        found = unwrap(message.body, message.texts())
        if found.pointer is None:
            return found.body
        if self.bookcase is None:
            raise Rejected("bucket_not_allowed", "the outcome lies in S3")
        size = found.declared_bytes()
        document = await self.bookcase.read(found.pointer, "", declared_bytes=size)
        return document_text(document, max_bytes=self.bookcase.max_bytes, where="")

    def _write(self, outcomes: Sequence[Outcome]) -> None:
        missing = len(self.missing())
        new = self.file.add(outcomes)
        self.result.written += new
        self.result.repeats += len(outcomes) - new
        self.on_step(missing - len(self.missing()))

    async def _pause(self) -> None:
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**self._failed_polls)
        self._failed_polls = min(self._failed_polls + 1, 16)
        try:
            async with asyncio.timeout(longest):
                await self.stopping.wait()
        except TimeoutError:
            return
