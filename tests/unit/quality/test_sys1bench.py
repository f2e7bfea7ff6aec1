"""`tools/sys1bench_cases.py`: another project's labelled items as cases and sets of ours."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from worker.decision.question_set import QuestionSet
from worker.decision.strict_file import read_document
from worker.quality.cases import load_cases

TOOL = Path(__file__).parents[3] / "tools" / "sys1bench_cases.py"
CHOICE = {
    "type": "choice",
    "instructions": "Which queue?",
    "criteria": [{"key": "a", "description": "one"}, {"key": "b", "description": "two"}],
    "ground_truth": "b",
    "framing_id": "f0",
}
SCORE = {
    "type": "score",
    "instructions": "How urgent?",
    "criteria": [{"level": 1, "description": "now"}, {"level": 0, "description": "later"}],
    "ground_truth": 1,
}
NOUL = {"type": "noul", "instructions": "Angry?", "criteria": None, "ground_truth": False}


def item(number: int, **questions: Any) -> str:
    return json.dumps(
        {
            "task_id": f"t-{number}",
            "domain": "triage",
            "state": f"text {number}",
            "questions": {"queue": CHOICE, "urgency": SCORE, "angry": NOUL} | questions,
        }
    )


def convert(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    items = folder / "items.jsonl"
    items.write_text("\n".join(lines) + "\n")
    command = [sys.executable, str(TOOL), str(items), str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True)


def test_items_become_cases_and_a_set(tmp_path: Path) -> None:
    """Levels in their order; what is not asked of a case is left out."""
    assert 0 == convert(tmp_path, item(1), item(2)).returncode

    path = tmp_path / "out" / "triage.yaml"
    found = read_document(QuestionSet, path.name, path.read_bytes())
    cases = load_cases(path.with_suffix(".jsonl"), found.questions)
    assert ["later", "now"] == [
        option.description for option in found.questions["urgency"].options()
    ]
    assert [("t-1", {"queue": 1, "urgency": 1, "angry": 1})] == [
        (case.case_id, case.expected) for case in cases[:1]
    ]
    assert 2 == len(cases)


def test_questions_in_other_words_are_refused(tmp_path: Path) -> None:
    """They would be one question with two meanings."""
    done = convert(tmp_path, item(1), item(2, angry=NOUL | {"instructions": "Furious?"}))

    assert 1 == done.returncode
    assert "t-2: angry is worded in several ways" in done.stderr
