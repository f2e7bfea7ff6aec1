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
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        agent_url: str,
        *,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._session = session
        self._url = agent_url.rstrip("/") + _PATH
        self._idle_seconds = idle_seconds
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
                told = await self._put(enabled=True)
                await self._wait(_RENEWED_SECONDS if told else _AGAIN_SECONDS)
            elif self.is_on and not await self._wait(self._idle_seconds):
                await self._put(enabled=False)
            elif not self.is_on:
                await self._wait(None)

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

    async def _put(self, *, enabled: bool) -> bool:
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
            return True
        if not self._failed:
            self._failed = True
            _log.warning("task_not_protected", error=reason)
        return False


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
