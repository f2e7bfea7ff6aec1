"""Other people's clients and tests against a running sidecar: they decide what System One is."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typesafe_sdk import (
    AsyncTypeSafeClient,
    Choice,
    Noul,
    RetryPolicy,
    Score,
    TypeSafeAuthenticationError,
    TypeSafeBadRequestError,
    TypeSafeClient,
    TypeSafeUnprocessableEntityError,
)

from tests.acceptance.conftest import Start, Worker
from tests.models import sample_model_path

KEY = "one-of-ours"
JEVCOMPAT = Path(sys.executable).with_name("jevcompat")
QUESTIONS = {
    "team": Choice(instructions="Who handles this?", criteria={"billing": "money", "tech": None}),
    "anger": Score(instructions="How angry?", criteria=["calm", {"level": "cross"}, "mad"]),
    "refund": Noul(instructions="Is money wanted back?"),
}
STATE = {"mail": "Second invoice for the same seat, please undo it. " * 40}


def serve(start: Start, model: Path, *flags: str, **extra: str) -> tuple[Worker, str]:
    """Start a sidecar; return it and its root."""
    worker = start("serve", "--model", str(model), "--port", "0", *flags, **extra)
    url = f"http://127.0.0.1:{worker.event('listening')['port']}"
    worker.event("ready")
    return worker, url


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"another\n{KEY}\n")
    return path


def judged(url: str, folder: Path, *flags: str) -> dict[str, list[str]]:
    """Run the conformance suite; return the requirements by level and verdict."""
    report = folder / "report.json"
    done = subprocess.run(
        [str(JEVCOMPAT), "test", url, "--json", str(report), *flags],
        capture_output=True,
        text=True,
        timeout=580,
    )
    verdicts: dict[str, list[str]] = {}
    for result in json.loads(report.read_text())["results"]:
        key = f"{result['level']} {result['status']}"
        verdicts.setdefault(key, []).append(result["id"])
    assert 0 == done.returncode, done.stdout
    return verdicts


@pytest.mark.timeout(600)
def test_the_sample_model_conforms(start: Start, tmp_path: Path) -> None:
    """Every MUST and every SHOULD that applies without keys, on quantised weights."""
    _, url = serve(start, sample_model_path(), "--request-seconds", "120")  # however busy it is
    verdicts = judged(url, tmp_path)

    assert (32, 13) == (len(verdicts["MUST pass"]), len(verdicts["SHOULD pass"]))
    assert not [verdict for verdict in verdicts if verdict.endswith("fail")]


def test_conforms_with_a_key(start: Start, tiny_model: Path, tmp_path: Path, keys: Path) -> None:
    """Every MUST and every SHOULD that applies with keys."""
    _, url = serve(start, tiny_model, "--api-keys-file", str(keys))
    verdicts = judged(url, tmp_path, "--key", KEY)

    assert (32, 15) == (len(verdicts["MUST pass"]), len(verdicts["SHOULD pass"]))
    assert not [verdict for verdict in verdicts if verdict.endswith("fail")]


async def test_the_official_client(start: Start, tiny_model: Path, keys: Path) -> None:
    """Unchanged, blocking or not, compressed or not, it gets the same answer each time."""
    worker, url = serve(start, tiny_model, "--api-keys-file", str(keys))
    encodings: list[str | None] = []

    def note(request: httpx2.Request) -> None:
        encodings.append(request.headers.get("Content-Encoding"))

    answers: list[Any] = []
    for compression in ("zstd", False):
        http = httpx2.Client(event_hooks={"request": [note]})
        with TypeSafeClient(
            base_url=url, api_key=KEY, timeout=60, compression=compression, http_client=http
        ) as client:
            answers.append(client.system_one(state=STATE, questions=QUESTIONS))
            models = client.models.list()
    async with AsyncTypeSafeClient(base_url=url, api_key=KEY, timeout=60) as asking:
        answers.append(await asking.system_one(state=STATE, questions=QUESTIONS))

    assert ["zstd", None] == [encodings[0], encodings[2]]
    assert 3 == len({answer.request_id for answer in answers})
    assert [answers[0].answers] * 3 == [answer.answers for answer in answers]
    assert {"billing", "tech"} == set(answers[0].answers["team"].probabilities)
    assert {"level": "cross"} == answers[0].answers["anger"].legend[1]
    assert ["tiny"] == [model.name for model in models.models]
    assert "Second invoice" not in "".join(worker.written)


def test_the_official_clients_errors(start: Start, tiny_model: Path, keys: Path) -> None:
    """Each of our refusals is the exception that the client has for it, with our words."""
    _, url = serve(start, tiny_model, "--api-keys-file", str(keys))
    once = RetryPolicy(max_retries=0)
    with (
        TypeSafeClient(base_url=url, api_key="wrong", retry=once) as client,
        pytest.raises(TypeSafeAuthenticationError, match="a key is needed"),
    ):
        client.system_one(state="a", questions=QUESTIONS)
    with TypeSafeClient(base_url=url, api_key=KEY, retry=once) as client:
        with pytest.raises(TypeSafeBadRequestError, match="jev-"):
            client.system_one(state="a", questions=QUESTIONS, model="gpt")
        with pytest.raises(TypeSafeUnprocessableEntityError):
            client.system_one(state="a", questions={"q": Choice(criteria={"": None})})


def test_keys_are_read_again(start: Start, tiny_model: Path, keys: Path) -> None:
    """SIGHUP lets new keys in and locks old ones out, without a break."""
    worker, url = serve(start, tiny_model, "--api-keys-file", str(keys))
    keys.write_text("a-new-one\n")
    worker.process.send_signal(signal.SIGHUP)
    worker.event("keys_reloaded")
    statuses = [
        httpx2.get(f"{url}/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code
        for key in (KEY, "a-new-one")
    ]
    code = worker.stop()

    assert ([401, 200], 0) == (statuses, code)


def test_sagemaker_says_where_to_listen(start: Start, tiny_model: Path) -> None:
    """`serve` without a port takes SageMaker's, on all addresses, and answers everybody."""
    worker = start("serve", "--model", str(tiny_model), SAGEMAKER_BIND_TO_PORT="0")
    listening = worker.event("listening")
    worker.event("ready")
    ping = httpx2.get(f"http://127.0.0.1:{listening['port']}/ping")
    code = worker.stop()

    assert ("0.0.0.0", 200, 0) == (listening["host"], ping.status_code, code)
