"""System One's answers and errors."""

from typing import Any

import pytest

from tests.factories import make_choice, make_noul, make_outcome, make_score, make_scored
from tests.unit.sidecar.bench import make_request, open_bench
from worker.decision.overflow import Overflow
from worker.errors import (
    AwsUnavailable,
    Backlogged,
    Bug,
    DeadlinePassed,
    DecodeFailed,
    EngineBusy,
    NotReady,
    Rejected,
    WorkerError,
)
from worker.sidecar.refusal import refusal_of
from worker.sidecar.systemone import write_answer, write_error


def test_an_answer_is_system_ones_and_one_block() -> None:
    """Strict clients see exactly System One's fields; all that is ours is under ``x_worker``."""
    answers = {
        "desk": make_scored(make_choice(), 0.75, 0.25),
        "heat": make_scored(make_score(), 0.0, 0.5, 0.5),
        "refund": make_scored(make_noul(), 0.25, 0.75, label_mass=0.5),
    }
    written = write_answer(make_outcome(answers=answers, metadata={"a": "b"}))
    extension = written.pop("x_worker")

    assert {
        "model": "tiny",
        "answers": {
            "desk": {
                "type": "choice",
                "choice": "money",
                "probabilities": {"money": 0.75, "tech": 0.25},
                "confidence": 0.5,
            },
            "heat": {
                "type": "score",
                "score": 1.5,
                "legend": {"0": "calm", "1": "annoyed", "2": "furious"},
                "probabilities": {"0": 0.0, "1": 0.5, "2": 0.5},
                "confidence": 0.25,
            },
            "refund": {"type": "noul", "noul": 0.25},
        },
        "usage": {"input_tokens": 10, "output_tokens": 0},
    } == written
    assert {"desk": 0.9, "heat": 0.9, "refund": 0.5} == extension["label_mass"]
    assert {"desk": True, "heat": True, "refund": True} == extension["top_is_label"]
    assert ["no_policy"] == extension["verdicts"]["desk"]["reasons"]
    assert ("review", 2, {"a": "b"}) == (
        extension["disposition"],
        extension["usage"]["reused_tokens"],
        extension["metadata"],
    )
    assert 64 == len(extension["provenance_sha256"])
    assert (None, {}) == (extension["windows"], extension["window"])


async def test_a_long_state_is_read_in_windows_for_callers_too() -> None:
    """Where that is set; the answers are System One's, and how they came about is ours."""
    overflow = Overflow(rule="window", window_tokens=800, question_tokens=200, overlap_tokens=60)
    request = make_request(state="\n\n".join(f"Paragraph {number}." for number in range(80)))
    async with open_bench(overflow=overflow) as bench:
        answered = await bench.post(request)
        prompts = [branch for one in bench.engine.evaluations for branch in one.branches]
    extension = answered.body["x_worker"]

    assert 200 == answered.status
    assert len(bench.engine.evaluations) == extension["windows"]["count"] > 2
    assert ("mean", "max") == (
        extension["windows"]["aggregation"],
        extension["windows"]["noul_aggregation"],
    )
    assert ["refund"] == list(extension["window"])
    assert len(prompts) == 3 * extension["windows"]["count"]
    assert set(request["questions"]) == set(answered.body["answers"])


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Rejected("unknown_model", "no"), 400, "api_usage_error"),
        (Rejected("invalid_body", "no"), 400, "api_usage_error"),
        (Rejected("too_large", "no"), 413, "request_too_large"),
        (Rejected("prompt_too_long", "no"), 413, "request_too_large"),
        (EngineBusy(1, 2), 503, "overloaded"),
        (Backlogged(1, 2.0, 1.0), 503, "overloaded"),
        (NotReady("no"), 503, "unavailable"),
        (DecodeFailed("no"), 503, "unavailable"),
        (AwsUnavailable("no"), 503, "unavailable"),
        (DeadlinePassed("no"), 504, "deadline_exceeded"),
        (Bug("no"), 500, "internal_error"),
    ],
)
def test_errors(error: WorkerError, status: int, kind: str) -> None:
    """Status and kind say whether to change the request, to come back, or to report a bug."""
    refusal = refusal_of(error)

    assert (status, kind) == (refusal.status, write_error(refusal)["detail"]["error_type"])
    assert (status == 503) == ("Retry-After" in refusal.headers)


def test_an_invalid_request_names_the_place() -> None:
    """422 has the place in the body, as web frameworks word it."""
    fault = Rejected("invalid_ticket", "must not be empty", "questions.desk.criteria")

    assert {
        "detail": [
            {
                "loc": ["body", "questions", "desk", "criteria"],
                "msg": "must not be empty",
                "type": "invalid_ticket",
            }
        ]
    } == write_error(refusal_of(fault))


@pytest.mark.parametrize(("seconds", "header"), [(0.2, "1"), (7.1, "8")])
def test_come_back_after_the_estimate(seconds: float, header: str) -> None:
    """Retry-After is the engine's estimate in whole seconds, rounded up, at least one."""
    assert {"Retry-After": header} == refusal_of(EngineBusy(1, 2, seconds)).headers


@pytest.mark.parametrize("path", ["/invocations", "/v1/systemone"])
async def test_both_routes_answer(path: str) -> None:
    """A System One request is answered the same on both routes, and no id is in a prompt."""
    async with open_bench() as bench:
        answered = await bench.post(make_request(model="jev-latest"), path)

    assert 200 == answered.status
    assert ["desk", "heat", "refund"] == list(answered.body["answers"])
    assert "application/json" == answered.headers["Content-Type"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'"\xff"', 422),
        (b'{"state": "a", "state": "b", "questions": {}}', 422),
        (b"[" * 5000, 422),
        (b'{"state": 1e999}', 422),
        (make_request(questions={}), 422),
        (make_request(state=None), 422),
        (make_request(questions={"q": {"type": "boolean"}}), 422),
        (make_request(questions={"q": {"type": "score", "criteria": {"0": "a"}}}), 422),
        (make_request(questions={"q": {"type": "choice", "criteria": dict.fromkeys("ab"), "x": 1}}),
         422),
        (make_request(model="other"), 400),
        (make_request(question_set="x", questions=...), 422),
        (make_request(assets={"a": {"type": "image", "data_base64": "AA=="}}), 422),
        (make_request(images=["AA=="]), 422),
        ({"decision": {}, "questions": {}}, 422),
    ],
)  # fmt: skip
async def test_what_the_caller_must_change(body: Any, status: int) -> None:
    """Never a 5xx, and always System One's shape where only System One is spoken."""
    async with open_bench() as bench:
        answered = await bench.post(body, "/v1/systemone")

    assert status == answered.status
    assert ["detail"] == list(answered.body)


async def test_unknown_fields_are_ignored() -> None:
    """Also those that could carry something else than text, as long as they do not."""
    async with open_bench() as bench:
        answered = await bench.post(make_request(assets={}, images=None, other=[1]))

    assert 200 == answered.status
