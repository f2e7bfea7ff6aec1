"""Events: one list, and no other is logged."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import worker
from worker.events import EVENTS

TOOL = Path(__file__).parents[2] / "tools" / "write_events_table.py"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log", "msg"}
STATES = {"listening", "ready"}
PAST_TENSE = re.compile(r"^([a-z_]+_)?([a-z]+(ed|ept|ost|ead)|found|begun)$")


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of a module's logger, with its place."""
    root = Path(worker.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in ("_log", "log", "logger")
                and node.func.attr in LEVELS
            ):
                yield f"{path.relative_to(root)}:{node.lineno}", node


def test_every_event_is_in_the_list() -> None:
    """Named by a literal, so that this test can see it; and what is in the list is logged."""
    logged: set[str] = set()
    for place, call in calls():
        name = call.args[0] if call.args else None
        assert isinstance(name, ast.Constant), place
        assert name.value in EVENTS, place
        logged.add(name.value)

    assert set(EVENTS) == logged


def test_loggers_are_called_by_that_name() -> None:
    """A logger under another name would escape the test above."""
    root = Path(worker.__file__).parent
    named = [
        line
        for path in root.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if "get_logger(" in line
    ]

    assert {"_log = structlog.get_logger()"} == set(named)


def test_names_are_in_the_past_tense() -> None:
    """But for two; an alphabetical list, each with a sentence."""
    assert STATES == {name for name in EVENTS if not PAST_TENSE.fullmatch(name)}
    assert sorted(EVENTS) == list(EVENTS)
    assert all(EVENTS.values())


def test_the_page_is_current() -> None:
    """What docs/logs.md says is what the code declares; `make tables` writes it."""
    tool = runpy.run_path(str(TOOL))

    assert tool["page"]() == tool["PAGE"].read_text("utf-8")
