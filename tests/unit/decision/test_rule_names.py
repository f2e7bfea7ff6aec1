"""Names in a policy are those of sets, questions and options that are there, or are named."""

import json
from typing import Any

import pytest

from tests.factories import QUESTIONS, make_provenance
from worker.decision.policy_file import Policy, read_policy
from worker.decision.question_set import QuestionSet
from worker.decision.rule_names import unknown_names
from worker.errors import UsageError
from worker.rulebook import binding_of

FIRST = QuestionSet.model_validate({"name": "desk", "version": 1, "questions": QUESTIONS})
SECOND = QuestionSet.model_validate(
    {"name": "desk", "version": 2, "questions": {"refund": QUESTIONS["refund"]}}
)
BOUND = binding_of(make_provenance()).model_dump(mode="json")


def tree(**fields: Any) -> dict[str, Any]:
    return {"name": "p", "bound_to": BOUND, "profiles": {"only": {}}} | fields


def unknown(rules: dict[str, Any], **fields: Any) -> list[str]:
    policy = Policy.model_validate(tree(profiles={"only": {"question_sets": rules}}, **fields))
    return unknown_names(policy, [FIRST, SECOND])


def test_what_is_there_is_not_named() -> None:
    """By name, in any version; by version; and whatever a ticket may bring along."""
    known = {
        "desk": {"desk": {"accept": 0.9, "abstain_on": ["tech"]}, "refund": {}},
        "desk@2": {"refund": {"abstain_on": ["false"]}},
    }

    assert [] == unknown(known, temperatures={"questions": {"own": 2.0}})


def test_what_is_not_there_is_named_by_its_place() -> None:
    """A misspelt name would leave its rule without effect."""
    assert [
        "temperatures.question_sets.dask: there is no such set",
        "profiles.only.question_sets.desk@3: there is no such set",
        "profiles.only.question_sets.desk@2.desk: the set has no such question",
        "profiles.only.question_sets.desk.desk.abstain_on.1: the question has no such option",
    ] == unknown(
        {
            "desk@3": {"desk": {}},
            "desk@2": {"desk": {}},
            "desk": {"desk": {"abstain_on": ["tech", "tach"]}},
        },
        temperatures={"question_sets": {"dask": {"desk": 2.0}}},
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"profiles": {"only": {"types": {"chioce": {}}}}}, "profiles.only.types.chioce"),
        ({"temperatures": {"types": {"nouls": 2.0}}}, "temperatures.types.nouls"),
        ({"profiles": {"only": {"question_sets": {"a b": {}}}}}, "profiles.only.question_sets.a b"),
        ({"profiles": {"only": {"question_sets": {"a@0": {}}}}}, "profiles.only.question_sets.a@0"),
        (
            {"profiles": {"only": {"default": {"acept": 0.5}}}},
            "profiles.only.default: there is no field 'acept' here",
        ),
        ({"profile": {}}, "there is no field 'profile' here"),
    ],
)
def test_what_can_name_nothing_is_refused(fields: dict[str, Any], told: str) -> None:
    """With the file and the place."""
    with pytest.raises(UsageError) as caught:
        read_policy("p.json", json.dumps(tree(**fields)).encode())
    assert str(caught.value).startswith(f"p.json: {told}")
