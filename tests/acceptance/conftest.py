"""The real command line as a subprocess, an emulator on a socket, a tiny model."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests import emulators
from tests.emulators import CREDENTIALS, REGION
from tests.tiny_gguf import write_tiny_gguf

PATIENCE_SECONDS = 60.0


@dataclass
class Desk:
    """A queue with its dead-letter queue, a topic, and a subscriber, on the emulator."""

    endpoint_url: str
    sqs: Any
    queue_url: str
    dead_letter_url: str
    topic_arn: str
    subscriber_url: str

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=body)

    def send_tickets(self, tickets: list[dict[str, Any]]) -> None:
        self.send(*(json.dumps(ticket) for ticket in tickets))

    def take(self, queue_url: str, wait_seconds: int = 0) -> list[dict[str, Any]]:
        """Receive and delete up to ten messages."""
        answer = self.sqs.receive_message(
            QueueUrl=queue_url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=wait_seconds,
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        for message in messages:
            self.sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
        return messages

    def take_all(self, queue_url: str) -> list[dict[str, Any]]:
        """Receive and delete everything that is visible now."""
        found: list[dict[str, Any]] = []
        while messages := self.take(queue_url):
            found += messages
        return found

    def outcomes(self, count: int) -> list[dict[str, Any]]:
        """Wait for *count* outcomes."""
        found: list[dict[str, Any]] = []
        for _ in range(int(PATIENCE_SECONDS)):
            found += self.take(self.subscriber_url, wait_seconds=1)
            if len(found) >= count:
                return [json.loads(message["Body"]) for message in found]
        raise AssertionError(f"{len(found)} of {count} outcomes came")

    def hidden(self) -> int:
        """Return how many messages of the queue are in flight."""
        answer = self.sqs.get_queue_attributes(
            QueueUrl=self.queue_url, AttributeNames=["ApproximateNumberOfMessagesNotVisible"]
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessagesNotVisible"])

    def flags(self) -> list[str]:
        return ["--queue-url", self.queue_url, "--topic-arn", self.topic_arn]


@dataclass
class Worker:
    """A running ``decision-worker``; its events are read as they are written."""

    process: subprocess.Popen[str]
    lines: "Queue[str | None]" = field(default_factory=Queue)
    written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.put(line)
        self.lines.put(None)

    def event(self, name: str) -> dict[str, Any]:
        """Wait for the next event of this name."""
        while True:
            try:
                line = self.lines.get(timeout=PATIENCE_SECONDS)
            except Empty:
                raise AssertionError(f"no event {name}; written: {self.written}") from None
            if line is None:
                raise AssertionError(f"ended without event {name}; written: {self.written}")
            self.written.append(line)
            if line.startswith("{") and (found := json.loads(line))["event"] == name:
                return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self._reader.join(timeout=PATIENCE_SECONDS)
        while not self.lines.empty():
            if (line := self.lines.get()) is not None:
                self.written.append(line)
        return code


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def emulator_url() -> Iterator[str]:
    with emulators.moto() as url:
        yield url


@pytest.fixture(scope="session")
def ministack_url() -> Iterator[str]:
    """A second emulator, for what moto lacks; it has a venv of its own: make test-emulators."""
    with emulators.ministack() as url:
        yield url


@pytest.fixture
def desk(emulator_url: str) -> Iterator[Desk]:
    reset = urllib.request.Request(f"{emulator_url}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()
    session = boto3.Session(region_name=REGION, **CREDENTIALS)
    config = Config(retries={"total_max_attempts": 1})
    sqs = session.client("sqs", endpoint_url=emulator_url, config=config)
    sns = session.client("sns", endpoint_url=emulator_url, config=config)

    def queue(name: str, **attributes: str) -> tuple[str, str]:
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return url, answer["Attributes"]["QueueArn"]

    dead_letter_url, dead_letter_arn = queue("tickets-dead")
    redrive = json.dumps({"deadLetterTargetArn": dead_letter_arn, "maxReceiveCount": 5})
    queue_url, _ = queue("tickets", RedrivePolicy=redrive, VisibilityTimeout="60")
    subscriber_url, subscriber_arn = queue("outcomes")
    topic_arn = sns.create_topic(Name="outcomes")["TopicArn"]
    sns.subscribe(
        TopicArn=topic_arn,
        Protocol="sqs",
        Endpoint=subscriber_arn,
        Attributes={"RawMessageDelivery": "true"},
    )
    yield Desk(emulator_url, sqs, queue_url, dead_letter_url, topic_arn, subscriber_url)
    sqs.close()
    sns.close()


@pytest.fixture
def environment(emulator_url: str, cache_dir: Path) -> dict[str, str]:
    """What the subprocess sees: an emulator for AWS, and nothing of ours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "WORKER_"))
    }
    return {
        **kept,
        "AWS_ENDPOINT_URL": emulator_url,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "WORKER_CACHE_DIR": str(cache_dir),
    }


Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Worker]


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Run a command to its end."""

    def run_command(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "worker", *arguments],
            env={**environment, **extra},
            input="",
            capture_output=True,
            text=True,
            timeout=110,
        )

    return run_command


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start commands that go on; what still runs at the end is killed."""
    started: list[Worker] = []

    def start_command(*arguments: str, **extra: str) -> Worker:
        process = subprocess.Popen(
            [sys.executable, "-m", "worker", *arguments],
            env={**environment, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(Worker(process))
        return started[-1]

    yield start_command
    for worker in started:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.wait()
        assert worker.process.stderr is not None
        worker.process.stderr.close()
