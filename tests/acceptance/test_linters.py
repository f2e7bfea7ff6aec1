"""cfn-lint and checkov over `infra/`, hadolint over `docker/`: make infra-check."""

import itertools
import json
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.infra

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv-infra" / "bin"
MESSAGING = ROOT / "infra" / "messaging.yaml"


def lint(path: Path) -> set[str]:
    """Return the rules that cfn-lint finds broken."""
    ran = subprocess.run(
        [TOOLS / "cfn-lint", "--format", "json", path], capture_output=True, text=True
    )
    return {fault["Rule"]["Id"] for fault in json.loads(ran.stdout or "[]")}


def scan(path: Path) -> set[str]:
    """Return the checks that checkov finds failed, without asking anybody for more checks."""
    ran = subprocess.run(
        [TOOLS / "checkov", "--skip-download", "--framework", "cloudformation", "--output", "json",
         "--file", path],
        capture_output=True, text=True,
    )  # fmt: skip
    return {failed["check_id"] for failed in json.loads(ran.stdout)["results"]["failed_checks"]}


@pytest.mark.parametrize("path", sorted((ROOT / "infra").glob("*.yaml")), ids=lambda p: p.name)
def test_templates_are_clean(path: Path) -> None:
    """What is left out of a check says why, in the template."""
    assert set() == lint(path)
    assert set() == scan(path)


def test_skipped_checks_have_reasons() -> None:
    """A skip without a reason cannot be told from a mistake."""
    for path in (ROOT / "infra").glob("*.yaml"):
        lines = path.read_text().splitlines()
        for line, following in itertools.pairwise(lines):
            assert "- id: CKV" not in line or "comment: " in following, path.name


def test_a_visibility_above_the_limit_is_found(tmp_path: Path) -> None:
    """cfn-lint knows the limits of AWS."""
    planted = tmp_path / "planted.yaml"
    text = MESSAGING.read_text()
    planted.write_text(text.replace("VisibilityTimeout: 120", "VisibilityTimeout: 50000", 1))

    assert {"E3034"} == lint(planted)


def test_an_unencrypted_queue_is_found(tmp_path: Path) -> None:
    """checkov knows what should be encrypted."""
    planted = tmp_path / "planted.yaml"
    lines = MESSAGING.read_text().splitlines()
    lines.remove("      KmsMasterKeyId: !GetAtt Key.Arn")
    planted.write_text("\n".join(lines))

    assert {"CKV_AWS_27"} == scan(planted)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docker").glob("Dockerfile*")), ids=lambda p: p.name
)
def test_dockerfiles_are_clean(path: Path) -> None:
    """What is left out of a check says why, in the file."""
    ran = subprocess.run([TOOLS / "hadolint", "--no-color", path], capture_output=True, text=True)

    assert ("", 0) == (ran.stdout, ran.returncode)


def test_a_fault_of_a_dockerfile_is_found(tmp_path: Path) -> None:
    """A tag may be another image tomorrow."""
    planted = tmp_path / "Dockerfile"
    planted.write_text("FROM debian:latest\n")
    ran = subprocess.run(
        [TOOLS / "hadolint", "--no-color", planted], capture_output=True, text=True
    )

    assert "DL3007" in ran.stdout
    assert 1 == ran.returncode
