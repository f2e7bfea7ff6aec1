"""How fast the contexts are together, and so when an answer can be had. Pure, not thread-safe."""

from dataclasses import dataclass

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

    def seconds(self, ahead_tokens: int, own_tokens: int, contexts: int) -> float:
        """Return when work is done that *ahead_tokens* go before, sharing with other contexts."""
        return (ahead_tokens + own_tokens * contexts) / self.tokens_per_second
