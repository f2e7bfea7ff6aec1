"""Reading an outcome to replay it, and the settings that it tells."""

import json
from typing import Any

import pytest

from tests.factories import QUESTIONS, make_outcome, make_provenance
from worker.decision.outcome import Outcome, QuestionSetProvenance, RuntimeProvenance
from worker.decision.overflow import Overflow
from worker.errors import UsageError
from worker.replay import read_outcome, replay, settings_of
from worker.settings import load_settings

SECRET = "jane-doe"


def at_temperature(temperature: float) -> str:
    tree = make_outcome().as_dict()
    tree["answers"]["desk"]["verdict"]["temperature"] = temperature
    return json.dumps(tree)


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        read_outcome("o.json", text)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_published_outcome_is_read_back() -> None:
    """Every field that goes out comes in again, to the last bit."""
    outcome = make_outcome(metadata={"tenant": "a"})

    assert outcome.as_dict() == read_outcome("o.json", outcome.as_json()).as_dict()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "o.json: "),
        ("[]", "o.json: no outcome: input should be"),
        ("{}", "no outcome: outcome_id: field required"),
        (json.dumps({"schema": SECRET}), "no outcome: schema: "),
        (make_outcome().as_json() * 2, "o.json: "),
        *(
            (at_temperature(value), "verdict.temperature: input should be ")
            for value in (0, -1, 1001, 1e308)
        ),
        (make_outcome(status="rejected", answers=None).as_json(), "the ticket was rejected"),
    ],
)
def test_what_is_no_decided_outcome_is_refused(text: str, message: str) -> None:
    """With the file and the place, and nothing that was found there."""
    assert message in refusal(text)


def test_an_outcome_tells_the_settings_that_bits_depend_on() -> None:
    """Under the settings' own names; what it does not tell is left to the command line."""
    runtime: dict[str, Any] = {"batching": "packed", "gpu_layers": -1, "ubatch_tokens": 64}
    runtime |= {"kv_type": "f32", "flash_attention": "off"}
    told = make_provenance(prompt={"orders": 2})
    told = told.model_copy(update={"runtime": told.runtime.model_copy(update=runtime)})
    bare = RuntimeProvenance(
        worker="0", llama_cpp_python="0", llama_cpp="b1", system_info="", backend="cpu",
        gpu_layers=0, batching="exact",
    )  # fmt: skip

    whole = {
        "overflow": "reject",
        "window_tokens": 0,
        "window_question_tokens": 0,
        "window_overlap_tokens": 0,
    }
    assert {**runtime, **whole, "orders": 2} == settings_of(make_outcome(provenance=told))
    assert {"batching": "exact", "gpu_layers": 0, **whole} == settings_of(
        make_outcome(provenance=make_provenance(runtime=bare))
    )


def test_an_outcome_tells_the_windows_of_a_long_state() -> None:
    """Their sizes and how their answers were put together; not how many there may be."""
    overflow = Overflow("window", 512, 128, 64, 4, "max", "noisy_or")
    told = settings_of(make_outcome(provenance=make_provenance().in_windows(overflow, 3)))

    assert {
        "overflow": "window",
        "window_tokens": 512,
        "window_question_tokens": 128,
        "window_overlap_tokens": 64,
        "max_windows": 1024,
        "aggregation": "max",
        "noul_aggregation": "noisy_or",
    } == {
        name: told[name] for name in told if "window" in name or "aggreg" in name or "over" in name
    }
    assert told == {name: getattr(load_settings(told), name) for name in told}


@pytest.mark.parametrize(
    ("question_set", "state", "questions", "message"),
    [
        (False, "x", None, "the ticket brought its own questions: give --questions"),
        (True, "x", None, "the ticket asked triage@3: give --question-sets, or --questions"),
        (False, "x", {"q": {"type": SECRET}}, "questions.q: type must be one of"),
        (False, "\udcff", QUESTIONS, "lone surrogate"),
    ],
)
async def test_what_the_ticket_asked_must_be_there(
    question_set: bool, state: str, questions: dict[str, Any] | None, message: str
) -> None:
    """Nothing is loaded for a ticket that cannot be asked."""
    asked = QuestionSetProvenance(name="triage", version=3, sha256="1" * 64)
    outcome: Outcome = make_outcome(
        provenance=make_provenance(question_set=asked if question_set else None)
    )

    with pytest.raises(UsageError) as caught:
        await replay(load_settings({}), outcome, state, questions)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_a_policy_is_given_only_for_an_outcome_that_names_one() -> None:
    """Nothing is loaded before that is known."""
    with pytest.raises(UsageError, match="decided without a policy: leave --policy out"):
        await replay(load_settings({}), make_outcome(), "x", QUESTIONS, "policy.yaml")
