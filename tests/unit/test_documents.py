"""The documents: the site builds, every link leads somewhere, and what is told is there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.template_rules import read_template
from worker.cli import commands
from worker.decision.outcome import Outcome
from worker.decision.question_set import QuestionSet
from worker.decision.strict_file import read_document
from worker.decision.ticket import parse_ticket
from worker.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ALL = [ROOT / "README.md", *PAGES]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", path.read_text("utf-8"))


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Every page is in the navigation, every link and anchor is there, nothing is fetched."""
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip

    assert 0 == done.returncode, done.stdout + done.stderr
    pages = [page.read_text("utf-8") for page in site.rglob("*.html")]
    assert len(PAGES) <= len(pages)
    fetched = re.findall(r'(?:src|<link[^>]*href)="(https?:[^"]*)"', "".join(pages))
    assert [] == fetched


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_links_between_files_lead_somewhere(path: Path) -> None:
    """Also from README, which is no part of the site."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text("utf-8"))
    missing = [one for one in links if "://" not in one and not (path.parent / one).exists()]

    assert [] == missing


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_commands_and_flags_that_are_told_exist(path: Path) -> None:
    """A renamed flag would leave its old name behind."""
    text = path.read_text("utf-8")
    known = set(commands.list_commands(None))
    told = {
        name
        for block in blocks(path, "")
        for name in re.findall(r"(?m)^(?:\.venv/bin/)?decision-worker ([a-z-]+)", block)
    }
    settings = {name.upper() for name in Settings.model_fields}
    variables = set(re.findall(r"WORKER_([A-Z][A-Z_]+[A-Z])", text))

    assert set() == told - known
    assert set() == variables - settings


def test_every_alarm_has_its_section() -> None:
    """Whoever is woken by one looks for its name."""
    template = read_template(ROOT / "infra" / "observability.yaml")
    alarms = {
        name
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }
    sections = set(re.findall(r"(?m)^## (\w+)$", (DOCS / "operations.md").read_text("utf-8")))

    assert alarms == sections


def test_examples_of_formats_are_what_they_say() -> None:
    """Tickets and question sets as they are parsed, outcomes by their fields."""
    found = [json.loads(block) for block in blocks(DOCS / "formats.md", "json")]
    tickets = [one for one in found if "questions" in one and "name" not in one]
    outcomes = [one for one in found if "outcome_id" in one]
    sets = [
        block
        for block in blocks(DOCS / "formats.md", "yaml")
        if "questions" in yaml.safe_load(block) and "name" in yaml.safe_load(block)
    ]

    assert tickets
    assert outcomes
    assert sets
    for ticket in tickets:
        parse_ticket(json.dumps(ticket))
    for outcome in outcomes:
        assert set(outcome) <= {field.alias or name for name, field in Outcome.model_fields.items()}
    for block in sets:
        read_document(QuestionSet, "example.yaml", block.encode())
