"""From labelled cases to a policy that one model starts with, and no other."""

import hashlib
import json
from pathlib import Path

from tests.acceptance.conftest import Run
from tests.tiny_gguf import Kind, write_tiny_gguf
from worker.cli.calibrate import calibrate

SET = {
    "name": "triage",
    "version": 1,
    "questions": {"refund": {"type": "noul", "instructions": "Is money wanted back?"}},
}


def test_from_cases_to_a_policy(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    """A run falls short of a requirement, and becomes a policy for the model that answered it."""
    cases, questions = tmp_path / "cases.csv", tmp_path / "triage.json"
    rows = [f"please {'undo it ' * (n % 7)} {n},{'yes' if n % 3 else 'no'}" for n in range(60)]
    cases.write_text("\n".join(["text,refund", *rows]))
    questions.write_text(json.dumps(SET))
    asked = ("--cases", str(cases), "--column", "text", "--question-set", str(questions))
    file, policy = tmp_path / "cases.run.jsonl", tmp_path / "policy.yaml"

    done = run(
        "evaluate", *asked, "--model", str(tiny_model), "--resamples", "20", "--json",
        "--require", "refund.accuracy>=0", "--require", "accuracy>1", "--no-prove-build",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert (7, 60, {}) == (
        done.returncode,
        told["summary"]["cases"],
        told["summary"]["failures"],
    )
    assert done.stderr.startswith("evaluate: accuracy is 0.")
    assert 61 == len(file.read_text().splitlines())

    # In this process, for the time that another takes to start.
    calibrate.main(
        ["--run", str(file), "--max-error", "0.9", "--output", str(policy)], standalone_mode=False
    )
    manifest = ("manifest", "--policy", str(policy), "--json", "--no-prove-build", "--model")
    fits = run(*manifest, str(tiny_model))
    assert "triage-1" == json.loads(fits.stdout)["policy"]["name"]

    other = write_tiny_gguf(tmp_path / "other.gguf", Kind.GEMMA3)
    refused = run(*manifest, str(other))
    assert 2 == refused.returncode
    for path in (tiny_model, other):
        assert hashlib.sha256(path.read_bytes()).hexdigest() in refused.stderr
