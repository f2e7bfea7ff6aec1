"""What `docker/` promises, as far as it shows without building: pins, entry points, sources."""

import fnmatch
import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from worker.cli import commands
from worker.settings import Settings

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
FILES = sorted(DOCKER.glob("Dockerfile*"))
DIGEST = "debian@sha256:" + "0" * 64


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile, its lines joined."""

    name: str
    text: str


def instructions(path: Path) -> list[Instruction]:
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [Instruction(name, " ".join(text.split())) for name, text in found]


def texts(path: Path, name: str) -> list[str]:
    return [one.text for one in instructions(path) if one.name == name]


def last(path: Path, name: str) -> str:
    return texts(path, name)[-1]


def is_sent(source: Path) -> bool:
    """Return whether `.dockerignore`, which ignores all but what it names, lets a file through."""
    rules = (ROOT / ".dockerignore").read_text().split()
    assert "*" == rules[0]
    named = source.relative_to(ROOT).as_posix()
    return any(fnmatch.fnmatch(named, rule[1:]) for rule in rules if rule.startswith("!"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_image_is_given_and_pinned(path: Path) -> None:
    """By digest: a tag may be another image tomorrow."""
    given = {text for text in texts(path, "ARG") if text.endswith("_IMAGE")}
    stages = {text.split(" AS ")[1] for text in texts(path, "FROM") if " AS " in text}
    named = {text.split(" AS ")[0] for text in texts(path, "FROM")} - stages
    check = next(text for text in texts(path, "RUN") if "pin BASE_IMAGE" in text)

    def ends(image: str) -> int:
        variables = {"BASE_IMAGE": image, "BUILD_IMAGE": image, "LLAMA_CPP_PYTHON_REVISION": "1"}
        return subprocess.run(["sh", "-c", check], env=variables, capture_output=True).returncode

    assert "BASE_IMAGE" in given
    assert named <= {"${BASE_IMAGE}", "${BUILD_IMAGE}"}
    assert [0, 1, 1] == [ends(DIGEST), ends("debian:12-slim"), ends("")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_entry_point_gets_signals(path: Path) -> None:
    """In the exec form there is no shell that keeps them; `serve` is what it does unless told."""
    assert ["/opt/worker/bin/decision-worker"] == json.loads(last(path, "ENTRYPOINT"))
    assert ["serve"] == json.loads(last(path, "CMD"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_image_says_what_it_is(path: Path) -> None:
    """By the names that registries show."""
    label = last(path, "LABEL")

    assert [] == [
        name
        for name in ("title", "description", "licenses", "revision", "version")
        if f"org.opencontainers.image.{name}=" not in label
    ]
    assert "sbom.cdx.json" in " ".join(texts(path, "RUN"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_all_that_is_copied_is_there(path: Path) -> None:
    """In the checkout, and not held back from the build."""
    for text in texts(path, "COPY"):
        words = shlex.split(text)
        if not words[0].startswith("--from="):
            for word in words[:-1]:
                assert (ROOT / word).exists(), word
                assert is_sent(ROOT / word), word


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_installed_has_a_hash_or_was_built(path: Path) -> None:
    """Only llama-cpp-python, which a SageMaker image takes from a commit, has none of its own."""
    commands_run = " ".join(texts(path, "RUN")).split(" && ")
    calls = [one for one in commands_run if re.search(r"pip (install|wheel) ", one)]
    odd = [one for one in calls if "--require-hashes" not in one and "--no-index" not in one]

    assert calls
    assert ["llama-cpp-python @ git+" in one for one in odd] == [True] * ("sagemaker" in path.name)


def test_the_standalone_image_does_not_run_as_root() -> None:
    """Under SageMaker the platform says who it is."""
    assert "10001:10001" == last(DOCKER / "Dockerfile", "USER")


def test_variables_of_an_image_are_settings() -> None:
    """A misspelt one would have no effect."""
    environments = [last(path, "ENV") for path in FILES]
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    environments += [" ".join(one.get("environment", {})) for one in compose["services"].values()]
    names = set(re.findall(r"WORKER_([A-Z_]+)", " ".join(environments)))

    assert names
    assert set() == {name.lower() for name in names} - set(Settings.model_fields)


def test_the_laptops_worker_is_as_shut_in_as_in_the_cloud() -> None:
    """A read-only root, no capabilities, and more time to stop than it takes to drain."""
    worker = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["worker"]

    assert worker["command"][0] in commands.list_commands(None)
    assert worker["read_only"]
    assert ["ALL"] == worker["cap_drop"]
    drain_seconds = float(worker["environment"]["WORKER_DRAIN_SECONDS"])
    assert float(worker["stop_grace_period"].removesuffix("s")) > drain_seconds


def pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", path.read_text(), re.MULTILINE))


def test_an_image_has_the_versions_that_were_tested() -> None:
    """Those of requirements.txt, wherever it has the package."""
    tested = pins(ROOT / "requirements.txt")
    for path in (DOCKER / "requirements.txt", DOCKER / "requirements-build.txt"):
        found = pins(path)
        assert found
        assert {} == {
            name: version
            for name, version in found.items()
            if name in tested and tested[name] != version
        }
    assert set(pins(DOCKER / "requirements.txt")) <= set(tested)
