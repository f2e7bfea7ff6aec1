"""Our own fakes of the ports: honest, inspectable, and able to fail on request."""

import asyncio
import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from worker.decision.attributes import Attribute
from worker.decision.scores import Reading
from worker.decision.text import PromptText
from worker.errors import AwsUnavailable, Rejected
from worker.ports import Branch, Delivery, Document, Evaluation, Lane, Reply
from worker.queue.contents import too_large

AT_ONCE = 10
"""The most messages of one call to SQS."""


@dataclass
class Journal:
    """What was asked of the fakes that share it, in order."""

    entries: list[tuple[Any, ...]] = field(default_factory=list)
    _added: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def add(self, *entry: Any) -> None:
        self.entries.append(entry)
        self._added.set()

    def of(self, *beginning: Any) -> list[tuple[Any, ...]]:
        """Return the entries that begin so."""
        return [entry for entry in self.entries if entry[: len(beginning)] == beginning]

    def named(self, *operations: str) -> list[tuple[Any, ...]]:
        """Return the entries of these operations, in order."""
        return [entry for entry in self.entries if entry[0] in operations]

    async def until(self, *beginning: Any, times: int = 1) -> None:
        """Wait until *times* entries begin so."""
        while len(self.of(*beginning)) < times:
            self._added.clear()
            await self._added.wait()


@dataclass
class Faults:
    """Errors to raise and gates to wait at, by operation."""

    once: dict[str, deque[Exception]] = field(default_factory=lambda: defaultdict(deque))
    always: dict[str, Exception] = field(default_factory=dict)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)

    async def meet(self, operation: str) -> None:
        if gate := self.gates.get(operation):
            await gate.wait()
        if self.once[operation]:
            raise self.once[operation].popleft()
        if error := self.always.get(operation):
            raise error


@dataclass
class Message:
    """One message of a FakeInbox."""

    message_id: str
    body: str = field(repr=False)
    visible_at: float
    sent_at: float
    group_id: str | None
    attributes: Mapping[str, str]
    trace_header: str
    receive_count: int = 0
    receipt_handle: str = ""


@dataclass
class FakeInbox:
    """A small queue that hides what it hands out, on the running loop's clock.

    As on AWS, each receipt has a handle of its own, and only the newest one of a message that is
    still hidden may extend, release or delete it. (moto takes stale handles, so leases are tested
    here.)
    """

    journal: Journal = field(default_factory=Journal)
    faults: Faults = field(default_factory=Faults)
    visibility_seconds: int = 30
    wait_seconds: float = 5
    messages: dict[str, Message] = field(default_factory=dict)
    dead_letters: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    cancelled_polls: int = 0
    most_in_flight: int = 0
    _sent: int = 0
    _arrived: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def put(
        self,
        body: str,
        *,
        message_id: str = "",
        group_id: str | None = None,
        attributes: Mapping[str, str] | None = None,
        trace_header: str = "",
    ) -> str:
        """Send a message; return its id."""
        now = asyncio.get_running_loop().time()
        self._sent += 1
        message_id = message_id or f"m-{self._sent}"
        self.messages[message_id] = Message(
            message_id, body, now, 0.0, group_id, attributes or {}, trace_header
        )
        self._arrived.set()
        return message_id

    def hand_to_another(self, message_id: str) -> None:
        """Let the visibility run out and another worker receive the message."""
        message = self.messages[message_id]
        message.receive_count += 1
        message.receipt_handle = f"{message_id}#{message.receive_count}"
        message.visible_at = asyncio.get_running_loop().time() + self.visibility_seconds

    async def receive(self, most: int) -> Sequence[Delivery]:
        asked_at = asyncio.get_running_loop().time()
        self.journal.add("receive", most)
        assert 1 <= most <= AT_ONCE
        try:
            await self.faults.meet("receive")
            await self._wait(asked_at + self.wait_seconds)
        except asyncio.CancelledError:
            self.cancelled_polls += 1
            raise
        deliveries = [self._hand_out(message, asked_at) for message in self._visible()[:most]]
        in_flight = len(self.messages) - len(self._visible())
        self.most_in_flight = max(self.most_in_flight, in_flight)
        return deliveries

    async def extend(self, deliveries: Sequence[Delivery], seconds: int) -> Sequence[Delivery]:
        self.journal.add("extend", tuple(delivery.message_id for delivery in deliveries), seconds)
        assert 1 <= len(deliveries) <= AT_ONCE
        await self.faults.meet("extend")
        refused = []
        for delivery in deliveries:
            if message := self._held(delivery):
                message.visible_at = asyncio.get_running_loop().time() + seconds
            else:
                refused.append(delivery)
        return refused

    async def release(self, delivery: Delivery, delay_seconds: int) -> None:
        self.journal.add("release", delivery.message_id, delay_seconds)
        await self.faults.meet("release")
        message = self._held_or_refuse(delivery)
        message.visible_at = asyncio.get_running_loop().time() + delay_seconds
        message.receipt_handle = ""
        self._arrived.set()

    async def delete(self, delivery: Delivery) -> None:
        self.journal.add("delete", delivery.message_id)
        await self.faults.meet("delete")
        del self.messages[self._held_or_refuse(delivery).message_id]

    async def dead_letter(self, delivery: Delivery, reason: Mapping[str, str]) -> None:
        self.journal.add("dead_letter", delivery.message_id)
        await self.faults.meet("dead_letter")
        self.dead_letters.append((delivery.body, dict(reason)))

    def _visible(self) -> list[Message]:
        now = asyncio.get_running_loop().time()
        return [message for message in self.messages.values() if message.visible_at <= now]

    async def _wait(self, until: float) -> None:
        while not self._visible() and asyncio.get_running_loop().time() < until:
            hidden = [message.visible_at for message in self.messages.values()]
            self._arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min([until, *hidden])):
                    await self._arrived.wait()
        await asyncio.sleep(0)  # as a network call does, even one that is answered at once

    def _hand_out(self, message: Message, asked_at: float) -> Delivery:
        self.hand_to_another(message.message_id)
        return Delivery(
            message_id=message.message_id,
            receipt_handle=message.receipt_handle,
            body=message.body,
            receive_count=message.receive_count,
            sent_at=message.sent_at,
            asked_at=asked_at,
            group_id=message.group_id,
            attributes=message.attributes,
            trace_header=message.trace_header,
        )

    def _held(self, delivery: Delivery) -> Message | None:
        message = self.messages.get(delivery.message_id)
        if message is None or message.receipt_handle != delivery.receipt_handle:
            return None
        return message if message.visible_at > asyncio.get_running_loop().time() else None

    def _held_or_refuse(self, delivery: Delivery) -> Message:
        if message := self._held(delivery):
            return message
        raise AwsUnavailable("AWS says ReceiptHandleIsInvalid")


@dataclass(frozen=True)
class Published:
    """One outcome as a subscriber sees it."""

    outcome: dict[str, Any]
    attributes: dict[str, Attribute]
    outcome_id: str
    group_id: str | None


@dataclass
class FakePublisher:
    """A topic that keeps what is published."""

    journal: Journal = field(default_factory=Journal)
    faults: Faults = field(default_factory=Faults)
    published: list[Published] = field(default_factory=list)

    async def publish(
        self,
        message: str,
        attributes: Mapping[str, Attribute],
        *,
        outcome_id: str,
        group_id: str | None,
    ) -> None:
        self.journal.add("publish", outcome_id)
        await self.faults.meet("publish")
        self.published.append(
            Published(json.loads(message), dict(attributes), outcome_id, group_id)
        )


@dataclass
class FakeDocuments:
    """Buckets that keep what is written."""

    journal: Journal = field(default_factory=Journal)
    faults: Faults = field(default_factory=Faults)
    objects: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)

    async def read(self, bucket: str, key: str, *, max_bytes: int, where: str) -> Document:
        self.journal.add("read", bucket, key)
        await self.faults.meet("read")
        if (bucket, key) not in self.objects:
            raise Rejected("document_gone", "S3 has no such object", where)
        content, content_type = self.objects[bucket, key]
        if len(content) > max_bytes:
            raise too_large(max_bytes, where)
        is_json = content_type.startswith("application/json") or content_type.endswith("+json")
        return Document(content, is_json or key.endswith((".json", ".json.gz")))

    async def write(self, bucket: str, key: str, content: bytes, content_type: str) -> None:
        self.journal.add("write", bucket, key)
        await self.faults.meet("write")
        self.objects[bucket, key] = (content, content_type)


@dataclass
class FakeEngine:
    """An engine that reads what it is told, else what the prompt's hash says.

    Attributes:
        readings: what is read at a branch, by its number of labels.
        script: for each evaluation in turn, the error it ends in, or None.
        error: what every evaluation ends in, once the script is used up.
        gate: what every evaluation waits for.
        full: what the door says to work that has not been read yet.
        stalled: seconds without progress.
        at_work: evaluations that run now.
        most_at_work: the most that ever ran at once.
        cancelled: evaluations that were given up.
    """

    journal: Journal = field(default_factory=Journal)
    readings: dict[int, Reading] = field(default_factory=dict)
    script: deque[Exception | None] = field(default_factory=deque)
    error: Exception | None = None
    gate: asyncio.Event | None = None
    full: Exception | None = None
    stalled: float = 0.0
    waiting_tokens: int = 0
    evaluations: list[Evaluation] = field(default_factory=list, repr=False)
    lanes: list[Lane] = field(default_factory=list)
    at_work: int = 0
    most_at_work: int = 0
    cancelled: int = 0

    async def score(
        self, evaluation: Evaluation, lane: Lane, deadline: float | None = None
    ) -> Reply:
        self.evaluations.append(evaluation)
        self.lanes.append(lane)
        self.journal.add("evaluate")
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await asyncio.sleep(0)  # no evaluation is done before it was waited for
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_work -= 1
        error = self.script.popleft() if self.script else self.error
        if error is not None:
            raise error
        lengths = [_length(branch.prompt) for branch in evaluation.branches]
        limit = evaluation.max_prompt_tokens
        if limit is not None and max(lengths) > limit:
            raise Rejected("prompt_too_long", f"{max(lengths)} tokens, at most {limit}")
        return Reply(
            readings=tuple(map(self._read, evaluation.branches)),
            prompt_tokens=tuple(lengths),
            trunk_tokens=min(lengths) // 2,
            evaluated_tokens=max(lengths),
            waiting_seconds=0.5,
            evaluation_seconds=0.25,
        )

    async def score_all(
        self, evaluations: Sequence[Evaluation], lane: Lane, deadline: float | None = None
    ) -> tuple[Reply, ...]:
        return tuple([await self.score(one, lane, deadline) for one in evaluations])

    async def measure(self, prompts: Sequence[PromptText]) -> Sequence[int]:
        await asyncio.sleep(0)
        return [_length(prompt) for prompt in prompts]

    def check_room(self, lane: Lane, deadline: float | None = None) -> None:
        if self.full is not None:
            raise self.full

    def stalled_seconds(self) -> float:
        return self.stalled

    def _read(self, branch: Branch) -> Reading:
        count = len(branch.label_tokens)
        return self.readings.get(count) or _by_hash(branch.prompt, count)


def _length(prompt: PromptText) -> int:
    return sum(len(piece.text) for piece in prompt)


def _by_hash(prompt: PromptText, count: int) -> Reading:
    text = "".join(piece.text for piece in prompt)
    logits = []
    for index in range(count):
        digest = hashlib.sha256(f"{index}|{text}".encode("utf-8", "surrogatepass")).digest()
        logits.append(int.from_bytes(digest[:2]) / 6553.6)
    return Reading(tuple(logits), log_sum_exp=12.0, top_token=0)
