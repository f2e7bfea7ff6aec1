"""Ask ECS not to stop this task while it has deliveries in hand.

Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-scale-in-protection-endpoint.html
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import structlog

_PATH = "/task-protection/v1/state"
_EXPIRES_MINUTES = 60  # so that a task whose agent cannot be reached any more is not kept for ever
_RENEWED_SECONDS = _EXPIRES_MINUTES * 60 / 3
_IDLE_SECONDS = 10.0  # ECS limits how often a task may change its mind
_ANSWERS_WITHIN_SECONDS = 5.0
_AGAIN_SECONDS = 30.0

_log = structlog.get_logger()


class TaskProtection:
    """Switches scale-in protection on while deliveries are in hand, off when there are none.

    It costs a worker nothing when the agent does not answer: that is logged once, and tried again.

    Args:
        session: for calls to the agent.
        agent_url: what ECS sets as ``ECS_AGENT_URI``.
        idle_seconds: without deliveries for so long, protection is switched off.
        renewed_seconds: between two times that the agent is asked for the same.
        again_seconds: until an agent that did not do it is asked again.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        agent_url: str,
        *,
        idle_seconds: float = _IDLE_SECONDS,
        renewed_seconds: float = _RENEWED_SECONDS,
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._session = session
        self._url = agent_url.rstrip("/") + _PATH
        self._idle_seconds = idle_seconds
        self._renewed_seconds = renewed_seconds
        self._again_seconds = again_seconds
        self._told_at = 0.0
        self._is_busy = False
        self._changed = asyncio.Event()
        self._failed = False
        self.is_on = False

    def note(self, in_hand: int) -> None:
        """Be told how many deliveries are in hand now."""
        if self._is_busy != bool(in_hand):
            self._is_busy = bool(in_hand)
            self._changed.set()

    async def keep(self) -> None:
        """Tell the agent what is wanted, again and again, until cancelled."""
        while True:
            self._changed.clear()
            if self._is_busy:
                # A lone ticket now and then is no news to an agent that was told not long ago.
                if (left_seconds := self._next_seconds()) <= 0:
                    await self._put(enabled=True)
                    left_seconds = self._next_seconds()
                await self._wait(left_seconds)
            elif self.is_on and not await self._wait(self._idle_seconds):
                await self._put(enabled=False)
            elif not self.is_on:
                await self._wait(None)

    def _next_seconds(self) -> float:
        """Return how long the agent needs not be asked for protection again."""
        since_seconds = asyncio.get_running_loop().time() - self._told_at
        if self._failed:
            return self._again_seconds - since_seconds
        return self._renewed_seconds - since_seconds if self.is_on else 0.0

    async def close(self) -> None:
        """Switch protection off: nothing is in hand any more."""
        if self.is_on:
            await self._put(enabled=False)

    async def _wait(self, seconds: float | None) -> bool:
        """Wait for a change; return whether there was one in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _put(self, *, enabled: bool) -> None:
        self._told_at = asyncio.get_running_loop().time()
        body: dict[str, Any] = {"ProtectionEnabled": enabled}
        if enabled:
            body["ExpiresInMinutes"] = _EXPIRES_MINUTES
        try:
            timeout = aiohttp.ClientTimeout(_ANSWERS_WITHIN_SECONDS)
            async with self._session.put(self._url, json=body, timeout=timeout) as answer:
                reason = await _fault(answer)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            reason = type(error).__name__
        if reason is None:
            self.is_on, self._failed = enabled, False
        elif not self._failed:
            self._failed = True
            _log.warning("task_not_protected", error=reason)


async def _fault(answer: aiohttp.ClientResponse) -> str | None:
    """Return why the agent did not do what it was asked; it says 200 also when ECS refused."""
    tree = await answer.json(content_type=None)
    for name in ("error", "failure"):
        if isinstance(tree, dict) and tree.get(name):
            fault = tree[name]
            return (
                str(fault.get("Code") or fault.get("Reason")) if isinstance(fault, dict) else name
            )
    return None if answer.ok else f"status {answer.status}"


@asynccontextmanager
async def open_protection(agent_url: str | None) -> AsyncIterator[TaskProtection | None]:
    """Keep the task's protection while the body runs; None outside ECS."""
    if not agent_url:
        yield None
        return
    async with aiohttp.ClientSession() as session:
        protection = TaskProtection(session, agent_url)
        keeping = asyncio.create_task(protection.keep(), name="task protection")
        try:
            yield protection
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await protection.close()
