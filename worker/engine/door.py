"""The bounded front door: what waits in which lane, what goes next. Pure, not thread-safe."""

from collections import deque
from collections.abc import Callable, Sequence
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
        self._passed = 0  # callers in a row that passed work which did not fit
        self.waiting_tokens = 0

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def put(
        self, item: Item, lane: Lane, tokens: int, *, tokens_per_second: float = 1000.0
    ) -> None:
        """Let work in at the end of its lane.

        Args:
            item: the work.
            lane: who waits for it.
            tokens: how many it has.
            tokens_per_second: how fast what waits grows less, to say when there may be room.

        Raises:
            EngineBusy: too many tokens wait already.
        """
        self.put_all([(item, tokens)], lane, tokens_per_second)

    def put_all(
        self, items: Sequence[tuple[Item, int]], lane: Lane, tokens_per_second: float = 1000.0
    ) -> None:
        """Let several works in at the end of their lane, each with its tokens: all, or none.

        Raises:
            EngineBusy: too many tokens wait already.
        """
        total = sum(tokens for _, tokens in items)
        self.check(total, tokens_per_second=tokens_per_second)
        self._lanes[lane] += items
        self.waiting_tokens += total

    def check(self, tokens: int, *, tokens_per_second: float = 1000.0) -> None:
        """Refuse what :meth:`put` would refuse.

        Raises:
            EngineBusy: too many tokens wait already.
        """
        excess = self.waiting_tokens + tokens - self._limit
        if self.waiting_tokens and excess > 0:
            seconds = max(1.0, min(excess, self.waiting_tokens) / tokens_per_second)
            raise EngineBusy(self.waiting_tokens, self._limit, seconds)

    def tokens_ahead(self, lane: Lane) -> int:
        """Return the tokens that wait before new work of *lane*."""
        lanes = (Lane.INTERACTIVE,) if lane is Lane.INTERACTIVE else tuple(Lane)
        return sum(tokens for other in lanes for _, tokens in self._lanes[other])

    def put_back(self, item: Item, lane: Lane, tokens: int) -> None:
        """Put work that was begun in front of its lane; it was let in before."""
        self._lanes[lane].appendleft((item, tokens))
        self.waiting_tokens += tokens

    def take(self, is_ready: Callable[[Item], bool] = lambda _: True) -> Item | None:
        """Return the work whose turn it is, passing over what is not ready.

        Returns:
            None when nothing waits that is ready.
        """
        item = self.peek(is_ready)
        if item is not None:
            self._passed = 0
            self._turns += self._both_wait()
            self.drop(item)
        return item

    def take_if(
        self, fits: Callable[[Item], bool], is_ready: Callable[[Item], bool] = lambda _: True
    ) -> Item | None:
        """Return the work whose turn it is if it *fits*, else a caller's that does.

        Only so many callers pass work that does not fit, one after the other. Then nothing is
        taken until there is room for it.
        """
        item = self.peek(is_ready)
        if item is None or fits(item):
            return self.take(is_ready)
        caller = self.first(Lane.INTERACTIVE, is_ready)
        if caller is None or self._passed >= BATCH_SHARE or not fits(caller):
            return None
        self._passed += 1
        self.drop(caller)
        return caller

    def peek(self, is_ready: Callable[[Item], bool] = lambda _: True) -> Item | None:
        """Return what :meth:`take` would, and leave it where it is."""
        for lane in self._turn():
            item = self.first(lane, is_ready)
            if item is not None:
                return item
        return None

    def first(self, lane: Lane, is_ready: Callable[[Item], bool]) -> Item | None:
        """Return the first of a lane that is ready, and leave it where it is."""
        return next((item for item, _ in self._lanes[lane] if is_ready(item)), None)

    def waits(self, lane: Lane) -> bool:
        """Return whether anything waits in *lane*."""
        return bool(self._lanes[lane])

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

    def _both_wait(self) -> bool:
        return all(self._lanes.values())

    def _turn(self) -> tuple[Lane, Lane]:
        """Return the lanes in the order of this turn."""
        if self._both_wait() and self._turns % BATCH_SHARE == BATCH_SHARE - 1:
            return Lane.BATCH, Lane.INTERACTIVE
        return Lane.INTERACTIVE, Lane.BATCH
