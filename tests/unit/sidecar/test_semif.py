"""The SemIf sample's requests, answers, limits and errors."""

import hashlib
import math
import sys
from typing import Any

import pytest

from tests.unit.sidecar.bench import CONTROL, make_decision, make_request, open_bench
from worker.decision.overflow import Overflow
from worker.decision.scores import Reading
from worker.errors import EngineBusy, Rejected


async def test_a_single_decision() -> None:
    """``decision`` is answered with ``result``, its probabilities in the options' order."""
    async with open_bench() as bench:
        answered = await bench.post({"decision": make_decision()})
    result = answered.body["result"]

    assert (200, ["result"]) == (answered.status, list(answered.body))
    assert ("route", ["access", "billing"]) == (result["id"], result["option_ids"])
    assert pytest.approx(1) == sum(result["probabilities"])
    assert 0 < result["allowed_token_mass"] <= 1
    assert ("tiny.gguf", "ab" * 32) == (
        result["model"]["gguf"]["file"],
        result["model"]["gguf"]["sha256"],
    )


async def test_what_an_answer_was_read_from() -> None:
    """Logits, token ids and tokens of each decision, and the hash of the prompt that was put."""
    decisions = [make_decision(id=name, question=f"{name}?") for name in ("one", "another")]
    async with open_bench() as bench:
        answered = await bench.post({"decisions": decisions})
        [evaluation] = bench.engine.evaluations
    results = answered.body["results"]

    for result, branch in zip(results, evaluation.branches, strict=True):
        weights = [math.exp(logit) for logit in result["option_logits"]]
        text = "".join(piece.text for piece in branch.prompt)
        assert pytest.approx(result["probabilities"]) == [w / sum(weights) for w in weights]
        assert [100, 101] == result["answer_token_ids"]
        assert (len(text), 0) == (result["input_tokens"], result["full_vocab_argmax_id"])
        assert hashlib.sha256(text.encode()).hexdigest() == result["prompt_sha256"]
    assert answered.body["timing"]["input_tokens"] == sum(r["input_tokens"] for r in results)
    assert 0 < answered.body["timing"]["prefix_tokens"] < results[0]["input_tokens"]


async def test_a_token_that_the_model_rules_out() -> None:
    """Its logit is the lowest number there is: JSON knows no infinity."""
    async with open_bench() as bench:
        bench.engine.readings[2] = Reading((-math.inf, 0.0), 1.0, 0)
        answered = await bench.post({"decision": make_decision()})

    assert [-sys.float_info.max, 0.0] == answered.body["result"]["option_logits"]
    assert [0.0, 1.0] == answered.body["result"]["probabilities"]


@pytest.mark.parametrize(
    ("decisions", "most"), [(None, 4096), (1, 4096), (2, 4096), (3, 2730), (8, 1024)]
)
async def test_tokens_have_limits_of_their_own(decisions: int | None, most: int) -> None:
    """4,096 for a decision, 8,192 for a request: one token over is 400, and is not cut."""

    def body(state: str) -> dict[str, Any]:
        asked = [make_decision(id=str(n), state=state) for n in range(decisions or 1)]
        return {"decision": asked[0]} if decisions is None else {"decisions": asked}

    async with open_bench() as bench:  # where a character is a token
        await bench.post(body(""))
        used = max(
            sum(len(piece.text) for piece in branch.prompt)
            for branch in bench.engine.evaluations[0].branches
        )
        fits = await bench.post(body("x" * (most - used)))
        refused = await bench.post(body("x" * (most - used + 1)))

    assert (200, 400, False) == (fits.status, refused.status, refused.body["retryable"])
    assert f"{most + 1} tokens, at most {most}" in refused.body["error"]
    if decisions is not None:
        assert (8192, most) == (
            fits.body["timing"]["max_request_tokens"],
            fits.body["timing"]["max_tokens_per_decision"],
        )


async def test_shared_decisions_are_one_evaluation() -> None:
    """``decisions`` are answered with ``results`` in their order, and the engine is asked once."""
    decisions = [make_decision(id=name, question=f"{name}?") for name in ("b", "a")]
    async with open_bench() as bench:
        answered = await bench.post({"decisions": decisions})
        evaluations = bench.engine.evaluations

    assert ["b", "a"] == [result["id"] for result in answered.body["results"]]
    assert 2 == answered.body["timing"]["batch_size"]
    assert [2] == [len(evaluation.branches) for evaluation in evaluations]


async def test_a_long_state_is_not_read_in_windows() -> None:
    """Not even where that is set: the sample's answer tells what one prompt was read from."""
    overflow = Overflow(rule="window", window_tokens=800, question_tokens=200, overlap_tokens=0)
    long = "\n\n".join(f"Paragraph {number}." for number in range(80))
    async with open_bench(overflow=overflow) as bench:
        answered = await bench.post({"decision": make_decision(state=long)})
        evaluations = bench.engine.evaluations

    assert 200 == answered.status  # the fake engine has no context
    assert 1 == len(evaluations)


async def test_a_decision_is_the_question_that_system_one_would_ask() -> None:
    """Both formats come to the same prompt, so to the same probabilities."""
    decision = make_decision()
    question = {
        "type": "choice",
        "instructions": decision["question"],
        "criteria": {option["id"]: option["description"] for option in decision["options"]},
    }
    async with open_bench() as bench:
        one = await bench.post({"decision": decision})
        other = await bench.post(
            make_request(state=decision["state"], questions={"route": question})
        )

    assert one.body["result"]["probabilities"] == list(
        other.body["answers"]["route"]["probabilities"].values()
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"decision": make_decision(), "decisions": []}, "decisions: must not be empty"),
        ({"decision": make_decision(), "more": 1}, "has a field"),
        ({"decision": None}, "exactly one of decision and decisions"),
        ({"decision": []}, "decision: "),
        ({"decisions": {}}, "decisions: "),
        ({"decisions": []}, "decisions: must not be empty"),
        ({"decisions": [make_decision(id=str(n)) for n in range(9)]}, "at most 8"),
        ({"decisions": [make_decision(id="a"), make_decision(id="b", state="another")]}, "state"),
        ({"decisions": [make_decision(), make_decision()]}, "two decisions have the same id"),
        ({"decision": make_decision(options=make_decision()["options"][:1])}, "decision.options: "),
        ({"decision": make_decision(options=[make_decision()["options"][0]] * 2)}, "same id"),
        (
            {"decision": make_decision(
                options=[{"id": str(n), "description": "d"} for n in range(17)])},
            "at most 16",
        ),
        ({"decision": make_decision(state=f"a {CONTROL} b")}, "control token"),
        ({"decision": make_decision(state={CONTROL: 1})}, "control token"),
    ],
)  # fmt: skip
async def test_what_the_sample_refuses(body: Any, message: str) -> None:
    """400 with ``error``, and nothing is evaluated."""
    async with open_bench() as bench:
        answered = await bench.post(body)
        evaluations = bench.engine.evaluations

    assert 400 == answered.status
    assert message in answered.body["error"]
    assert (False, []) == (answered.body["retryable"], evaluations)


async def test_system_one_takes_what_the_sample_refuses() -> None:
    """There the spelling of a control token is plain text."""
    async with open_bench() as bench:
        answered = await bench.post(make_request(state=f"a {CONTROL} b"))

    assert 200 == answered.status


async def test_busy_is_retryable() -> None:
    """503 says so in the body, and says when."""
    async with open_bench() as bench:
        bench.engine.error = EngineBusy(1, 2, 3.0)
        answered = await bench.post({"decision": make_decision()})

    assert (503, "3", True) == (
        answered.status,
        answered.headers["Retry-After"],
        answered.body["retryable"],
    )
    assert ["error", "retryable"] == list(answered.body)


async def test_too_long_is_the_callers_fault() -> None:
    """The sample answers 400 where System One answers 413."""
    async with open_bench() as bench:
        bench.engine.error = Rejected("prompt_too_long", "9 tokens, the context holds 8")
        answered = await bench.post({"decision": make_decision()})

    assert (400, "9 tokens, the context holds 8") == (answered.status, answered.body["error"])


async def test_a_wrong_media_type() -> None:
    """415 in a shape that clients of both formats read, since the body was not looked at."""
    async with open_bench() as bench:
        answered = await bench.post({"decision": make_decision()}, **{"Content-Type": "text/csv"})

    assert 415 == answered.status
    assert answered.body["detail"]["message"] == answered.body["error"]


async def test_questions_make_it_system_one() -> None:
    """Whose unknown fields are ignored, whatever they are called."""
    async with open_bench() as bench:
        answered = await bench.post(make_request(decision={}, decisions=[]))

    assert (200, "model") == (answered.status, next(iter(answered.body)))
