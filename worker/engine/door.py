"""The bounded front door: what waits in which lane, what goes next. Pure, not thread-safe."""

from collections import deque
from typing import Generic, TypeVar

from worker.errors import EngineBusy
from worker.ports import Lane

BATCH_SHARE = 4
"""While both lanes wait, every fourth turn is the batch lane's, so that it never starves."""

Item = TypeVar("Item")


class Door(Generic[Item]):
    """Two lanes of waiting work, bounded by their tokens together.

    Args:
        max_waiting_tokens: the most tokens that may wait. Work that finds nothing waiting is
            always let in, however large.
    """

    def __init__(self, max_waiting_tokens: int) -> None:
        self._limit = max_waiting_tokens
        self._lanes: dict[Lane, deque[tuple[Item, int]]] = {lane: deque() for lane in Lane}
        self._turns = 0
        self.waiting_tokens = 0

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def put(self, item: Item, lane: Lane, tokens: int) -> None:
        """Let work in at the end of its lane.

        Raises:
            EngineBusy: too many tokens wait already.
        """
        if self.waiting_tokens and self.waiting_tokens + tokens > self._limit:
            raise EngineBusy(self.waiting_tokens, self._limit)
        self._lanes[lane].append((item, tokens))
        self.waiting_tokens += tokens

    def take(self) -> Item:
        """Return the work whose turn it is.

        Raises:
            IndexError: nothing waits.
        """
        item, tokens = self._lanes[self._turn()].popleft()
        self.waiting_tokens -= tokens
        return item

    def drop(self, item: Item) -> bool:
        """Take *item* out of its lane; return whether it was still waiting."""
        for lane in self._lanes.values():
            for entry in lane:
                if entry[0] is item:
                    lane.remove(entry)
                    self.waiting_tokens -= entry[1]
                    return True
        return False

    def clear(self) -> list[Item]:
        """Empty both lanes and return what waited."""
        items = [item for lane in self._lanes.values() for item, _ in lane]
        for lane in self._lanes.values():
            lane.clear()
        self.waiting_tokens = 0
        return items

    def _turn(self) -> Lane:
        if not self._lanes[Lane.BATCH]:
            return Lane.INTERACTIVE
        if not self._lanes[Lane.INTERACTIVE]:
            return Lane.BATCH
        self._turns += 1
        return Lane.BATCH if self._turns % BATCH_SHARE == 0 else Lane.INTERACTIVE
