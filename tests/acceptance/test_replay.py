"""`replay`: an outcome from the queue, evaluated again by another process."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Desk, Run, Start
from tests.tiny_gguf import write_tiny_gguf

SECRET = "xyzzy-the-customers-own-words"
STATE = {"mail": f"{SECRET}: the brakes of the bike broke, again!", "language": "en"}
LONG = "\n\n".join(f"{number}. {SECRET}: please help me, again and again." for number in range(60))
QUESTIONS = {
    "team": {
        "type": "choice",
        "instructions": "Who handles this?",
        "criteria": {"billing": "money", "tech": None, "none": "none of these"},
    },
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "cross", "mad"]},
    "refund": {"type": "noul", "instructions": "Is money wanted back?"},
}
SET = {"name": "triage", "version": 2, "questions": QUESTIONS, "defaults": {"orders": 2}}


class Bench:
    """Files of one worker's outcomes, and replays of them."""

    def __init__(self, run: Run, folder: Path, model: Path) -> None:
        self.run, self.folder, self.model = run, folder, model
        self.state = self.write("state.json", STATE)
        self.questions = self.write("questions.json", QUESTIONS)
        self.sets = folder / "sets"
        self.sets.mkdir()
        self.write("sets/triage.json", SET)

    def write(self, name: str, tree: Any) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(tree))
        return path

    def replay(
        self, outcome: Any, *arguments: str, state: Path | None = None, model: Path | None = None,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Replay an outcome; the state is shown nowhere, whatever comes of it."""
        done = self.run(
            "replay", str(self.write("outcome.json", outcome)),
            "--state", f"@{state or self.state}", "--model", str(model or self.model), *arguments,
            **environment,
        )  # fmt: skip
        assert SECRET not in done.stdout + done.stderr
        return done


@pytest.fixture
def bench(run: Run, tmp_path: Path, tiny_model: Path) -> Bench:
    return Bench(run, tmp_path, tiny_model)


def outcomes_of(bench: Bench, desk: Desk, start: Start) -> dict[str, Any]:
    """Let a worker answer a ticket with QUESTIONS, one with a set, a long one; by ticket id."""
    desk.send_tickets(
        [
            {"ticket_id": "own", "state": STATE, "questions": QUESTIONS},
            {"ticket_id": "set", "state": STATE, "question_set": "triage"},
            {"ticket_id": "long", "state": LONG, "questions": QUESTIONS},
        ]
    )
    worker = start(
        "run", "--model", str(bench.model), "--question-sets", str(bench.sets),
        "--kv-type", "f32", "--overflow", "window", "--window-tokens", "512",
        "--wait-seconds", "1", *desk.flags(),
    )  # fmt: skip
    found = {outcome["ticket_id"]: outcome for outcome in desk.outcomes(3)}
    assert 0 == worker.stop()
    return found


def test_an_outcome_is_replayed_to_the_last_bit(bench: Bench, desk: Desk, start: Start) -> None:
    """With the questions or the set, whatever the environment says; else what differs is named."""
    outcomes = outcomes_of(bench, desk, start)
    own, asked = ("--questions", str(bench.questions)), ("--question-sets", str(bench.sets))

    same = [
        bench.replay(outcomes["own"], *own, WORKER_ORDERS="3", WORKER_KV_TYPE="q8_0"),
        bench.replay(outcomes["set"], *asked, "--threads", "1", WORKER_POLICY="none.yaml"),
        bench.replay(
            outcomes["long"], *own, state=bench.write("long.json", LONG), WORKER_OVERFLOW="reject"
        ),
    ]
    assert ["replay: 3 answers, all probabilities are the same to the last bit\n"] * 3 == [
        done.stdout for done in same
    ]
    assert [0, 0, 0] == [done.returncode for done in same]
    assert 1 < outcomes["long"]["provenance"]["windows"]["count"]

    changed = QUESTIONS | {"refund": QUESTIONS["refund"] | {"instructions": "Is it urgent?"}}
    bench.write("sets/triage.json", SET | {"questions": changed})
    other_set = bench.replay(outcomes["set"], *asked)
    assert 7 == other_set.returncode
    assert "question_set.sha256 " in other_set.stdout
    assert "questions_sha256 " in other_set.stdout
    assert "1 of 3 answers have other probabilities" in other_set.stdout

    other = bench.replay(
        outcomes["own"], *own, "--json",
        state=bench.write("other.json", STATE | {"language": "de"}),
        model=write_tiny_gguf(bench.folder / "other.gguf", seed=8),
    )  # fmt: skip
    told = json.loads(other.stdout)
    assert 7 == other.returncode
    assert ["state", "model.sha256"] == [one["part"] for one in told["differences"]]
    assert outcomes["own"]["provenance"]["model"]["sha256"] == told["differences"][1]["then"]
    assert not told["same"]
    assert all(distance > 0 for distance in told["distances"].values())

    forged = json.loads(json.dumps(outcomes["own"]))
    forged["answers"]["team"]["choice"] = "none"
    forged["answers"]["anger"]["verdict"] |= {"disposition": "accept", "threshold": 0.1}
    forged["disposition"] = "accept"
    found = bench.replay(forged, *own)
    assert 7 == found.returncode
    assert "3 answers, all probabilities are the same to the last bit\n" in found.stdout
    assert "4 parts of the outcome do not follow from the others" in found.stdout
    named = [line.split()[0] for line in found.stdout.splitlines() if line.strip()]
    assert {
        "answers.team.choice",
        "answers.anger.verdict.disposition",
        "answers.anger.verdict.threshold",
        "disposition",
    } < set(named)

    # As if packed: taken from the provenance. The set's orders come with it, whoever asks.
    packed = outcomes["set"]
    packed["provenance"]["runtime"]["batching"] = "packed"
    packed["answers"]["refund"]["noul"] += 1e-9
    noise = bench.replay(packed, *own)
    assert 7 == noise.returncode
    assert "differs" not in noise.stdout
    assert "batching is packed: such answers are equal within noise only" in noise.stdout


def test_a_long_state_is_read_in_windows_and_replayed(
    bench: Bench, desk: Desk, start: Start
) -> None:
    """Where the set says so; the outcome tells what it takes to read the same windows again."""
    defaults = {"overflow": "window", "noul_aggregation": "noisy_or"}
    bench.write("sets/triage.json", SET | {"defaults": defaults})
    long = "\n\n".join(
        f"{SECRET} {number}: please help, the team is angry." for number in range(60)
    )
    state = bench.write("long.json", long)
    asked = {"ticket_id": "set", "state": long, "question_set": "triage"}
    desk.send_tickets([asked, {"ticket_id": "own", "state": long, "questions": QUESTIONS}])
    worker = start(
        "run", "--model", str(bench.model), "--question-sets", str(bench.sets),
        "--context-tokens", "512", "--max-windows", "64", "--wait-seconds", "1", *desk.flags(),
    )  # fmt: skip
    outcomes = {outcome["ticket_id"]: outcome for outcome in desk.outcomes(2)}
    assert 0 == worker.stop()
    windows = outcomes["set"]["provenance"]["windows"]

    assert "prompt_too_long" == outcomes["own"]["error"]["code"]
    assert windows["count"] > 4
    assert ("mean", "noisy_or", 512) == (
        windows["aggregation"],
        windows["noul_aggregation"],
        windows["window_tokens"],
    )
    assert SECRET not in json.dumps(outcomes) + "".join(worker.written)
    again = bench.replay(
        outcomes["set"], "--question-sets", str(bench.sets), state=state,
        WORKER_OVERFLOW="reject", WORKER_WINDOW_OVERLAP_TOKENS="0",
    )  # fmt: skip
    assert (0, "replay: 3 answers, all probabilities are the same to the last bit\n") == (
        again.returncode,
        again.stdout,
    )
