"""ECS task protection, against an agent of our own on a socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web

from worker.queue.protection import TaskProtection, open_protection


@dataclass
class Agent:
    """Answers as ECS's agent does, and remembers what it was asked."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=lambda: {"protection": {}})
    url: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        self._changed.set()
        return web.json_response(self.answer)

    async def until(self, times: int) -> None:
        while len(self.asked) < times:
            self._changed.clear()
            await self._changed.wait()

    @property
    def enabled(self) -> list[bool]:
        return [one["ProtectionEnabled"] for one in self.asked]


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    found = Agent()
    application = web.Application()
    application.router.add_put("/api/1/task-protection/v1/state", found.put)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/1"
    yield found
    await runner.cleanup()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)


@asynccontextmanager
async def kept(agent: Agent, **seconds: float) -> AsyncIterator[TaskProtection]:
    async with aiohttp.ClientSession() as session:
        protection = TaskProtection(session, agent.url, **{"idle_seconds": 0.01} | seconds)
        keeping = asyncio.create_task(protection.keep())
        try:
            yield protection
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def test_protection_is_on_while_work_is_in_hand(agent: Agent) -> None:
    """On with the first delivery, for a bounded time; off when there has been none for a while."""
    async with kept(agent) as protection:
        protection.note(1)
        await agent.until(1)
        protection.note(3)
        protection.note(0)
        await agent.until(2)
        protection.note(1)
        await agent.until(3)

    assert [True, False, True] == agent.enabled
    assert {"ProtectionEnabled": True, "ExpiresInMinutes": 60} == agent.asked[0]


async def test_protection_is_renewed_before_it_expires(agent: Agent) -> None:
    """Work that goes on for longer than one protection lasts stays protected."""
    async with kept(agent, renewed_seconds=0.01) as protection:
        protection.note(1)
        await agent.until(3)

    assert [True, True, True] == agent.enabled[:3]


async def test_a_task_that_is_protected_asks_no_second_time(agent: Agent) -> None:
    """Deliveries that come one by one are no news: ECS limits how often it may be asked."""
    async with kept(agent, idle_seconds=60) as protection:
        protection.note(1)
        await until(lambda: protection.is_on)
        for in_hand in (0, 1) * 5:
            protection.note(in_hand)
            await until(lambda: not protection._changed.is_set())
        await protection.close()

    assert [True, False] == agent.enabled


async def test_an_idle_task_asks_for_nothing(agent: Agent) -> None:
    """And whoever ends with work behind it switches protection off."""
    async with open_protection(agent.url) as idle:
        assert idle is not None
    assert [] == agent.asked

    async with open_protection(agent.url) as busy:
        assert busy is not None
        busy.note(1)
        await agent.until(1)
        await until(lambda: busy.is_on)
    assert [True, False] == agent.enabled


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"Code": "AccessDeniedException", "Message": "secret"}},
        {"failure": {"Arn": "arn", "Reason": "DEPLOYMENT_BLOCKED"}},
    ],
)
async def test_an_agent_that_refuses_is_told_of_once(agent: Agent, answer: dict[str, Any]) -> None:
    """It stops no work, though the agent says 200."""
    agent.answer = answer
    with structlog.testing.capture_logs() as logged:
        async with kept(agent, again_seconds=0.01) as protection:
            protection.note(1)
            await agent.until(3)

    assert ["task_not_protected"] == [line["event"] for line in logged]
    assert not protection.is_on


async def test_an_agent_that_is_gone_stops_no_work() -> None:
    """Nobody listens there."""
    with structlog.testing.capture_logs() as logged:
        async with open_protection("http://127.0.0.1:9") as protection:
            assert protection is not None
            protection.note(1)
            await until(lambda: bool(logged))

    assert "ClientConnectorError" == logged[0]["error"]


async def test_outside_ecs_there_is_nothing_to_ask() -> None:
    """No agent, no session."""
    async with open_protection(None) as protection:
        assert protection is None
