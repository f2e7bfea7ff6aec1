"""`ask`, `demo`, `doctor`, `sample-model` and `serve` as a user runs them."""

import hashlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Run, Start
from tests.native import decider
from tests.tiny_gguf import write_tiny_gguf

ASK = (
    "--choice", "team=Who handles this?:billing|tech|none",
    "--score", "anger=How angry is the writer?:calm|cross|furious",
    "--noul", "refund=Is money wanted back?",
)  # fmt: skip


def test_ask_answers_three_types_in_one_call(run: Run, tiny_model: Path) -> None:
    """`ask` prints one System One response for all its questions."""
    done = run("ask", "--model", str(tiny_model), "--state", "My card was charged twice!", *ASK)

    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert answer["model"] == "tiny"
    assert {key: value["type"] for key, value in answer["answers"].items()} == {
        "team": "choice",
        "anger": "score",
        "refund": "noul",
    }
    assert {"input_tokens", "output_tokens"} == set(answer["usage"])


def test_ask_gives_the_same_bits_alone_and_with_others(run: Run, tiny_model: Path) -> None:
    """A question's answer does not depend on what is asked beside it, nor on the process."""
    arguments = ("ask", "--model", str(tiny_model), "--state", "help " * 300)

    together = json.loads(run(*arguments, *ASK).stdout)["answers"]["refund"]
    alone = json.loads(run(*arguments, *ASK[-2:]).stdout)["answers"]["refund"]

    assert alone == together


def test_ask_answers_with_a_decision_models_own_words(run: Run, tmp_path: Path) -> None:
    """A GGUF that llama.cpp marks as a decision model needs no other flags than any other."""
    tiny = decider("lev")
    model = write_tiny_gguf(
        tmp_path / "lev.gguf", tiny.kind, tokenizer=tiny.tokenizer, metadata=dict(tiny.metadata)
    )
    done = run("ask", "--model", str(model), "--state", "My card was charged twice!", *ASK)

    assert done.returncode == 0, done.stderr
    assert ["team", "anger", "refund"] == list(json.loads(done.stdout)["answers"])


def test_ask_can_refuse_control_tokens(run: Run, tiny_model: Path) -> None:
    """By setting; the place is named, the text is not."""
    done = run(
        "ask", "--model", str(tiny_model), "--state", "secret <s>", *ASK,
        "--control-tokens", "reject",
    )  # fmt: skip

    assert done.returncode == 2
    assert "state: the text spells one of the model's control tokens" in done.stderr
    assert "secret" not in done.stderr


def test_ask_reads_state_and_questions_from_files(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    """`--state @file.json` is data, `--questions file` holds System One questions."""
    state, questions = tmp_path / "state.json", tmp_path / "questions.json"
    state.write_text('{"mail": "please help"}')
    questions.write_text('{"q": {"type": "noul", "instructions": "Is help wanted?"}}')

    done = run(
        "ask", "--model", str(tiny_model), "--state", f"@{state}", "--questions", str(questions)
    )

    assert list(json.loads(done.stdout)["answers"]) == ["q"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"q": {"type": "noul", "instructions": "x",}}', "line 1 column"),
        ("{}", "questions: must not be empty"),
        ('{"q": {"type": "boolean"}}', "questions.q: type must be one of"),
        ('{"q": {"type": "choice", "instructions": "x"}}', "questions.q.criteria: field required"),
        ('{"q": {"type": "score", "instructions": "x"}}', "questions.q.criteria: field required"),
        ('{"q": {"type": "noul"}}', "questions.q: needs instructions"),
        ('{"q": 1, "q": 2}', "repeats a key"),
        ("[]", "JSON object"),
    ],
)
def test_ask_names_what_is_wrong_with_questions(
    run: Run, tiny_model: Path, tmp_path: Path, text: str, message: str
) -> None:
    """Bad questions are one line that names file and place, and exit code 2."""
    questions = tmp_path / "questions.json"
    questions.write_text(text)

    done = run("ask", "--model", str(tiny_model), "--state", "x", "--questions", str(questions))

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"error: {questions}: ")
    assert message in done.stderr
    assert done.stdout == ""


def test_sample_model_prints_path_and_checksum(run: Run) -> None:
    """`sample-model` assembles the GGUF, and prints where it is and its SHA-256."""
    done = run("sample-model")

    path, sha256 = done.stdout.splitlines()
    assert done.returncode == 0
    assert hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256


def test_demo_answers_its_tickets(run: Run, tiny_model: Path) -> None:
    """`demo` needs nothing set up, answers 24 tickets with 96 decisions, and leaves with 0."""
    done = run("demo", "--model", str(tiny_model), AWS_ACCESS_KEY_ID="", AWS_ENDPOINT_URL="")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("demo: 24 tickets, 24 outcomes, 96 decisions, ")


@pytest.mark.slow
def test_demo_prints_outcomes_as_json_lines(run: Run, tiny_model: Path) -> None:
    """`demo --json` prints nothing but outcomes on standard output."""
    done = run("demo", "--model", str(tiny_model), "--json")

    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({outcome["outcome_id"] for outcome in outcomes}) == 24
    assert {"decided"} == {outcome["status"] for outcome in outcomes}


def test_doctor_says_what_is_there(run: Run, tiny_model: Path) -> None:
    """`doctor` reports build, model, memory and AWS, and exits 0 when all is well."""
    done = run("doctor", "--model", str(tiny_model))

    assert done.returncode == 0
    for word in ("llama.cpp", "sha256", "context", "threads", "backend", "needs", "aws"):
        assert word in done.stdout


def test_doctor_says_what_is_missing(run: Run, tiny_model: Path) -> None:
    """`doctor` exits with the code of the first thing that is wrong."""
    no_model = run("doctor")
    no_queue = run(
        "doctor", "--model", str(tiny_model),
        "--queue-url", "http://127.0.0.1/1/none", "--topic-arn", "arn:aws:sns:us-east-1:1:none",
    )  # fmt: skip

    assert no_model.returncode == 2
    assert no_queue.returncode == 4
    assert "cannot look at the queue" in no_queue.stdout


def test_serve_answers_over_http(run: Run, start: Start, tiny_model: Path) -> None:
    """The sidecar alone answers System One requests, without any AWS client."""
    worker = start(
        "serve", "--model", str(tiny_model), "--port", "0", AWS_ENDPOINT_URL="http://127.0.0.1:9"
    )
    url = f"http://127.0.0.1:{worker.event('listening')['port']}"
    worker.event("ready")
    body = {
        "model": "jev-latest",
        "state": "please help",
        "questions": {"q": {"type": "noul", "instructions": "Is help wanted?"}},
    }

    ping = http(f"{url}/ping")
    good = http(f"{url}/invocations", body)
    bad = http(f"{url}/invocations", {**body, "questions": {"q": {"type": "choice"}}})
    unknown = http(f"{url}/invocations", {**body, "model": "other"})
    metrics = http(f"{url}/metrics")
    top = run("top", "--url", url, "--every", "0.1", "--once")
    code = worker.stop(signal.SIGTERM)
    nobody = run("top", "--url", url, "--once")

    assert ping == (200, {"status": "ready"})
    assert (good[0], good[1]["answers"]["q"]["type"]) == (200, "noul")
    assert bad[1]["detail"][0]["loc"] == ["body", "questions", "q", "criteria"]
    assert (bad[0], unknown[0]) == (422, 400)
    assert "decision_decisions_total" in metrics[1]
    assert code == 0
    assert "review 100%" in top.stdout, top.stderr
    assert (2, True) == (nobody.returncode, f"no worker answers at {url}" in nobody.stderr)


def http(url: str, body: Any = None) -> tuple[int, Any]:
    """Return status and body, parsed when it is JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as response:
            status, text = response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read().decode()
    return status, json.loads(text) if text.startswith("{") else text


def test_half_a_request_does_not_delay_the_stop(start: Start, tiny_model: Path) -> None:
    """A caller who never finishes its request is not waited for."""
    worker = start("serve", "--model", str(tiny_model), "--port", "0")
    port = worker.event("listening")["port"]
    worker.event("ready")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(
            b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
        )
        started_at = time.monotonic()
        code = worker.stop()

    assert 0 == code
    assert time.monotonic() - started_at < 10


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">/dev/full", "2>/dev/full"])
def test_closed_or_full_streams(environment: dict[str, str], tiny_model: Path, closed: str) -> None:
    """Standard streams that are closed or cannot be written are no bug of ours."""
    command = f"{sys.executable} -m worker ask --model {tiny_model} --state - --noul a=b {closed}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment, input="x", capture_output=True, text=True
    )

    assert done.returncode == (2 if closed == ">/dev/full" else 0), done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--state", "\udcff", "--noul", "a=b"), ("--state", "x", "--choice", "a=b:\udcff|d")],
)
def test_arguments_that_are_not_utf_8(
    run: Run, tiny_model: Path, arguments: tuple[str, ...]
) -> None:
    """Bytes that are no text are refused with their place."""
    done = run("ask", "--model", str(tiny_model), *arguments)

    assert 2 == done.returncode
    assert "lone surrogate" in done.stderr


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"Transfer-Encoding: chunked\r\n\r\n{SECRET}\r\n\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 6\r\n\r\nSECRET",
        b"Content-Length: 8\r\n\r\n{SECRET}",
    ],
)
def test_what_cannot_be_parsed_is_not_logged(
    start: Start, tiny_model: Path, request_bytes: bytes
) -> None:
    """A broken request is a 4xx, and its bytes reach no log."""
    worker = start("serve", "--model", str(tiny_model), "--port", "0")
    port = worker.event("listening")["port"]
    worker.event("ready")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST /invocations HTTP/1.1\r\nHost: x\r\n" + request_bytes)
        answer = connection.recv(4096)
    code = worker.stop()

    assert answer.split(b" ")[1] in (b"400", b"422")
    assert "SECRET" not in "".join(worker.written)
    assert "Traceback" not in "".join(worker.written)
    assert 0 == code
