"""What the story needs from the outside: the engine, the inbox, the publisher, documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from worker.decision.attributes import Attribute
from worker.decision.scores import Reading
from worker.decision.text import PromptText


class Lane(StrEnum):
    """Who waits for an answer; the interactive lane goes first."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Branch:
    """One full prompt and the label tokens to read at its end."""

    prompt: PromptText
    label_tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything the engine needs for one ticket.

    Attributes:
        probes: two fixed questions rendered over the ticket's state; the tokens that both begin
            with are the trunk, which therefore depends on template and state alone.
        branches: one for each question and option order.
        max_prompt_tokens: the most that a branch's full prompt may have; None: what fits.
    """

    probes: tuple[PromptText, PromptText]
    branches: tuple[Branch, ...]
    max_prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What the engine read.

    Attributes:
        readings: one for each branch, in order.
        prompt_tokens: tokens of each branch's full prompt.
        trunk_tokens: of those, the ones that all forked branches share.
        evaluated_tokens: tokens that were decoded.
        waiting_seconds: time from the door to the first call.
        evaluation_seconds: time from the first call to the last reading.
    """

    readings: tuple[Reading, ...]
    prompt_tokens: tuple[int, ...]
    trunk_tokens: int
    evaluated_tokens: int
    waiting_seconds: float
    evaluation_seconds: float

    @property
    def input_tokens(self) -> int:
        """Tokens of all full prompts together."""
        return sum(self.prompt_tokens)


class Engine(Protocol):
    """Turns prompts into label logits."""

    async def score(
        self, evaluation: Evaluation, lane: Lane, deadline: float | None = None
    ) -> Reply:
        """Evaluate all branches of one ticket.

        Args:
            evaluation: the ticket's prompts.
            lane: who waits.
            deadline: event-loop time after which the answer is useless.

        Raises:
            Rejected: a prompt does not fit the context, or is longer than it may be.
            EngineBusy: too many tokens wait already.
            Backlogged: the deadline would pass before the last reading.
            DeadlinePassed: the deadline passed before the last reading.
            DecodeFailed: llama.cpp refused a call twice.
            EngineFailed: the engine is broken for good.
        """
        ...

    async def score_all(
        self, evaluations: Sequence[Evaluation], lane: Lane, deadline: float | None = None
    ) -> tuple[Reply, ...]:
        """Evaluate all windows of one ticket; they are let in together, or not at all.

        Args:
            evaluations: at least one; each has a trunk of its own.
            lane: who waits.
            deadline: event-loop time after which the answers are useless.

        Returns:
            One reply for each, in order.

        Raises:
            WorkerError: see :meth:`score`; what was begun is given up.
        """
        ...

    async def measure(self, prompts: Sequence[PromptText]) -> Sequence[int]:
        """Return how many tokens each prompt has.

        Raises:
            Rejected: a prompt is longer than can be read.
            EngineFailed: the engine is broken for good.
        """
        ...

    def check_room(self, lane: Lane, deadline: float | None = None) -> None:
        """Refuse work before it is read, when it could not enter or not begin in time.

        Raises:
            EngineBusy: too many tokens wait already.
            Backlogged: the deadline would pass before its turn.
            EngineFailed: the engine is broken for good.
        """
        ...

    def stalled_seconds(self) -> float:
        """Return how long busy contexts have made no progress; 0 while idle."""
        ...

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait for their turn."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """One receipt of one SQS message.

    Attributes:
        asked_at: event-loop time just before the receive was sent; the lease counts from here.
        sent_at: Unix time at which the producer sent the message, in seconds.
        receive_count: how often SQS has handed the message out, this time included.
        attributes: the message's own that were asked for, by name.
        trace_header: X-Ray's, as SQS carries it; or nothing.
    """

    message_id: str
    receipt_handle: str = field(repr=False)
    body: str = field(repr=False)
    receive_count: int
    sent_at: float
    asked_at: float
    group_id: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    trace_header: str = ""


class Inbox(Protocol):
    """A queue of tickets."""

    async def receive(self, most: int) -> Sequence[Delivery]:
        """Wait for up to *most* deliveries (at most ten); empty when none came in time.

        Raises:
            AwsUnavailable: the poll failed and may work later.
            AwsUnusable: the poll was refused for good.
        """
        ...

    async def extend(self, deliveries: Sequence[Delivery], seconds: int) -> Sequence[Delivery]:
        """Hide *deliveries* (at most ten) for *seconds* from now; return those definitely refused.

        Raises:
            AwsUnavailable: the call failed as a whole and may work later.
        """
        ...

    async def release(self, delivery: Delivery, delay_seconds: int) -> None:
        """Give a delivery back, to be received again after *delay_seconds*."""
        ...

    async def delete(self, delivery: Delivery) -> None:
        """Take a finished delivery off the queue."""
        ...

    async def dead_letter(self, delivery: Delivery, reason: Mapping[str, str]) -> None:
        """Copy a delivery to the dead-letter queue with *reason* as attributes."""
        ...


class Publisher(Protocol):
    """A topic that outcomes are published to."""

    async def publish(
        self,
        message: str,
        attributes: Mapping[str, Attribute],
        *,
        outcome_id: str,
        group_id: str | None,
    ) -> None:
        """Publish one outcome.

        Args:
            message: the outcome as JSON text.
            attributes: for subscribers' filter policies.
            outcome_id: by which a FIFO topic drops repeats.
            group_id: the ticket's message group, carried on to the topic.

        Raises:
            AwsUnavailable: the call failed and may work later.
            Rejected: the outcome is larger than the topic takes.
        """
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """One object as it lies in S3.

    Attributes:
        content: its bytes, gzip'd or not.
        is_json: whether its content type or its name says that it is JSON.
    """

    content: bytes = field(repr=False)
    is_json: bool = False


class Documents(Protocol):
    """Objects in S3."""

    async def read(self, bucket: str, key: str, *, max_bytes: int, where: str) -> Document:
        """Read one object.

        Args:
            bucket: the bucket's name.
            key: the object's key.
            max_bytes: the most to accept; a larger one is refused before it is downloaded.
            where: the ticket's field that names it, for the rejection.

        Raises:
            Rejected: there is no such object, or it is too large.
            AwsUnavailable: it cannot be read now: not allowed, throttled, not reachable.
        """
        ...

    async def write(self, bucket: str, key: str, content: bytes, content_type: str) -> None:
        """Write one object, over one that is there already.

        Raises:
            AwsUnavailable: it cannot be written now.
        """
        ...
