"""A proxy between worker and emulator that injects faults and sees what was truly accepted."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from tests.soak.faults import Fault, Faults
from tests.soak.wire import Call

_NOT_FORWARDED = {"host", "content-length", "connection", "transfer-encoding", "expect"}


@dataclass
class Seen:
    """What the emulator accepted, in order, whatever the worker was told.

    Attributes:
        events: ``("published", ticket id)`` and ``("deleted", message id)``.
        receipts: message ids by receipt handle.
        calls: how many calls there were.
    """

    events: list[tuple[str, str]] = field(default_factory=list)
    receipts: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    def see(self, call: Call, answer: bytes) -> None:
        """Note an answer of the emulator before anything happens to it."""
        self.calls += 1
        if call.operation == "ReceiveMessage":
            for message in json.loads(answer).get("Messages") or []:
                self.receipts[message["ReceiptHandle"]] = message["MessageId"]
        elif call.operation == "PublishBatch":
            messages = call.messages()
            for name in call.accepted(answer):
                self.events.append(("published", json.loads(messages[name])["ticket_id"]))
        elif call.operation == "DeleteMessageBatch":
            handles = call.handles()
            for name in call.accepted(answer):
                self.events.append(("deleted", self.receipts[handles[name]]))


class FaultProxy:
    """Forwards calls, except those that meet a fault.

    Args:
        emulator_url: where calls go.
        faults: what calls meet.
    """

    def __init__(self, emulator_url: str, faults: Faults) -> None:
        self._emulator_url = emulator_url
        self.faults = faults
        self.seen = Seen()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[str]:
        """Listen on a free loopback port while the body runs; yield the URL."""
        application = web.Application(client_max_size=4 * 2**20)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        # No limit on connections: a poll that waits must hold up nothing.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            self._session = session
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                host, port = runner.addresses[0][:2]
                yield f"http://{host}:{port}"
            finally:
                await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        call = Call.read(request.headers, body)
        fault = self.faults.meet(call.operation)
        if fault is Fault.DROP_CALL:
            return _dropped(request)
        if fault is Fault.ERROR:
            return _refused(call, "InternalFailure" if call.is_json else "InternalError", 500)
        if fault is Fault.THROTTLE:
            return _refused(call, "RequestThrottled" if call.is_json else "Throttling", 400)
        if fault is Fault.SLOW:
            await asyncio.sleep(self.faults.slow_seconds())
        status, content_type, content = await self._forward(request, body)
        if status == 200:
            self.seen.see(call, content)
            if fault is Fault.PARTIAL and (accepted := call.accepted(content)):
                content = call.with_failed(content, self.faults.some(accepted))
        if fault is Fault.DROP_ANSWER:
            return _dropped(request)
        return web.Response(status=status, body=content, headers={"Content-Type": content_type})

    async def _forward(self, request: web.Request, body: bytes) -> tuple[int, str, bytes]:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _NOT_FORWARDED
        }
        url = f"{self._emulator_url}{request.raw_path}"
        async with self._session.request(
            request.method, url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            content_type = answer.headers.get("Content-Type", "application/octet-stream")
            return answer.status, content_type, await answer.read()


def _dropped(request: web.Request) -> web.Response:
    """Close the connection in the caller's face."""
    transport: Any = request.transport
    if transport is not None:
        transport.abort()
    return web.Response()


def _refused(call: Call, code: str, status: int) -> web.Response:
    body, headers = call.refusal(code, status)
    return web.Response(status=status, body=body, headers=headers)
