"""JSON lines for batch transform."""

import json

import pytest

from tests.unit.sidecar.bench import LINES, make_decision, make_request, open_bench
from worker.errors import DecodeFailed, Rejected
from worker.sidecar.transform import MAX_LINES, split_lines


def lines(*bodies: object) -> bytes:
    return b"\n".join(
        body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies
    )


async def test_a_line_for_each_line() -> None:
    """In order, each in its own format; a bad line is an error line and spoils no other."""
    body = lines(
        make_request(state="first"),
        b"not json",
        {"decision": make_decision()},
        make_request(questions={}),
        {"decision": {}},
        b"",
        make_request(state="last", ticket_id="mine"),
    )
    async with open_bench() as bench:
        answered = await bench.post(body + b"\n", **LINES)
    answers = [json.loads(line) for line in answered.text.splitlines()]

    assert (200, LINES["Content-Type"]) == (answered.status, answered.headers["Content-Type"])
    assert [None, 422, None, 422, 400, 422, None] == [answer.get("status") for answer in answers]
    assert ["model", "status", "result", "status", "status", "status", "model"] == [
        next(iter(answer)) for answer in answers
    ]
    assert ["questions", "error"] == [answers[3]["detail"][0]["loc"][1], list(answers[4])[1]]
    assert "mine" == answers[-1]["x_worker"]["ticket_id"]
    assert answers[0]["x_worker"]["ticket_id"].endswith("-1")


async def test_what_may_pass_fails_the_whole_body() -> None:
    """Batch transform sends a body again, never a line: so a busy engine is no error line."""
    async with open_bench() as bench:
        bench.engine.script.extend([None, DecodeFailed("no")])
        answered = await bench.post(lines(*[make_request()] * 3), **LINES)

    assert 503 == answered.status
    assert "Retry-After" in answered.headers


async def test_only_a_few_lines_are_evaluated_at_once() -> None:
    """Some side by side, so that all contexts are busy; not all of a long file."""
    async with open_bench() as bench:
        answered = await bench.post(lines(*[make_request()] * 30), **LINES)
        most = bench.engine.most_at_work

    assert (30, 4) == (len(answered.text.splitlines()), most)


async def test_one_route_speaks_system_one_only() -> None:
    """Lines are for ``/invocations``."""
    async with open_bench() as bench:
        answered = await bench.post(lines(make_request()), "/v1/systemone", **LINES)

    assert 415 == answered.status


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"a", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"a\r\n", [b"a\r"]),
        (b"a\n" * MAX_LINES, [b"a"] * MAX_LINES),
    ],
)
def test_lines(body: bytes, expected: list[bytes]) -> None:
    """A line break at the end begins no line; an empty line in the middle is one."""
    assert expected == split_lines(body)


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", "invalid_ticket"), (b"\n", "invalid_ticket"), (b"a\n" * MAX_LINES + b"a", "too_large")],
)
def test_bodies_that_are_refused(body: bytes, code: str) -> None:
    """No line at all, and more than the limit."""
    with pytest.raises(Rejected) as caught:
        split_lines(body)

    assert code == caught.value.code
