"""Our fake of a queue as desk work sees it: it hides what it hands out, and fails on request."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.fakes import AT_ONCE, Faults, Journal
from worker.desk.letters import MOST_BYTES, Letter
from worker.desk.mailbox import Received, Refusal


@dataclass
class FakeMailbox:
    """A queue in memory.

    Attributes:
        refusals: for each send in turn, the code and finality with which entries are refused, by
            their place.
        sent: what was taken, in order.
        messages: what is on the queue: when it is visible, and the message.
    """

    journal: Journal = field(default_factory=Journal)
    faults: Faults = field(default_factory=Faults)
    refusals: deque[dict[int, tuple[str, bool]]] = field(default_factory=deque)
    undeletable: set[str] = field(default_factory=set)
    sent: list[Letter] = field(default_factory=list)
    messages: dict[str, tuple[float, Received]] = field(default_factory=dict)
    name: str = "queue"
    _receipts: int = 0
    _arrivals: int = 0

    def put(self, message: Received) -> None:
        self.messages[message.message_id] = (0.0, message)

    def bodies(self) -> list[str]:
        return [message.body for _, message in self.messages.values()]

    def visible(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        return [name for name, (at, _) in self.messages.items() if at <= now]

    async def send(self, letters: Sequence[Letter]) -> Sequence[Refusal]:
        self.journal.add("send", self.name, tuple(letter.ticket_id for letter in letters))
        assert 1 <= len(letters) <= AT_ONCE
        assert sum(letter.size_bytes for letter in letters) <= MOST_BYTES
        await asyncio.sleep(0)
        await self.faults.meet("send")
        refused = self.refusals.popleft() if self.refusals else {}
        for index, letter in enumerate(letters):
            if index not in refused:
                self.sent.append(letter)
                self._arrivals += 1
                self.put(
                    Received(
                        f"{self.name}-{self._arrivals}",
                        "",
                        letter.body,
                        letter.attributes,
                        letter.group_id,
                    )
                )
        return [Refusal(letters[index], *reason) for index, reason in refused.items()]

    async def receive(self, *, wait_seconds: int, hide_seconds: int) -> Sequence[Received]:
        self.journal.add("receive", self.name)
        await self.faults.meet("receive")
        if not self.visible():
            await asyncio.sleep(wait_seconds)
        found = []
        for message_id in self.visible()[:AT_ONCE]:
            self._receipts += 1
            _, message = self.messages[message_id]
            handed = replace(message, receipt_handle=f"{message_id}#{self._receipts}")
            hidden_until = asyncio.get_running_loop().time() + hide_seconds
            self.messages[message_id] = (hidden_until, handed)
            found.append(handed)
        return found

    async def delete(self, messages: Sequence[Received]) -> int:
        self.journal.add("delete", self.name, tuple(message.message_id for message in messages))
        assert 1 <= len(messages) <= AT_ONCE
        await self.faults.meet("delete")
        left = 0
        for message in messages:
            if message.message_id in self.undeletable:
                left += 1
            else:
                self.messages.pop(message.message_id, None)
        return left

    async def release(self, messages: Sequence[Received]) -> None:
        self.journal.add("release", self.name, tuple(message.message_id for message in messages))
        assert 1 <= len(messages) <= AT_ONCE
        for message in messages:
            _, kept = self.messages[message.message_id]
            assert kept.receipt_handle == message.receipt_handle
            self.messages[message.message_id] = (0.0, kept)
