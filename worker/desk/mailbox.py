"""What desk work needs of a queue, and how a batch is sent until every entry is settled."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.desk.letters import Letter
from worker.errors import AwsUnavailable

_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Refusal:
    """An entry of a batch that was not taken.

    Attributes:
        code: AWS's own.
        is_final: whether the same entry would be refused again.
    """

    letter: Letter
    code: str
    is_final: bool


@dataclass(frozen=True, slots=True)
class Received:
    """One message in hand.

    Attributes:
        attributes: SQS message attributes, as SQS has them.
        sent_at: Unix time in seconds.
    """

    message_id: str
    receipt_handle: str = field(repr=False)
    body: str = field(repr=False)
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    group_id: str | None = None
    sent_at: float = 0.0

    def texts(self) -> dict[str, str]:
        """Return the attributes that are text, by name."""
        return {
            name: value["StringValue"]
            for name, value in self.attributes.items()
            if "StringValue" in value
        }


class Mailbox(Protocol):
    """One queue; calls raise AwsUnavailable for what may pass and AwsUnusable for what will not."""

    async def send(self, letters: Sequence[Letter]) -> Sequence[Refusal]:
        """Send up to ten letters; return those not taken."""
        ...

    async def receive(self, *, wait_seconds: int, hide_seconds: int) -> Sequence[Received]:
        """Receive up to ten messages and hide them for *hide_seconds*."""
        ...

    async def delete(self, messages: Sequence[Received]) -> int:
        """Delete up to ten messages; return how many were not."""
        ...

    async def release(self, messages: Sequence[Received]) -> None:
        """Show up to ten messages again at once."""
        ...


async def send_all(
    mailbox: Mailbox, letters: Sequence[Letter], on_sent: Callable[[Sequence[Letter]], None]
) -> Sequence[Refusal]:
    """Send up to ten letters, again and longer apart while there is hope.

    Args:
        mailbox: the queue.
        letters: one batch.
        on_sent: told at once what was taken, so that it is known whatever comes after.

    Returns:
        The letters that were not taken.

    Raises:
        AwsUnavailable: no call came through.
        AwsUnusable: the queue cannot be used.
    """
    refused: list[Refusal] = []
    left = list(letters)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            failed = list(await mailbox.send(left))
        except AwsUnavailable:
            if attempt == _ATTEMPTS:
                raise
        else:
            names = {id(refusal.letter) for refusal in failed}
            if taken := [letter for letter in left if id(letter) not in names]:
                on_sent(taken)
            is_last = attempt == _ATTEMPTS
            refused += [refusal for refusal in failed if refusal.is_final or is_last]
            left = [refusal.letter for refusal in failed if not refusal.is_final]
            if not left or is_last:
                break
        longest = _FIRST_PAUSE_SECONDS * 2**attempt
        await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - spreads load
    return refused
