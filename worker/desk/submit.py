"""Send letters: several batches at once, each noted in the journal as soon as it is taken."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from worker.desk.journal import Journal
from worker.desk.letters import Asked, Letter, batches
from worker.desk.mailbox import Mailbox, send_all
from worker.desk.sources import Skipped, SourceDocument
from worker.errors import Bug
from worker.ports import Documents

_BATCHES_AT_ONCE = 4


@dataclass(slots=True)
class Submission:
    """What became of the documents so far.

    Attributes:
        sent: tickets that the queue took now.
        known: tickets that it had taken before.
        uploaded: documents that went to S3.
        skipped: what was not sent, and why.
        size_bytes: of what was sent.
    """

    sent: int = 0
    known: int = 0
    uploaded: int = 0
    size_bytes: int = 0
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Submitter:
    """Submits documents to one queue.

    Attributes:
        mailbox: the queue.
        journal: of what was sent.
        asked: what is asked about each document.
        documents: where large documents go; None when nothing can be large.
        on_step: told that so many more documents are done.
        stopping: set to end after the batches in flight.
    """

    mailbox: Mailbox
    journal: Journal
    asked: Asked
    documents: Documents | None
    on_step: Callable[[int], None]
    stopping: asyncio.Event
    result: Submission = field(default_factory=Submission, init=False)

    async def run(self, found: Iterator[SourceDocument | Skipped]) -> Submission:
        """Submit all documents, in order where the queue keeps one.

        Raises:
            AwsUnavailable: calls fail again and again; what was sent is in the journal.
            AwsUnusable: queue or bucket cannot be used.
        """
        waiting = batches(self._letters(found))
        in_order = self.asked.is_fifo and self.asked.group_id is not None
        senders = [self._send_batches(waiting) for _ in range(1 if in_order else _BATCHES_AT_ONCE)]
        # Not cancelled when one fails: what is in flight is waited for and noted.
        ends = await asyncio.gather(*senders, return_exceptions=True)
        for error in ends:
            if error is not None:
                raise error
        return self.result

    async def _send_batches(self, waiting: Iterator[list[Letter]]) -> None:
        # All senders take from one iterator, which never waits.
        while not self.stopping.is_set() and (batch := next(waiting, None)):
            try:
                await self._send(batch)
            except BaseException:
                self.stopping.set()
                raise

    async def _send(self, batch: Sequence[Letter]) -> None:
        for letter in batch:
            await self._upload(letter)
        refused = await send_all(self.mailbox, batch, self._note)
        self.result.skipped += [
            Skipped(refusal.letter.name, f"the queue refused it: {refusal.code}")
            for refusal in refused
        ]
        self.on_step(len(refused))

    def _letters(self, found: Iterator[SourceDocument | Skipped]) -> Iterator[Letter]:
        for document in found:
            letter = document if isinstance(document, Skipped) else self.asked.letter(document)
            if isinstance(letter, Skipped):
                self.result.skipped.append(letter)
                self.on_step(1)
            elif self.journal.has(letter):
                self.result.known += 1
                self.on_step(1)
            else:
                yield letter

    async def _upload(self, letter: Letter) -> None:
        if letter.upload is None:
            return
        if self.documents is None:
            raise Bug("a document is to be uploaded, and S3 is not open")
        upload = letter.upload
        await self.documents.write(upload.bucket, upload.key, upload.content, upload.content_type)
        self.result.uploaded += 1

    def _note(self, letters: Sequence[Letter]) -> None:
        self.journal.add(letters)
        self.result.sent += len(letters)
        self.result.size_bytes += sum(letter.size_bytes for letter in letters)
        self.on_step(len(letters))
