"""What replaying an outcome shows: the same bits, or which part is another."""

import math
from typing import Any

import pytest

from tests.factories import make_choice, make_noul, make_outcome, make_provenance, make_scored
from worker.decision.derived import Contradiction
from worker.decision.outcome import (
    Outcome,
    PolicyProvenance,
    Provenance,
    QuestionSetProvenance,
    outcome_id,
)
from worker.decision.overflow import Overflow
from worker.decision.replayed import Difference, Replayed, compare

STATE = {"mail": "jane-doe wants her money back"}
SET = QuestionSetProvenance(name="triage", version=3, sha256="1" * 64)


def published(provenance: Provenance | None = None, **fields: Any) -> Outcome:
    whole = provenance or make_provenance(questions_sha256="2" * 64)
    identity = outcome_id(
        ticket_id="t-1", state=STATE, questions=whole.questions_sha256 or "", provenance=whole
    )
    return make_outcome(provenance=whole, outcome_id=identity, **fields)


def with_runtime(**parts: Any) -> Provenance:
    whole = make_provenance(questions_sha256="2" * 64)
    return whole.model_copy(update={"runtime": whole.runtime.model_copy(update=parts)})


def differences(now: Outcome, then: Outcome | None = None) -> list[tuple[str, str, str | None]]:
    found = compare(then or published(), now, STATE).differences
    return [(one.part, one.then, one.now) for one in found]


def test_equal_outcomes_are_the_same() -> None:
    """Nothing differs, and every question's distance is zero."""
    expected = Replayed(
        published().outcome_id, packed=False, distances={"desk": 0.0}, differences=()
    )

    assert expected == compare(published(), published(), STATE)
    assert expected.same


def test_the_last_bit_counts() -> None:
    """One unit in the last place of a probability, or of the label mass, is a difference."""
    up = math.nextafter(0.9, 1)
    now = published(answers={"desk": make_scored(make_choice(), up, 0.1)})
    mass = published(answers={"desk": make_scored(make_choice(), 0.9, 0.1, label_mass=up)})

    for other in (now, mass):
        replayed = compare(published(), other, STATE)
        assert not replayed.same
        assert {"desk": up - 0.9} == replayed.distances


def test_what_is_read_beside_probabilities_counts() -> None:
    """Whether the likeliest token was a label, and the window that was read."""
    answer = make_scored(make_choice(), 0.9, 0.1)
    for field, value in (("top_is_label", False), ("window", 3)):
        now = published(answers={"desk": answer.model_copy(update={field: value})})
        replayed = compare(published(), now, STATE)

        assert not replayed.same
        assert [f"answers.desk.{field}"] == [one.part for one in replayed.contradictions]


def test_an_outcome_that_contradicts_itself_or_its_id_is_not_the_same() -> None:
    """Though every probability is."""
    choice = Contradiction("answers.desk.choice", "other", "money")

    assert not compare(published(), published(), STATE, contradictions=(choice,)).same
    assert not compare(make_outcome(), make_outcome(), STATE).same


def test_questions_that_were_asked_otherwise_are_not_the_same() -> None:
    """With other options, of another type, or not at all: there is nothing to subtract."""
    other = make_choice(criteria={"money": None, "other": None})
    nows = [
        {"desk": make_scored(other, 0.9, 0.1)},
        {"desk": make_scored(make_noul(), 0.9, 0.1)},
        {"more": make_scored(make_choice(), 0.9, 0.1)},
    ]
    shown = [compare(published(), published(answers=now), STATE) for now in nows]

    assert [{"desk": None}, {"desk": None}, {"desk": None, "more": None}] == [
        replayed.distances for replayed in shown
    ]
    assert not any(replayed.same for replayed in shown)


def test_another_state_is_told_by_the_outcomes_id() -> None:
    """The outcome has no text of the state, but its id depends on it."""
    [difference] = compare(published(), published(), {"mail": "jane-doe"}).differences

    assert ("state", f"outcome id {published().outcome_id}") == (difference.part, difference.then)
    assert "jane" not in str(difference)


@pytest.mark.parametrize(
    ("now", "part", "was", "is_now"),
    [
        (make_provenance(model={"sha256": "f" * 64}), "model.sha256", "ab" * 32, "f" * 64),
        (make_provenance(prompt={"sha256": "f" * 64}), "prompt.sha256", "cd" * 32, "f" * 64),
        (make_provenance(hardware="a GPU"), "hardware", "a processor (2 cores, x86_64)", "a GPU"),
        (with_runtime(batching="packed"), "runtime.batching", "exact", "packed"),
        (with_runtime(llama_cpp="b2"), "runtime.llama_cpp", "b1", "b2"),
        (with_runtime(backends=("CPU", "CUDA")), "runtime.backends", "CPU", "CPU CUDA"),
        (with_runtime(cpu_variant=""), "runtime.cpu_variant", "AVX2", ""),
    ],
)
def test_each_part_is_named_with_both_values(
    now: Provenance, part: str, was: str, is_now: str
) -> None:
    """As it stands in the outcome, so that it can be found there."""
    now = now.model_copy(update={"questions_sha256": "2" * 64})

    assert [(part, was, is_now)] == differences(published(now))


def test_questions_and_sets_are_told_by_their_hashes() -> None:
    """A set of the same name and version can hold other questions on another machine."""
    then = published(make_provenance(questions_sha256="2" * 64, question_set=SET))
    changed = SET.model_copy(update={"sha256": "3" * 64})
    by_name = published(make_provenance(questions_sha256="4" * 64, question_set=changed))
    given = published(make_provenance(questions_sha256="2" * 64))

    assert [
        ("question_set.sha256", "1" * 64, "3" * 64),
        ("questions_sha256", "2" * 64, "4" * 64),
    ] == differences(by_name, then)
    assert [] == differences(given, then)


def test_what_cannot_move_a_probability_is_not_compared() -> None:
    """Names of the same file, the policy, and what an older outcome does not tell."""
    policy = PolicyProvenance(name="desk", profile="default", sha256="5" * 64)
    named = make_provenance(model={"name": "a", "file": "a.gguf"}, questions_sha256="2" * 64)
    then = published(named.model_copy(update={"policy": policy}))

    assert [] == differences(published(with_runtime(ubatch_tokens=512)), then)


def test_windows_on_either_side_are_told() -> None:
    """Another number of windows, or a state that is read whole here only, or there only."""
    whole = published()
    cut = published(whole.provenance.in_windows(Overflow("window"), 2))
    more = published(whole.provenance.in_windows(Overflow("window"), 3))

    assert ("windows.count", "2", None) in differences(whole, cut)
    assert ("windows.count", "none", "2") in differences(cut, whole)
    assert [("windows.count", "2", "3")] == differences(more, cut)


def test_packed_evaluation_on_either_side_is_said() -> None:
    """Its answers are equal within noise only."""
    packed = published(with_runtime(batching="packed"))

    assert compare(packed, published(), STATE).packed
    assert compare(published(), packed, STATE).packed
    assert [Difference("runtime.batching", "packed", "exact")] == list(
        compare(packed, published(), STATE).differences
    )
