"""How fast the contexts are together, and so when an answer can be had. Pure, not thread-safe."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from worker.ports import Lane

_HALF_LIFE_SECONDS = 10.0  # of busy time


@dataclass(slots=True)
class Throughput:
    """Tokens that all contexts together evaluate in a second while any of them is busy.

    Attributes:
        tokens_per_second: a guess until something was measured.
        is_measured: whether something was.
    """

    tokens_per_second: float = 200.0
    is_measured: bool = False
    _tokens: float = 0.0
    _seconds: float = 0.0
    _noted_at: float = 0.0

    def resume(self, now: float) -> None:
        """Begin to measure: a context became busy after all were idle."""
        self._noted_at = now

    def note(self, tokens: int, now: float) -> None:
        """Take into account that a turn of *tokens* ended; newer turns count more."""
        seconds = max(0.0, now - self._noted_at)
        kept = 0.5 ** (seconds / _HALF_LIFE_SECONDS)
        self._tokens = self._tokens * kept + tokens
        self._seconds = self._seconds * kept + seconds
        self._noted_at = now
        if self._tokens and self._seconds:
            self.tokens_per_second = self._tokens / self._seconds
            self.is_measured = True

    def seconds(self, ahead_tokens: int, own_tokens: Sequence[int], contexts: int) -> float:
        """Return when the last of some works is done.

        No later than the bound of list scheduling (Graham 1966): one context has the longest
        work while the others share the rest.

        Args:
            ahead_tokens: that go before, shared by all contexts.
            own_tokens: of each work; one context evaluates it.
            contexts: how many there are.
        """
        own = sum(own_tokens) + (contexts - 1) * max(own_tokens)
        return (ahead_tokens + own) / self.tokens_per_second


def tokens_before(
    lane: Lane, running: Iterable[tuple[Hashable, Lane, int]], call_tokens: int
) -> int:
    """Return the tokens that running work decodes before new work of *lane* gets its turn.

    A caller waits for other callers, but for batch work only until the call ends that its context
    is making, however many tickets share that call.

    Args:
        lane: of the new work.
        running: for each work its context, its lane and the tokens that are left of it.
        call_tokens: the most tokens of one call.
    """
    before = 0
    batch: Counter[Hashable] = Counter()
    for context, other, tokens in running:
        if lane is Lane.BATCH or other is Lane.INTERACTIVE:
            before += tokens
        else:
            batch[context] += tokens
    return before + sum(min(tokens, call_tokens) for tokens in batch.values())
