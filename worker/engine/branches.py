"""The branches of one ticket that several contexts may read, each branch by one of them."""

import threading
from collections import deque
from collections.abc import Callable, Iterable


class Branches:
    """Branches that are still to be read; safe to use from several threads.

    Args:
        indices: of the branches, in the order they are handed out.
    """

    def __init__(self, indices: Iterable[int]) -> None:
        self._changed = threading.Condition()
        self._waiting = deque(indices)
        self._taken = 0

    def __len__(self) -> int:
        """Return how many nobody has taken."""
        return len(self._waiting)

    def take(self) -> int | None:
        """Return a branch that nobody has taken; None when there is none."""
        with self._changed:
            if not self._waiting:
                return None
            self._taken += 1
            return self._waiting.popleft()

    def finish(self) -> None:
        """Say that a branch that was taken is read."""
        with self._changed:
            self._taken -= 1
            self._changed.notify_all()

    def put_back(self, index: int) -> None:
        """Say that a branch that was taken is not read, and is to be taken anew."""
        with self._changed:
            self._taken -= 1
            self._waiting.appendleft(index)
            self._changed.notify_all()

    def wait(self, rest: Callable[[], None]) -> bool:
        """Wait until there is a branch to take; return False once all are read.

        Args:
            rest: is called first when only others have anything to do.
        """
        with self._changed:
            if self._taken and not self._waiting:
                rest()
            self._changed.wait_for(lambda: self._waiting or not self._taken)
            return bool(self._waiting)

    def close(self) -> None:
        """Hand out no more branches, and wait until nobody reads one."""
        with self._changed:
            self._waiting.clear()
            self._changed.wait_for(lambda: not self._taken)
            self._waiting.clear()  # what was put back meanwhile
