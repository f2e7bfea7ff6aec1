"""What the commands print about runs, and how they end."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click import Command

from tests.factories import make_provenance
from tests.unit.quality.bench import draw_results, make_header
from worker.cli.calibrate import calibrate
from worker.cli.compare import compare
from worker.cli.evaluate import evaluate
from worker.decision.policy_file import read_policy
from worker.errors import UsageError
from worker.quality.run_file import AskedQuestion, Failure, Result, Source, open_run
from worker.rulebook import binding_of

QUESTIONS = {"q": AskedQuestion(type="choice", options=("a", "b", "c"))}
RESULTS = draw_results(np.random.default_rng(3), 400, temperature=2.0)
HERE = Source(target="local", model="tiny", provenance=make_provenance())


def write_run(path: Path, results: Sequence[Result] = RESULTS, source: Source = HERE) -> str:
    with open_run(path, make_header(questions=QUESTIONS, source=source)) as run:
        run._file.append([one.model_dump_json(exclude_none=True) for one in results])
    return str(path)


def call(command: Command, *arguments: str) -> Any:
    return command.main(list(arguments), standalone_mode=False)


def test_a_run_is_measured_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without cases; what is required and not met ends with 7."""
    run = write_run(tmp_path / "a.jsonl")
    few = ("--resamples", "20")
    assert 0 == call(evaluate, "--run", run, *few, "--require", "q.accuracy.low>=0.3")
    shown = capsys.readouterr().out
    assert "desk@3, tiny" in shown
    assert "400/400" in shown
    assert "400 cases" in shown
    assert 7 == call(evaluate, "--run", run, *few, "--json", "--require", "ece<0.001")
    told = capsys.readouterr()
    assert [told.err.strip()] == [f"evaluate: {text}" for text in json.loads(told.out)["unmet"]]
    with pytest.raises(UsageError, match="needs --cases"):
        call(evaluate)
    with pytest.raises(UsageError, match="needs --question-set"):
        call(evaluate, "--cases", "x.csv")


def test_a_run_without_any_answer_falls_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was required, but nothing was measured either."""
    failure = Failure(code="prompt_too_long")
    failed = [one.model_copy(update={"answers": {}, "failure": failure}) for one in RESULTS[:3]]
    run = write_run(tmp_path / "a.jsonl", failed)

    assert 7 == call(evaluate, "--run", run, "--resamples", "20")
    assert "evaluate: not one case was answered: prompt_too_long\n" == capsys.readouterr().err


def test_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit that is passed is named and ends with 7; flips are listed up to a number."""
    turned = [
        one.model_copy(
            update={
                "answers": {
                    "q": one.answers["q"].model_copy(
                        update={"probabilities": one.answers["q"].probabilities[::-1]}
                    )
                }
            }
        )
        for one in RESULTS[:40]
    ]
    before = write_run(tmp_path / "a.jsonl")
    after = write_run(tmp_path / "b.jsonl", [*turned, *RESULTS[40:]])
    limits = ("--max-flips", "0", "--max-shift", "0", "--min-accuracy")
    assert 0 == call(compare, before, before, *limits, "0.1", "--resamples", "20")
    capsys.readouterr()
    assert 7 == call(compare, before, after, *limits, "0.99", "--flips", "5", "--resamples", "20")
    told = capsys.readouterr()
    assert 3 == len(told.err.splitlines())
    assert "answers changed, at most 0" in told.err
    assert "c000000" in told.out
    assert "flips more in --json" in told.out
    call(compare, before, after, "--json", "--resamples", "20")
    tree = json.loads(capsys.readouterr().out)
    assert tree["all"]["flips"] == len(tree["flips"]) > 5


def test_a_run_becomes_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bound to what answered; a server that does not say needs a manifest."""
    output = tmp_path / "policy.yaml"
    run = write_run(tmp_path / "a.jsonl")
    call(calibrate, "--run", run, "--output", str(output), "--max-error", "0.3")
    policy = read_policy(output.name, output.read_bytes())
    assert "question (" in capsys.readouterr().out
    assert "ab" * 32 == policy.bound_to.model_sha256
    assert "at most 0.3 of the accepted answers wrong" in policy.description
    assert policy.temperatures.question_sets["desk@3"]["q"] > 1.2

    far = write_run(tmp_path / "b.jsonl", source=Source(target="http://h", model="m"))
    asked = ("--run", far, "--output", str(output), "--min-coverage", "0.5", "--json")
    with pytest.raises(UsageError, match=r"http://h does not say .* --manifest"):
        call(calibrate, *asked)
    manifest = tmp_path / "manifest.json"
    manifest.write_text("{}")
    with pytest.raises(UsageError, match="has no part bound_to"):
        call(calibrate, *asked, "--manifest", str(manifest))
    bound = binding_of(make_provenance(prompt={"orders": 2}))
    manifest.write_text(json.dumps({"bound_to": bound.model_dump(mode="json")}))
    call(calibrate, *asked, "--manifest", str(manifest))
    told = json.loads(capsys.readouterr().out)
    assert told["questions"]["q"]["accept"]["bound"] >= 0.5
    assert 2 == read_policy(output.name, output.read_bytes()).bound_to.prompt.orders


def test_a_policy_needs_one_goal(tmp_path: Path) -> None:
    """Not none, and not two."""
    asked = ("--run", "a.jsonl", "--output", str(tmp_path / "p.yaml"))
    for goal in ((), ("--max-error", "0.1", "--min-coverage", "0.5")):
        with pytest.raises(UsageError, match="needs one of"):
            call(calibrate, *asked, *goal)


def test_a_question_without_a_threshold_says_what_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In accepted cases, and accepts nothing until then."""
    output = tmp_path / "policy.json"
    run = write_run(tmp_path / "a.jsonl")
    call(calibrate, "--run", run, "--output", str(output), "--max-error", "0.001")
    assert "accepted cases)" in capsys.readouterr().out
    policy = read_policy(output.name, output.read_bytes())
    assert policy.profiles["default"].question_sets["desk@3"]["q"].accept is None
