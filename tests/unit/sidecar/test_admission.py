"""Who may enter, how long, and what a caller leaves behind who goes."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.unit.sidecar.bench import JSON, Bench, make_request, open_bench
from worker.errors import Backlogged, DeadlinePassed, EngineBusy, EngineFailed
from worker.lifecycle import Phase

UNFINISHED = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"


async def connect(bench: Bench, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.sidecar.port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


def as_request(body: bytes, *headers: str) -> bytes:
    head = ["POST /invocations HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def at_work(bench: Bench, count: int) -> None:
    """Return once that many evaluations run; the test's timeout is the limit."""
    while bench.engine.at_work != count:  # noqa: ASYNC110 - the fake sets no event for us
        await asyncio.sleep(0)


async def in_progress(bench: Bench, count: int) -> None:
    """Return once that many requests hold a place."""
    while bench.sidecar._admission.in_progress != count:  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.mark.parametrize("full", [EngineBusy(9, 9, 5.0), Backlogged(9, 65.0, 60.0)])
async def test_a_full_door_refuses_before_the_body_is_read(full: Exception) -> None:
    """The answer comes although the body never does."""
    async with open_bench() as bench:
        bench.engine.full = full
        reader, writer = await connect(bench, UNFINISHED)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 5\r\n" in head


async def test_a_caller_who_waits_to_be_asked_is_not_asked_in_vain() -> None:
    """``Expect: 100-continue``: the body is asked for only once there is a place."""
    async with open_bench() as bench:
        body = json.dumps(make_request()).encode()
        head = as_request(body, "Expect: 100-continue")[: -len(body)]
        reader, writer = await connect(bench, head)
        asked = await reader.readuntil(b"\r\n\r\n")
        writer.write(body)
        answered = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        bench.engine.full = EngineBusy(9, 9)
        reader, writer = await connect(bench, head)
        refused = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert b"HTTP/1.1 100 Continue\r\n\r\n" == asked
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert refused.startswith(b"HTTP/1.1 503 ")


async def test_a_caller_who_leaves_frees_its_place() -> None:
    """Its evaluation is cancelled, and the next caller has the place."""
    async with open_bench(max_callers=1) as bench:
        bench.engine.gate = asyncio.Event()
        _, writer = await connect(bench, as_request(json.dumps(make_request()).encode()))
        await at_work(bench, 1)
        refused = await bench.post(make_request())
        writer.transport.abort()
        await in_progress(bench, 0)
        bench.engine.gate.set()
        answered = await bench.post(make_request())
        cancelled = bench.engine.cancelled

    assert (503, 200, 1) == (refused.status, answered.status, cancelled)
    assert "Retry-After" in refused.headers


async def test_a_body_that_does_not_arrive() -> None:
    """408, and the place is free again."""
    async with open_bench(body_seconds=0.05) as bench:
        reader, writer = await connect(bench, UNFINISHED)
        head = await reader.readuntil(b"\r\n\r\n")
        places = bench.sidecar._admission.in_progress
        writer.close()

    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nConnection: close\r\n" in head
    assert 0 == places


async def test_a_body_that_is_broken_off() -> None:
    """A chunk that is none: 400, in our own words."""
    async with open_bench() as bench:
        head = b"POST /invocations HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        reader, writer = await connect(bench, head + b"secret\r\n")
        answered = await reader.read()
        writer.close()

    assert b" 400 " in answered.partition(b"\r\n")[0]
    assert b"secret" not in answered


async def test_a_passed_deadline() -> None:
    """504 when the engine says so, and when it says nothing in time."""
    async with open_bench(request_seconds=0.05) as bench:
        bench.engine.gate = asyncio.Event()
        silent = await bench.post(make_request())
        bench.engine.gate = None
        bench.engine.error = DeadlinePassed("too late")
        said = await bench.post(make_request())

    assert (504, 504) == (silent.status, said.status)
    assert "deadline_exceeded" == said.body["detail"]["error_type"]


@pytest.mark.parametrize(
    ("header", "status"),
    [("0.05", 504), ("1e9", 200), ("0", 400), ("-1", 400), ("nan", 400), ("inf", 400), ("x", 400)],
)
async def test_a_caller_may_have_less_time(header: str, status: int) -> None:
    """``X-Request-Timeout`` lowers the deadline and never raises it."""
    async with open_bench() as bench:
        if status == 504:
            bench.engine.gate = asyncio.Event()
        answered = await bench.post(make_request(), **{"X-Request-Timeout": header})

    assert status == answered.status


async def test_before_the_model_is_there() -> None:
    """503 everywhere an answer needs it; the socket is there at once."""
    async with open_bench(ready=False) as bench:
        statuses = [
            (await bench.get("/ping")).status,
            (await bench.get("/health")).status,
            (await bench.get("/v1/models")).status,
            (await bench.post(make_request())).status,
        ]
        bench.answer()
        ready = await bench.get("/ping")

    assert [503] * 4 == statuses
    assert 200 == ready.status


async def test_draining() -> None:
    """What runs is finished; new work is refused, and told to connect elsewhere."""
    async with open_bench() as bench:
        bench.engine.gate = asyncio.Event()
        running = asyncio.create_task(bench.post(make_request()))
        await at_work(bench, 1)
        bench.lifecycle.stop("test")
        draining = asyncio.create_task(bench.sidecar.drain(30))
        refused = await bench.post(make_request())
        ping = await bench.get("/ping")
        bench.engine.gate.set()
        answered = await running
        left = await draining

    assert (503, 503, 200, 0) == (refused.status, ping.status, answered.status, left)
    assert {"close"} == {a.headers["Connection"] for a in (refused, ping, answered)}
    assert "Retry-After" in refused.headers


async def test_a_drain_that_takes_too_long() -> None:
    """What is left is counted."""
    async with open_bench() as bench:
        bench.engine.gate = asyncio.Event()
        running = asyncio.create_task(bench.post(make_request()))
        await at_work(bench, 1)
        bench.lifecycle.stop("test")
        left = await bench.sidecar.drain(0)
        bench.engine.gate.set()
        await running

    assert 1 == left


async def test_an_engine_that_failed_ends_the_process() -> None:
    """The caller may come back, to another process."""
    async with open_bench() as bench:
        bench.engine.error = EngineFailed("broken")
        answered = await bench.post(make_request())
        phase, failure = bench.lifecycle.phase, bench.lifecycle.failure

    assert (503, Phase.DRAINING) == (answered.status, phase)
    assert isinstance(failure, EngineFailed)


async def test_a_bug_is_ours() -> None:
    """500 without a trace of what happened, which is in the log."""
    async with open_bench() as bench:
        bench.engine.error = RuntimeError("a secret of the customer")
        answered = await bench.post(make_request())

    assert (500, "internal_error") == (answered.status, answered.body["detail"]["error_type"])
    assert "secret" not in answered.text


async def test_many_callers_at_once() -> None:
    """All of them are answered, or told to come back; no place is lost."""
    async with open_bench(max_callers=5) as bench:
        statuses = [
            answered.status
            for answered in await asyncio.gather(*(bench.post(make_request()) for _ in range(40)))
        ]
        places = bench.sidecar._admission.in_progress

    assert {200, 503} == set(statuses)
    assert 0 == places


async def test_a_body_in_pieces() -> None:
    """How a body is cut into packets does not matter."""
    body = json.dumps(make_request()).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    async with open_bench() as bench:
        answered = await bench.ask("POST", "/invocations", data=pieces(), headers=JSON)

    assert 200 == answered.status


async def test_who_has_not_sent_its_request_is_not_waited_for() -> None:
    """Half a request holds a place, and no drain."""
    async with open_bench() as bench:
        _, writer = await connect(bench, UNFINISHED)
        await in_progress(bench, 1)
        bench.lifecycle.stop("test")
        left = await bench.sidecar.drain(0)
        writer.close()

    assert 0 == left


async def test_an_announced_size_is_refused_unseen() -> None:
    """A body that says that it is too large is not waited for."""
    async with open_bench(max_body_bytes=1024) as bench:
        head = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 1025\r\n\r\n"
        reader, writer = await connect(bench, head)
        answered = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert answered.startswith(b"HTTP/1.1 413 ")
