"""Gather what is sent at about the same time, and send it in one call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

MOST_ENTRIES = 10
"""The most entries of one SQS or SNS batch call."""

GATHERING_SECONDS = 0.01
"""How long an entry may wait for company: next to nothing beside an evaluation."""

Entry = TypeVar("Entry")


@dataclass(eq=False, slots=True)
class _Waiting(Generic[Entry]):
    entry: Entry
    size_bytes: int
    sent: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Batches(Generic[Entry]):
    """Sends entries in batches, and tells each what became of it.

    A batch goes when it is full by count or bytes, or a short time after its first entry.

    Args:
        send: makes one call; returns, for each entry in order, the error it failed with or None;
            what it raises is every entry's.
        most_bytes: of a batch's entries together.
        wait_seconds: how long an entry waits for others.
        is_anothers: whether a call may have failed because of one of its entries; they then go
            one by one, so that the guilty one harms no other.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Entry]], Awaitable[Sequence[Exception | None]]],
        *,
        most_bytes: int = 0,
        wait_seconds: float = GATHERING_SECONDS,
        is_anothers: Callable[[Exception], bool] = lambda _: False,
    ) -> None:
        self._send = send
        self._most_bytes = most_bytes
        self._wait_seconds = wait_seconds
        self._is_anothers = is_anothers
        self._waiting: list[_Waiting[Entry]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def add(self, entry: Entry, size_bytes: int = 0) -> None:
        """Send *entry* with others; return once it is accepted.

        A caller that is cancelled before the batch goes takes its entry back.

        Raises:
            Exception: what the call, or this entry of it, failed with.
        """
        gathered = sum(other.size_bytes for other in self._waiting)
        if self._waiting and gathered + size_bytes > self._most_bytes:
            self._flush()
        waiting = _Waiting(entry, size_bytes)
        self._waiting.append(waiting)
        if len(self._waiting) >= MOST_ENTRIES:
            self._flush()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._wait_seconds, self._flush)
        try:
            await waiting.sent
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    async def close(self) -> None:
        """Wait for the calls that are under way."""
        self._flush()
        await asyncio.gather(*self._under_way)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        if batch:
            task = asyncio.create_task(self._send_batch(batch))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _send_batch(self, batch: list[_Waiting[Entry]]) -> None:
        # A loop that stood still runs this first and lets its callers' deadlines pass just after.
        batch = [waiting for waiting in batch if not waiting.sent.done()]
        if not batch:
            return
        found = await self._try([waiting.entry for waiting in batch])
        if len(batch) > 1 and isinstance(found, Exception) and self._is_anothers(found):
            await self._send_one_by_one(batch)
            return
        faults = [found] * len(batch) if isinstance(found, Exception) else found
        for waiting, fault in zip(batch, faults, strict=True):
            _tell(waiting, fault)

    async def _send_one_by_one(self, batch: list[_Waiting[Entry]]) -> None:
        for waiting in batch:
            if waiting.sent.done():
                continue  # its caller was cancelled: nothing is sent for it any more
            found = await self._try([waiting.entry])
            _tell(waiting, found if isinstance(found, Exception) else found[0])

    async def _try(self, entries: Sequence[Entry]) -> Sequence[Exception | None] | Exception:
        try:
            return await self._send(entries)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            return error


def _tell(waiting: _Waiting[Entry], fault: Exception | None) -> None:
    if waiting.sent.done():
        return  # its caller was cancelled meanwhile
    if fault is None:
        waiting.sent.set_result(None)
    else:
        waiting.sent.set_exception(fault)
