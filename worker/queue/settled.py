"""Remember what this process has already done about which message."""

from collections import OrderedDict

_MOST = 10_000


class Settled:
    """What was published or moved, by message id; the oldest is forgotten first.

    Args:
        most: how many messages of each kind are remembered.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._results: OrderedDict[str, str] = OrderedDict()
        self._moved: OrderedDict[str, str] = OrderedDict()

    def publish(self, message_id: str, result: str) -> None:
        """Remember that the message's outcome is out, and how its delivery ends."""
        self._remember(self._results, message_id, result)

    def result(self, message_id: str) -> str | None:
        """Return how a delivery ends whose outcome is out; None when it is not."""
        return self._results.get(message_id)

    def move(self, message_id: str) -> None:
        """Remember that the dead-letter queue has its copy."""
        self._remember(self._moved, message_id, "")

    def is_moved(self, message_id: str) -> bool:
        """Return whether the dead-letter queue has its copy."""
        return message_id in self._moved

    def _remember(self, known: OrderedDict[str, str], message_id: str, value: str) -> None:
        known[message_id] = value
        known.move_to_end(message_id)
        if len(known) > self._most:
            known.popitem(last=False)
