"""The labelled cases of the support desk."""

import json
from collections import Counter

from worker.decision.question_set import load_question_sets
from worker.local.sample_tickets import LABELLED_CASES, SUPPORT_DESK, sample_desk
from worker.quality.cases import load_cases


def test_every_option_of_every_question_is_right_somewhere() -> None:
    """At least two hundred cases in three languages or more, no two alike, none half labelled."""
    (desk,) = load_question_sets([(SUPPORT_DESK.name, SUPPORT_DESK.read_bytes())])
    cases = load_cases(LABELLED_CASES, desk.questions)
    languages = Counter(
        json.loads(line)["language"] for line in LABELLED_CASES.read_text("utf-8").splitlines()
    )

    assert len(cases) >= 200
    assert len({str(case.state) for case in cases}) == len(cases)
    assert len([language for language, count in languages.items() if count >= 20]) >= 3
    for key, question in desk.questions.items():
        seen = {case.expected[key] for case in cases}
        assert set(range(len(question.options()))) == seen, key


def test_the_demo_asks_the_same_questions() -> None:
    """One question set serves the demo and the cases."""
    (desk,) = load_question_sets([(SUPPORT_DESK.name, SUPPORT_DESK.read_bytes())])

    asked = sample_desk().questions
    assert list(asked) == list(desk.questions)
    assert list(asked["team"]["criteria"]) == [
        option.key for option in desk.questions["team"].options()
    ]
