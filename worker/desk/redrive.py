"""Look through a dead-letter queue, and send chosen messages back to where they came from."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from worker.desk.dead_letters import Group, group_letters, is_chosen, letter_back
from worker.desk.letters import MOST_ENTRIES, Letter, batches
from worker.desk.mailbox import Mailbox, Received, send_all

_WAIT_SECONDS = 1
_HIDE_SECONDS = 300
_EMPTY_POLLS = 2  # one may be empty while there are messages


@dataclass(slots=True)
class Redriven:
    """What was done.

    Attributes:
        sent: messages that the queue took back.
        left: chosen messages that it did not take, which stay dead letters.
        undeleted: messages that it took back, and that are still dead letters as well.
    """

    sent: int = 0
    left: int = 0
    undeleted: int = 0


async def list_letters(dead: Mailbox, *, most: int) -> list[Group]:
    """Group up to *most* dead letters by reason; all are shown again at the end.

    Raises:
        AwsUnavailable: the queue does not answer now.
        AwsUnusable: it cannot be used.
    """
    seen: dict[str, Received] = {}
    try:
        async with aclosing(_all(dead, most)) as found:
            async for messages in found:
                seen.update((message.message_id, _without_body(message)) for message in messages)
    finally:
        await _release(dead, list(seen.values()))
    return group_letters(seen.values())


@dataclass(eq=False, slots=True)
class Redriver:
    """Sends dead letters back.

    Attributes:
        dead: the dead-letter queue.
        queue: where they go.
        is_fifo: whether that is a FIFO queue.
        on_step: told how many more went back.
    """

    dead: Mailbox
    queue: Mailbox
    is_fifo: bool
    on_step: Callable[[int], None]
    result: Redriven = field(default_factory=Redriven, init=False)
    _kept: list[Received] = field(default_factory=list, init=False)

    async def run(self, reasons: Sequence[str] | None, *, most: int) -> Redriven:
        """Send back what has one of *reasons*, or everything, among up to *most* dead letters.

        Raises:
            AwsUnavailable: a queue does not answer now; what was sent back is deleted.
            AwsUnusable: a queue cannot be used.
        """
        try:
            async with aclosing(_all(self.dead, most)) as found:
                async for messages in found:
                    chosen = [message for message in messages if is_chosen(message, reasons)]
                    self._keep(message for message in messages if not is_chosen(message, reasons))
                    await self._send_back(chosen)
        finally:
            await _release(self.dead, self._kept)
        return self.result

    async def _send_back(self, messages: Sequence[Received]) -> None:
        by_id = {message.message_id: message for message in messages}
        letters = [letter_back(message, is_fifo=self.is_fifo) for message in by_id.values()]
        for batch in batches(letters):
            taken: list[Received] = []

            def note(sent: Sequence[Letter], taken: list[Received] = taken) -> None:
                taken += [by_id[letter.name] for letter in sent]

            try:
                refused = await send_all(self.queue, batch, note)
            finally:
                # Deleted only now that the queue has them, and also when a later call fails.
                if taken:
                    await self._delete(taken)
            self.result.left += len(refused)
            self._keep(by_id[refusal.letter.name] for refusal in refused)

    def _keep(self, messages: Iterable[Received]) -> None:
        self._kept += map(_without_body, messages)

    async def _delete(self, taken: Sequence[Received]) -> None:
        self.result.sent += len(taken)
        self.on_step(len(taken))
        self.result.undeleted += await self.dead.delete(taken)


async def _all(dead: Mailbox, most: int) -> AsyncGenerator[Sequence[Received], None]:
    """Receive until nothing comes, *most* messages came, or they begin to come again."""
    seen: set[str] = set()
    empty = 0
    while empty < _EMPTY_POLLS and len(seen) < most:
        messages = await dead.receive(wait_seconds=_WAIT_SECONDS, hide_seconds=_HIDE_SECONDS)
        new = [message for message in messages if message.message_id not in seen]
        empty = 0 if new else empty + 1
        if new:
            seen.update(message.message_id for message in new)
            yield new


def _without_body(message: Received) -> Received:
    """Return what is needed to show the message again: thousands of bodies are too much."""
    return replace(message, body="")


async def _release(mailbox: Mailbox, messages: Sequence[Received]) -> None:
    for start in range(0, len(messages), MOST_ENTRIES):
        await mailbox.release(messages[start : start + MOST_ENTRIES])
