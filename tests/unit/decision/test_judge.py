"""The policy: scores become verdicts, and a raised threshold accepts nothing more."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_choice, make_noul, make_score
from worker.decision.policy import Rule, judge
from worker.decision.policy_file import (
    Binding,
    Policy,
    mismatches,
    read_policy,
)
from worker.decision.question import Question
from worker.decision.scores import Scores
from worker.errors import UsageError

BOUND: dict[str, Any] = {
    "model_sha256": "ab" * 32,
    "prompt": {"name": "direct", "version": "1"},
    "runtime": {"llama_cpp": "b1", "backend": "cpu", "cpu_variant": "AVX2"},
}


def make_policy(profiles: dict[str, Any]) -> Policy:
    return Policy.model_validate({"name": "desk", "bound_to": BOUND, "profiles": profiles})


def scores(*probabilities: float, label_mass: float = 0.9) -> Scores:
    return Scores(probabilities, label_mass)


@pytest.mark.parametrize(
    ("rule", "disposition", "reasons"),
    [
        ({"accept": 0.7}, "accept", ("threshold_met",)),
        ({"accept": 0.71}, "review", ("probability_below_threshold",)),
        ({"accept": 0.39, "on": "confidence"}, "accept", ("threshold_met",)),
        ({"accept": 0.41, "on": "confidence"}, "review", ("confidence_below_threshold",)),
        ({}, "review", ("no_threshold",)),
        ({"accept": 0.7, "margin": 0.5}, "review", ("margin_too_small",)),
        ({"accept": 0.7, "min_label_mass": 0.95}, "review", ("label_mass_too_small",)),
        ({"accept": 0.7, "abstain_on": ["money"]}, "abstain", ("abstain_option",)),
        ({"accept": 0.7, "abstain_on": ["tech"]}, "accept", ("threshold_met",)),
        ({"accept": 0.9, "abstain": 0.7}, "review", ("probability_below_threshold",)),
        (
            {"accept": 0.9, "abstain": 0.41, "on": "confidence"},
            "abstain",
            ("confidence_below_abstain", "confidence_below_threshold"),
        ),
        (
            {"accept": 0.8, "margin": 0.5, "min_label_mass": 1, "abstain_on": ["money"]},
            "abstain",
            (
                "abstain_option",
                "probability_below_threshold",
                "margin_too_small",
                "label_mass_too_small",
            ),
        ),
    ],
)
def test_every_reason_is_told(
    rule: dict[str, Any], disposition: str, reasons: tuple[str, ...]
) -> None:
    """A threshold that is just met is met, and every rule that applied is named."""
    verdict = judge(Rule.model_validate(rule), make_choice(), scores(0.7, 0.3))

    assert (disposition, reasons, rule.get("accept")) == (
        verdict.disposition,
        verdict.reasons,
        verdict.threshold,
    )


QUESTIONS: tuple[Question, ...] = (make_choice(), make_score(), make_noul())
unit = st.floats(0, 1)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Question, Scores]:
    question = draw(st.sampled_from(QUESTIONS))
    weights = [draw(st.floats(0.001, 1)) for _ in question.options()]
    return question, Scores(tuple(w / sum(weights) for w in weights), draw(unit))


rules = st.fixed_dictionaries(
    {
        "accept": st.none() | unit,
        "on": st.sampled_from(["probability", "confidence"]),
        "margin": unit,
        "min_label_mass": unit,
        "abstain_on": st.lists(st.sampled_from(["money", "tech", "0", "1", "true"]), max_size=2),
    }
)


@given(cases(), rules, st.sampled_from(["accept", "margin", "min_label_mass"]), unit)
def test_raising_a_threshold_never_accepts(
    case: tuple[Question, Scores], rule: dict[str, Any], name: str, raised: float
) -> None:
    """Whatever was for review stays so; what is abstained from stays so, too."""
    higher = {**rule, name: max(raised, rule[name] or 0.0)}
    if rule["accept"] is None and name == "accept":
        return  # a first threshold is no higher one
    before = judge(Rule.model_validate(rule), *case).disposition
    after = judge(Rule.model_validate(higher), *case).disposition

    assert after == before or (before, after) == ("accept", "review")


def test_the_most_specific_rule_counts() -> None:
    """A set's version, a set, a question, a type, the default: the first that there is, whole."""
    profile = make_policy(
        {
            "only": {
                "question_sets": {"desk@2": {"q": {"accept": 0.1}}, "desk": {"q": {"accept": 0.2}}},
                "questions": {"q": {"accept": 0.3}},
                "types": {"choice": {"accept": 0.4}},
                "default": {"accept": 0.5},
            }
        }
    ).profile()

    def threshold(key: str, question: Question, question_set: str | None = None) -> float | None:
        even = scores(*(1 / len(question.options()) for _ in question.options()))
        return profile.decide(key, question, even, question_set).threshold

    assert [0.1, 0.2, 0.3, 0.3, 0.4, 0.5] == [
        threshold("q", make_choice(), "desk@2"),
        threshold("q", make_choice(), "desk@1"),
        threshold("q", make_choice(), "other@1"),
        threshold("q", make_choice()),
        threshold("r", make_choice()),
        threshold("r", make_noul()),
    ]


def test_what_no_rule_names_is_for_review() -> None:
    """Nothing is accepted by default."""
    verdict = make_policy({"only": {}}).profile().decide("q", make_choice(), scores(1.0, 0.0))

    assert ("review", ("no_rule",)) == (verdict.disposition, verdict.reasons)


def test_a_misspelt_option_lets_nothing_through() -> None:
    """An option to abstain on that the question does not have is told, not ignored."""
    rule = {"accept": 0.1, "abstain_on": ["mony"]}
    named = make_policy({"only": {"questions": {"q": rule}}}).profile()
    general = make_policy({"only": {"default": rule}}).profile()

    assert ("unknown_abstain_option",) == named.decide("q", make_choice(), scores(1, 0)).reasons
    assert ("threshold_met",) == general.decide("q", make_choice(), scores(1, 0)).reasons


def test_a_profile_is_chosen() -> None:
    """The only one, or `default`, or the one that is named; else it is wrong usage."""
    several = make_policy({"brave": {}, "shy": {}})

    assert "only" == make_policy({"only": {}}).profile().name
    assert "default" == make_policy({"brave": {}, "default": {}}).profile().name
    assert "shy" == several.profile("shy").name
    with pytest.raises(UsageError, match="choose one of brave, shy"):
        several.profile()
    with pytest.raises(UsageError, match="no profile bold, it has brave, shy"):
        several.profile("bold")


def test_policies_that_bind_differently_hash_differently() -> None:
    """The wording's own number of orders is something else than any number."""
    prompts = [
        BOUND["prompt"],
        {**BOUND["prompt"], "orders": None},
        {**BOUND["prompt"], "orders": 2},
    ]
    hashes = {
        Policy.model_validate(
            {"name": "desk", "bound_to": {**BOUND, "prompt": prompt}, "profiles": {"a": {}}}
        )
        .profile("a")
        .sha256
        for prompt in prompts
    }

    assert len(prompts) == len(hashes)


def test_the_hash_covers_rules_and_profile() -> None:
    """Two profiles, or two thresholds, never share a hash."""
    policies = [make_policy({"a": {"default": {"accept": t}}, "b": {}}) for t in (0.5, 0.6, 0.5)]
    hashes = [policy.profile("a").sha256 for policy in policies]

    assert hashes[0] == hashes[2] != hashes[1]
    assert hashes[0] != policies[0].profile("b").sha256


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model_sha256": "cd" * 32}, "model sha256"),
        ({"prompt": {"name": "direct", "version": "2"}}, "prompt"),
        ({"runtime": {**BOUND["runtime"], "llama_cpp": "b2"}}, "llama.cpp"),
        ({"runtime": {**BOUND["runtime"], "backend": "cuda"}}, "backend"),
        ({"runtime": {**BOUND["runtime"], "cpu_variant": "AVX512"}}, "CPU variant"),
        ({"prompt": {**BOUND["prompt"], "sha256": "12"}}, "prompt sha256"),
    ],
)
def test_a_policy_fits_one_model_prompt_and_build(change: dict[str, Any], told: str) -> None:
    """What differs is named, with both sides."""
    here = Binding.model_validate({**BOUND, "prompt": {**BOUND["prompt"], "sha256": "34"}})
    bound = Binding.model_validate({**BOUND, **change})

    [fault] = mismatches(bound, here)
    assert fault.startswith(f"{told}: made for ")
    assert ", here " in fault
    assert [] == mismatches(Binding.model_validate(BOUND), here)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nname: b", "p.yaml: line 2 column 1: the key is repeated"),
        ("name: a", "p.yaml: bound_to: field required"),
        ("- a", "p.yaml: must be an object"),
    ],
)
def test_a_wrong_file_is_named_with_the_place(text: str, message: str) -> None:
    """File and place, in one line."""
    with pytest.raises(UsageError) as caught:
        read_policy("p.yaml", text.encode())

    assert message == str(caught.value)
