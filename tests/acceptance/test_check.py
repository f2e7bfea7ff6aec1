"""`check` as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import Run

SET = """\
name: desk
version: 1
questions:
  team:
    type: choice
    instructions: Who handles this?
    criteria: {billing: invoices, tech: crashes, none: null}
examples:
  - state: please help
    answers: {team: ANSWER}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "desk.yaml").write_text(SET.replace("ANSWER", "tech"))
    return tmp_path


def test_wording_that_changed_without_a_new_version(run: Run, folder: Path) -> None:
    """A recorded set is checked against its record; exit code 7 says what fell short."""
    recorded = run("check", str(folder), "--record")
    good = run("check", str(folder), "--strict")
    path = folder / "desk.yaml"
    path.write_text(path.read_text().replace("Who handles", "Who takes"))
    changed = run("check", str(folder), "--json")

    assert (0, 0) == (recorded.returncode, good.returncode), good.stdout
    assert "1 question sets, 0 errors, 0 warnings" in good.stdout
    assert 7 == changed.returncode
    assert "version_not_raised" == json.loads(changed.stdout)["rule"]


def test_examples_are_asked(run: Run, folder: Path, tiny_model: Path) -> None:
    """With a model, each example's answer is compared with what its author expects."""
    path = folder / "desk.yaml"
    codes, missed = [], 0
    for answer in ("billing", "tech"):
        path.write_text(SET.replace("ANSWER", answer))
        done = run("check", str(folder), "--record", "--model", str(tiny_model), "--json")
        codes.append(done.returncode)
        missed += done.stdout.count("example_missed")
        (folder / "versions.lock").unlink()
    lenient = run("check", str(folder), "--record", "--model", str(tiny_model),
                  "--min-agreement", "0")  # fmt: skip

    assert {0: 0, 7: 1}[min(codes)] + 1 == missed  # the model answers one of three
    assert 7 == max(codes)
    assert 0 == lenient.returncode


def test_an_example_that_expects_no_option(run: Run, folder: Path) -> None:
    """It is refused with its place."""
    (folder / "desk.yaml").write_text(SET.replace("ANSWER", "sales"))
    done = run("check", str(folder))

    assert 2 == done.returncode
    assert "desk@1: examples.0.answers.team: is none of the 3 options" in done.stderr
