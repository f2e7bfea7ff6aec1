"""What is wrong at the start is one clear line and an exit code, and nothing is received."""

import hashlib
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import Desk, Run, Start
from tests.tiny_gguf import write_tiny_gguf


def missing(tiny: Path, folder: Path) -> Path:
    return folder / "missing.gguf"


def not_gguf(tiny: Path, folder: Path) -> Path:
    path = folder / "text.gguf"
    path.write_text("this is not a model")
    return path


def truncated(tiny: Path, folder: Path) -> Path:
    path = folder / "truncated.gguf"
    path.write_bytes(tiny.read_bytes()[: tiny.stat().st_size // 2])
    return path


def too_large(tiny: Path, folder: Path) -> Path:
    path = folder / "large.gguf"
    path.write_bytes(tiny.read_bytes())
    with path.open("r+b") as file:
        file.truncate(1 << 42)  # sparse: takes no room
    return path


def read_at_heads(tiny: Path, folder: Path) -> Path:
    metadata = {"llama.decision.type": "kev"}
    return write_tiny_gguf(folder / "kev.gguf", metadata=metadata)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (missing, "No such file"),
        (not_gguf, "not a GGUF file"),
        (truncated, "corrupted or incomplete"),
        (too_large, "GiB of memory"),
        (read_at_heads, "decision model of type kev"),
    ],
)
def test_unusable_model(
    desk: Desk,
    run: Run,
    tiny_model: Path,
    tmp_path: Path,
    make: Callable[[Path, Path], Path],
    message: str,
) -> None:
    """A model that cannot run here ends the process with exit code 3 and the reason."""
    desk.send("{}")

    done = run("run", "--model", str(make(tiny_model, tmp_path)), *desk.flags())

    assert done.returncode == 3
    assert message in last_line(done.stderr)
    assert len(desk.take_all(desk.queue_url)) == 1


def test_model_that_needs_more_memory_than_there_is(run: Run, tiny_model: Path) -> None:
    """Contexts that do not fit are refused with the numbers, before they are made."""
    done = run(
        "serve", "--port", "0", "--model", str(tiny_model),
        "--contexts", "64", "--context-tokens", "16000000",
    )  # fmt: skip

    assert done.returncode == 3
    assert "GiB" in last_line(done.stderr)


def test_unreachable_queue(desk: Desk, run: Run, tiny_model: Path) -> None:
    """A queue that does not answer is exit code 4."""
    done = run(
        "run", "--model", str(tiny_model), *desk.flags(), AWS_ENDPOINT_URL="http://127.0.0.1:9"
    )

    assert done.returncode == 4
    assert "Could not connect" in last_line(done.stderr)


@pytest.mark.parametrize(
    ("queue", "topic"),
    [("-not-there", ""), ("", "-not-there")],
)
def test_wrong_queue_or_topic(
    desk: Desk, run: Run, tiny_model: Path, queue: str, topic: str
) -> None:
    """A queue or topic that does not exist is exit code 4, and nothing is received."""
    desk.send("{}")
    queue_url = desk.queue_url + queue
    topic_arn = desk.topic_arn + topic

    done = run(
        "run", "--model", str(tiny_model), "--queue-url", queue_url, "--topic-arn", topic_arn
    )

    assert done.returncode == 4
    assert last_line(done.stderr).startswith("error: cannot look at the ")
    assert len(desk.take_all(desk.queue_url)) == 1


def test_no_region(desk: Desk, run: Run, tiny_model: Path) -> None:
    """Without a region AWS cannot be used, which is exit code 4."""
    done = run("run", "--model", str(tiny_model), *desk.flags(), AWS_REGION="")

    assert done.returncode == 4
    assert "AWS_REGION" in last_line(done.stderr)


@pytest.mark.parametrize(
    ("arguments", "extra", "message"),
    [
        (("run",), {}, "no model"),
        (("run", "--model", "{model}"), {}, "--queue-url and --topic-arn"),
        (("serve", "--model", "{model}"), {}, "--port"),
        (("serve", "--model", "{model}", "--port", "x"), {}, "--port"),
        (("serve", "--model", "{model}", "--port", "0", "--host", "0.0.0.0"), {}, "--open-to-all"),
        (("serve", "--model", "{model}", "--port", "0", "--api-keys-file", "/none"), {}, "/none"),
        (("run", "--topic-arn", "outcomes"), {}, "--topic-arn: must be an ARN"),
        (("run", "--queue-url", "tickets"), {}, "--queue-url: must be the URL"),
        (("run",), {"WORKER_QEUE_URL": "x"}, "the nearest is WORKER_QUEUE_URL"),
        (("run", "--visibility-seconds", "30", "--heartbeat-seconds", "11"), {}, "3 times"),
        (("run", "--drain-seconds", "60"), {}, "stop_window_seconds"),
        (("run", "--no-such-flag"), {}, "No such option"),
    ],
)
def test_wrong_usage(
    run: Run, tiny_model: Path, arguments: tuple[str, ...], extra: dict[str, str], message: str
) -> None:
    """Wrong settings and wrong usage are exit code 2 and name what is wrong."""
    filled = [argument.format(model=tiny_model) for argument in arguments]

    done = run(*filled, **extra)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def last_line(text: str) -> str:
    """Return the last line, having checked that it is the only one that is no event."""
    lines = [line for line in text.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, text
    return lines[0]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"AWS_PROFILE": "no-such-profile"}, "no-such-profile"),
        ({"AWS_ENDPOINT_URL": "localhost:4566"}, "localhost:4566"),
        ({"AWS_REGION": "no region"}, "no region"),
    ],
)
@pytest.mark.parametrize("command", ["run", "doctor"])
def test_unusable_aws_configuration(
    desk: Desk, run: Run, tiny_model: Path, command: str, extra: dict[str, str], message: str
) -> None:
    """What is wrong with the AWS configuration is exit code 4, not a traceback."""
    done = run(command, "--model", str(tiny_model), *desk.flags(), **extra)

    assert 4 == done.returncode
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_demo_without_its_model(run: Run) -> None:
    """An error inside the demo keeps its exit code and its one line."""
    done = run("demo", "--model", "/no/such/model.gguf")

    assert 3 == done.returncode
    assert "No such file" in last_line(done.stderr.replace("\r", ""))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_while_starting(start: Start, number: signal.Signals) -> None:
    """A stop before the model is loaded ends the process at once, cleanly."""
    worker = start("serve", "--model", "sample", "--port", "0")
    worker.event("listening")

    code = worker.stop(number)

    assert 0 == code
    assert not any("model_loaded" in line for line in worker.written)


def test_a_prompt_file_is_tried_first(run: Run, tiny_model: Path, tmp_path: Path) -> None:
    """A prompt of one's own that cannot be used is exit code 2 and the reason."""
    prompt = tmp_path / "mine-v1.jinja"
    prompt.write_text("{{ state }}")

    done = run(
        "ask", "--model", str(tiny_model), "--prompt-file", str(prompt), "--state", "x",
        "--noul", "n=Is it?",
    )  # fmt: skip

    assert done.returncode == 2
    assert "mine-v1 leaves out label 1" in last_line(done.stderr)


def test_flipped_byte_of_a_packed_model_is_refused(
    run: Run, tiny_model: Path, tmp_path: Path
) -> None:
    """A package that is not what its manifest says serves nothing: exit code 3, both checksums."""
    archive = tmp_path / "model.tar.gz"
    packed = run("package", str(tiny_model), "-o", str(archive))
    with tarfile.open(archive) as found:
        found.extractall(tmp_path / "model", filter="data")
    model = tmp_path / "model" / tiny_model.name
    content = bytearray(model.read_bytes())
    content[-1] ^= 1
    model.write_bytes(content)

    refused = run("serve", "--port", "0", "--model", str(tmp_path / "model"))

    assert packed.returncode == 0, packed.stderr
    assert 3 == refused.returncode, refused.stderr
    assert hashlib.sha256(tiny_model.read_bytes()).hexdigest() in refused.stderr
    assert hashlib.sha256(content).hexdigest() in refused.stderr
