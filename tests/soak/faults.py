"""Which fault a call meets, drawn from a seed or from a list."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """What may become of a call on its way."""

    DROP_CALL = "call dropped"
    DROP_ANSWER = "answer dropped"
    ERROR = "500"
    THROTTLE = "throttled"
    SLOW = "slow"
    PARTIAL = "partial batch failure"


BATCHES = ("ChangeMessageVisibilityBatch", "DeleteMessageBatch", "PublishBatch")
OPERATIONS = (*BATCHES, "ReceiveMessage", "ChangeMessageVisibility", "SendMessage")
"""What a worker calls again and again; what it asks at start is let through."""


@dataclass
class Faults:
    """Decides for each call, and counts.

    Attributes:
        chance: a decision's source; seeded, so that the same calls meet the same faults.
        share: of calls that meet a fault.
        script: operations and faults that the first such call meets, each once.
        most_slow_seconds: the longest that a slow answer is held back.
        met: how many calls met which fault.
    """

    chance: random.Random
    share: float = 0.0
    script: Sequence[tuple[str, Fault]] = ()
    most_slow_seconds: float = 3.0
    met: Counter[Fault] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._left = list(self.script)

    @property
    def is_used_up(self) -> bool:
        """Whether each fault of the script was met."""
        return not self._left

    def meet(self, operation: str) -> Fault | None:
        """Return what a call of *operation* meets."""
        fault = self._draw(operation)
        if fault is not None:
            self.met[fault] += 1
        return fault

    def slow_seconds(self) -> float:
        return self.chance.uniform(self.most_slow_seconds / 4, self.most_slow_seconds)

    def some(self, ids: Sequence[str]) -> set[str]:
        """Choose entries of a batch, at least one."""
        return set(self.chance.sample(list(ids), self.chance.randint(1, len(ids))))

    def _draw(self, operation: str) -> Fault | None:
        for step in self._left:
            if step[0] == operation:
                self._left.remove(step)
                return step[1]
        if operation not in OPERATIONS or self.chance.random() >= self.share:
            return None
        fitting = [fault for fault in Fault if fault != Fault.PARTIAL or operation in BATCHES]
        return self.chance.choice(fitting)
