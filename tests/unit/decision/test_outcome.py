"""The outcome: what is published about one ticket."""

import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import (
    make_choice,
    make_noul,
    make_outcome,
    make_provenance,
    make_score,
    make_scored,
    make_ticket,
)
from worker.decision.canonical import canonical_sha256
from worker.decision.outcome import (
    Outcome,
    outcome_id,
    questions_sha256,
    rejection,
)
from worker.decision.overflow import Overflow
from worker.decision.question import Question
from worker.errors import Rejected

PARTS: dict[str, Any] = {
    "ticket_id": "t-1",
    "state": {"mail": "Hello", "n": 1},
    "questions": "ef" * 32,
    "provenance": make_provenance(),
}

SECRET = "Jane Doe, IBAN DE02 1203"


def reject(**fields: Any) -> Outcome:
    values: dict[str, Any] = {
        "ticket_id": "t-1",
        "body": json.dumps({"state": SECRET}),
        "ticket": None,
        "provenance": make_provenance(),
    }
    return rejection(Rejected("invalid_ticket", "needs a state", "questions.q"), **values | fields)


def test_a_decided_outcome_has_the_documented_fields() -> None:
    """The wire format decision-outcome/1, as subscribers read it."""
    outcome = make_outcome(metadata={"tenant": "a"}).as_dict()

    assert [
        "schema",
        "outcome_id",
        "ticket_id",
        "status",
        "answers",
        "disposition",
        "metadata",
        "usage",
        "timings",
        "provenance",
    ] == list(outcome)
    assert ("decision-outcome/1", "decided", "review") == (
        outcome["schema"],
        outcome["status"],
        outcome["disposition"],
    )
    assert {"tenant": "a"} == outcome["metadata"]
    assert {"input_tokens": 10, "evaluated_tokens": 8, "reused_tokens": 2} == outcome["usage"]
    assert {"waiting_seconds": 0.5, "evaluation_seconds": 0.25} == outcome["timings"]
    assert {
        "model": {
            "name": "tiny",
            "file": "tiny.gguf",
            "sha256": "ab" * 32,
            "architecture": "llama",
            "quantization": "F32",
            "size_bytes": 1234,
        },
        "runtime": {
            "worker": "0.1.0",
            "llama_cpp_python": "0.3.36",
            "llama_cpp": "b1",
            "system_info": "CPU",
            "backend": "cpu",
            "gpu_layers": 0,
            "batching": "exact",
            "backends": ["CPU"],
            "cpu_variant": "AVX2",
            "libraries_sha256": "ef" * 32,
            "kv_type": "f16",
            "flash_attention": "auto",
        },
        "hardware": "a processor (2 cores, x86_64)",
        "prompt": {"name": "direct", "version": "1", "sha256": "cd" * 32},
    } == outcome["provenance"]


def test_a_rejection_has_its_reason_and_no_answers() -> None:
    """A rejection says code, message and place; parts it does not have are left out."""
    outcome = reject().as_dict()

    assert ["schema", "outcome_id", "ticket_id", "status", "error", "metadata", "provenance"] == (
        list(outcome)
    )
    assert "rejected" == outcome["status"]
    assert {
        "code": "invalid_ticket",
        "message": "needs a state",
        "where": "questions.q",
    } == outcome["error"]


def test_a_rejection_holds_no_text_of_the_body() -> None:
    """The body identifies a rejection through its hash only."""
    outcome = reject(ticket=make_ticket(state=SECRET, metadata={"tenant": "a"}))

    assert SECRET not in outcome.as_json()
    assert {"tenant": "a"} == outcome.as_dict()["metadata"]
    assert {} == reject().as_dict()["metadata"]


def test_a_legend_keeps_its_nulls() -> None:
    """Leaving out missing parts stops at the customer's own data."""
    level = {"text": None, "list": [None, {"deep": None}], "z": 1}
    outcome = make_outcome(answers={"q": make_scored(make_score(criteria=[level, "x"]), 1.0, 0.0)})

    assert level == outcome.as_dict()["answers"]["q"]["legend"]["0"]
    assert level == json.loads(outcome.as_json())["answers"]["q"]["legend"]["0"]


def test_the_answers_keep_their_ids_and_order() -> None:
    """Answers come back by question id, in request order."""
    answers = {"z": make_scored(make_noul(), 1.0, 0.0), "a b": make_scored(make_noul(), 0.0, 1.0)}

    assert list(answers) == list(json.loads(make_outcome(answers=answers).as_json())["answers"])


def test_json_is_readable_and_strict() -> None:
    """The JSON text is UTF-8 without escapes, equal to the dict, and never holds NaN."""
    outcome = make_outcome(ticket_id="Größe 😀")

    assert outcome.as_dict() == json.loads(outcome.as_json())
    assert "Größe 😀" in outcome.as_json()
    with pytest.raises(ValueError, match="JSON compliant"):
        make_outcome(answers={"q": make_scored(make_noul(), float("nan"), 0.0)}).as_json()


@pytest.mark.parametrize("probability", [1 / 3, 1e-9, 0.1 + 0.2, 5e-324])
def test_probabilities_are_not_rounded(probability: float) -> None:
    """What was computed arrives to the last bit."""
    outcome = make_outcome(answers={"q": make_scored(make_noul(), probability, 0.5)})

    assert probability == json.loads(outcome.as_json())["answers"]["q"]["noul"]


def test_the_same_ticket_has_the_same_id() -> None:
    """Subscribers drop repeats by an id that every evaluation of a ticket shares."""
    assert outcome_id(**PARTS) == outcome_id(**PARTS | {"provenance": make_provenance()})
    assert re.fullmatch("[0-9a-f]{32}", outcome_id(**PARTS))


def test_the_id_is_that_of_the_documented_parts() -> None:
    """The first 32 hex digits of the SHA-256 over ticket id and hashes."""
    state = hashlib.sha256(b'{"mail":"Hello","n":1}').hexdigest()
    parts = json.dumps(["t-1", state, "ef" * 32, "ab" * 32, "cd" * 32, ""], separators=(",", ":"))

    assert hashlib.sha256(parts.encode()).hexdigest()[:32] == outcome_id(**PARTS)


@pytest.mark.parametrize(
    "changed",
    [
        {"ticket_id": "t-2"},
        {"state": {"mail": "Hello", "n": 2}},
        {"state": {"n": 1, "mail": "Hello"}},
        {"state": '{"mail":"Hello","n":1}'},
        {"questions": "00" * 32},
        {"provenance": make_provenance(model={"sha256": "00" * 32})},
        {"provenance": make_provenance(prompt={"sha256": "00" * 32})},
        {"provenance": make_provenance(prompt={"orders": 2})},
    ],
)
def test_any_other_part_has_another_id(changed: dict[str, Any]) -> None:
    """Another ticket, state, order, question, model or prompt is another outcome."""
    assert outcome_id(**PARTS) != outcome_id(**PARTS | changed)


def test_another_way_to_read_a_long_state_has_another_id() -> None:
    """Windows of another size or overlap, put together in another way, are other answers."""
    ways: list[dict[str, Any]] = [
        {},
        {"window_tokens": 8192},
        {"question_tokens": 512},
        {"overlap_tokens": 0},
        {"aggregation": "max"},
        {"noul_aggregation": "noisy_or"},
    ]
    read = [make_provenance().in_windows(Overflow(**way), 3) for way in ways]
    ids = [outcome_id(**PARTS | {"provenance": one}) for one in (make_provenance(), *read)]

    assert len(set(ids)) == len(ids)


def test_an_outcome_tells_how_a_long_state_was_read() -> None:
    """What is needed to cut the same windows again, and to put their answers together."""
    provenance = make_provenance().in_windows(Overflow(aggregation="max"), 3)

    assert {
        "version": 1,
        "count": 3,
        "window_tokens": 4096,
        "question_tokens": 1024,
        "overlap_tokens": 512,
        "aggregation": "max",
        "noul_aggregation": "max",
    } == make_outcome(provenance=provenance).as_dict()["provenance"]["windows"]


def test_what_does_not_matter_to_the_answer_does_not_change_the_id() -> None:
    """The same answer from another machine or a renamed file is a repeat."""
    moved = make_provenance(model={"name": "other", "file": "other.gguf"}, hardware="another")

    assert outcome_id(**PARTS) == outcome_id(**PARTS | {"provenance": moved})


@pytest.mark.parametrize(
    "changed",
    [
        {"ticket_id": "t-2"},
        {"body": "{"},
        {"provenance": make_provenance(model={"sha256": "00" * 32})},
    ],
)
def test_a_rejection_has_an_id_of_its_own(changed: dict[str, Any]) -> None:
    """Rejections of the same body share an id, those of others do not."""
    assert reject().outcome_id == reject().outcome_id
    assert reject().outcome_id != reject(**changed).outcome_id


@pytest.mark.parametrize(
    "changed",
    [
        {"other": make_choice()},
        {"q": make_choice(instructions="Another?")},
        {"q": make_choice(criteria={"tech": None, "money": "invoices"})},
        {"q": make_choice(criteria={"money": None, "tech": None})},
        {"q": make_noul()},
        {"q": make_choice(), "r": make_noul()},
    ],
)
def test_questions_have_a_hash(changed: dict[str, Question]) -> None:
    """Ids, types, texts and the order of options are what a question set's hash knows."""
    assert questions_sha256({"q": make_choice()}) == questions_sha256({"q": make_choice()})
    assert questions_sha256({"q": make_choice()}) != questions_sha256(changed)


texts = st.text(st.characters(codec="utf-8"), max_size=10)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_different_data_has_different_hashes(first: list[str], second: list[str]) -> None:
    """No two values share a canonical form: borders between parts cannot be shifted."""
    assert (first == second) == (canonical_sha256(first) == canonical_sha256(second))


def test_the_canonical_form_is_documented() -> None:
    """UTF-8, no spaces, fields in their order: anyone can compute the hash again."""
    expected = hashlib.sha256('{"b":"ü","a":[1,null,0.5]}'.encode()).hexdigest()

    assert expected == canonical_sha256({"b": "ü", "a": [1, None, 0.5]})


def test_an_outcome_cannot_be_changed() -> None:
    """What was decided stays as it was decided."""
    with pytest.raises(ValueError, match="frozen"):
        make_outcome().status = "rejected"
