"""Sampled log lines: what went well may be left out, what failed never is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from tests.factories import make_body
from tests.unit.queue.bench import make_bench
from tests.unit.sidecar.bench import make_request, open_bench
from worker.errors import EngineBusy
from worker.log import configure_log


@pytest.fixture
def kept_configuration() -> Iterator[None]:
    kept = structlog.get_config()
    yield
    structlog.configure(**kept)


def logged_with(share: float) -> None:
    configure_log("info", "json", share)
    structlog.configure(cache_logger_on_first_use=False)


def lines(capsys: pytest.CaptureFixture[str], *names: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [event for event in events if event["event"] in names]


@pytest.mark.usefixtures("kept_configuration")
async def test_deliveries_that_fail_are_always_told(capsys: pytest.CaptureFixture[str]) -> None:
    """With a share of nothing: rejected and released ones, and why; not the decided one."""
    logged_with(0.0)
    bench = make_bench()
    await bench.carry(make_body(ticket_id="good"))
    await bench.carry("{")
    bench.engine.error = EngineBusy(1, 2)
    await bench.carry(make_body(ticket_id="busy"))
    told = lines(capsys, "delivery_finished", "ticket_rejected", "delivery_released")

    assert [
        ("ticket_rejected", None),
        ("delivery_finished", "rejected"),
        ("delivery_released", None),
        ("delivery_finished", "released"),
    ] == [(line["event"], line.get("result")) for line in told]


@pytest.mark.usefixtures("kept_configuration")
async def test_requests_that_fail_are_always_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the caller's fault or of ours."""
    logged_with(0.0)
    async with open_bench() as bench:
        await bench.post(make_request())
        await bench.post(b"{")
        bench.engine.error = EngineBusy(1, 2)
        await bench.post(make_request())

    assert [422, 503] == [line["status"] for line in lines(capsys, "request_finished")]


@pytest.mark.usefixtures("kept_configuration")
async def test_a_share_of_those_that_go_well(capsys: pytest.CaptureFixture[str]) -> None:
    """About that many, and the same ones again; all of them unless it is set."""

    async def told(share: float) -> list[str]:
        logged_with(share)
        bench = make_bench()
        for number in range(300):
            await bench.carry(make_body(ticket_id=f"t-{number}"))
        return [line["ticket_id"] for line in lines(capsys, "delivery_finished")]

    some, again, everything = await told(0.2), await told(0.2), await told(1.0)

    assert 30 <= len(some) <= 90
    assert some == again
    assert 300 == len(everything)


@pytest.mark.usefixtures("kept_configuration")
async def test_other_events_are_not_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    """What happens to the process is told whole."""
    logged_with(0.0)
    make_bench().lifecycle.ready()

    assert ["ready"] == [line["event"] for line in lines(capsys, "ready")]
