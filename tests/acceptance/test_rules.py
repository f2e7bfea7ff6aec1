"""`sets`, `manifest`, `schema`, and `doctor` about question sets and policies, for a user."""

import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.acceptance.conftest import CREDENTIALS, REGION, Run
from worker.decision.question_set import QuestionSet
from worker.decision.schemas import shipped

QUESTIONS = {"refund": {"type": "noul", "instructions": "Is money wanted back?"}}
SETS = {
    "triage-2.json": {
        "name": "triage",
        "version": 2,
        "questions": QUESTIONS,
        "owner": "sup\x1bport",
    },
    "triage-1.json": {"name": "triage", "version": 1, "questions": QUESTIONS},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "sets"
    path.mkdir()
    for name, tree in SETS.items():
        (path / name).write_text(json.dumps(tree))
    return path


def sha256(name: str) -> str:
    return QuestionSet.model_validate(SETS[name]).sha256()


def test_sets_lists_a_folder(run: Run, folder: Path) -> None:
    """A row for each version with a short checksum, or JSON with all of it; no question's text."""
    table = run("sets", "--question-sets", str(folder))
    listed = json.loads(run("sets", "--question-sets", str(folder), "--json").stdout)

    rows = [line.split() for line in table.stdout.splitlines() if "triage@" in line]
    assert 0 == table.returncode
    assert [
        ["triage@1", "1", sha256("triage-1.json")[:12]],
        ["triage@2", "1", sha256("triage-2.json")[:12], r"sup\x1bport"],
    ] == rows
    assert [sha256("triage-1.json"), sha256("triage-2.json")] == [one["sha256"] for one in listed]
    assert "money" not in table.stdout + json.dumps(listed)


def test_sets_names_everything_that_is_wrong(run: Run, folder: Path) -> None:
    """Each file with its place, in one line; exit code 2, and nothing is listed."""
    (folder / "a.yaml").write_text("name: a\nversion: 1\nquestions: {q: {type: boolean}}\n")
    (folder / "b.json").write_text(json.dumps(SETS["triage-1.json"] | {"owner": "sales"}))
    done = run("sets", "--question-sets", str(folder))
    missing = run("sets", "--question-sets", str(folder / "none"))

    assert [2, 2] == [done.returncode, missing.returncode]
    assert "" == done.stdout + missing.stdout
    assert 1 == len(done.stderr.splitlines())
    assert "a.yaml: questions.q: type must be one of choice, score, noul" in done.stderr
    assert "triage@1 had other content in b.json" in done.stderr
    assert "No such file or directory" in missing.stderr


def test_sets_reads_s3(run: Run, emulator_url: str) -> None:
    """With the environment's AWS; a prefix without files and S3 that is not reached are told."""
    session = boto3.Session(region_name=REGION, **CREDENTIALS)
    s3: Any = session.client("s3", endpoint_url=emulator_url)
    s3.create_bucket(Bucket="team-rules")
    for name, tree in SETS.items():
        s3.put_object(Bucket="team-rules", Key=f"sets/{name}", Body=json.dumps(tree).encode())
    s3.close()
    good = run("sets", "--question-sets", "s3://team-rules/sets", "--json")
    empty = run("sets", "--question-sets", "s3://team-rules/none")
    away = run(
        "sets", "--question-sets", "s3://team-rules/sets", AWS_ENDPOINT_URL="http://127.0.0.1:9"
    )
    wrong = run("sets", "--question-sets", "s3:/team-rules")

    assert ["triage", "triage"] == [one["name"] for one in json.loads(good.stdout)]
    assert [0, 2, 4, 2] == [done.returncode for done in (good, empty, away, wrong)]
    assert "s3://team-rules/none: nothing is there" in empty.stderr
    assert "s3://team-rules/sets: cannot list documents in the bucket team-rules" in away.stderr
    assert "--question-sets: value error, must be a path, s3://bucket" in wrong.stderr


def test_a_policy_made_of_the_manifest_fits(
    run: Run, folder: Path, tmp_path: Path, tiny_model: Path
) -> None:
    """`bound_to` is what a policy must say; `doctor` names what is wrong with which file."""
    flags = ("--model", str(tiny_model), "--question-sets", str(folder))
    manifest = run("manifest", *flags, "--json")
    told = json.loads(manifest.stdout)
    policy = tmp_path / "policy.json"
    tree = {"name": "desk", "bound_to": told["bound_to"], "profiles": {"only": {}}}
    policy.write_text(json.dumps(tree))
    good = run("doctor", *flags, "--policy", str(policy))

    tree["bound_to"] = told["bound_to"] | {"model_sha256": "0" * 64}
    policy.write_text(json.dumps(tree))
    (folder / "a.json").write_text("[")
    bad = run("doctor", *flags, "--policy", str(policy))
    lenient = run(
        "doctor", "--model", str(tiny_model), "--policy", str(policy),
        "--policy-mismatch", "review",
    )  # fmt: skip

    assert 0 == manifest.returncode, manifest.stderr
    assert told["model"]["sha256"] == told["bound_to"]["model_sha256"]
    assert {"triage@1": sha256("triage-1.json"), "triage@2": sha256("triage-2.json")} == (
        told["question_sets"]
    )
    assert [0, 2, 0] == [done.returncode for done in (good, bad, lenient)]
    assert "ok  question sets  triage@1 triage@2 (in " in good.stdout
    assert f"ok  policy         desk, profile only (in {policy})" in good.stdout
    assert "ok  policy binding made for this model, prompt and build" in good.stdout
    assert "!!  question sets  " in bad.stdout
    assert "a.json: " in bad.stdout
    assert f"!!  policy binding {policy}: " in bad.stdout
    assert f"model sha256: made for {'0' * 64}, here {told['model']['sha256']}" in bad.stdout
    assert "ok  sha256         " in bad.stdout
    assert "doctor: 2 of " in bad.stdout
    assert "ok  policy binding does not fit: everything goes to review" in lenient.stdout


def test_schema_prints_what_ships(run: Run) -> None:
    """As it lies in the package."""
    assert shipped("outcome") == run("schema", "outcome").stdout
