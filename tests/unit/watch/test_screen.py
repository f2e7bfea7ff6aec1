"""The picture of a running worker."""

import re
from pathlib import Path
from typing import Any

from rich.console import Console

from worker import metrics
from worker.watch import screen as module
from worker.watch.figures import Interval, read_figures
from worker.watch.screen import screen

FIGURES = """\
decision_model_info{{name="tiny"}} 1
decision_deliveries_finished_total{{result="decided"}} {decided}
decision_deliveries_finished_total{{result="lost"}} 2
decision_deliveries_in_hand 16
decision_engine_waiting_tokens 12400
decision_engine_admissions_total{{lane="batch"}} {decided}
decision_engine_admissions_total{{lane="interactive"}} 3
decision_engine_refusals_total{{lane="interactive",reason="busy"}} {decided}
decision_engine_resident_tokens 1024
decision_engine_capacity_tokens 8192
decision_evaluated_tokens_total {tokens}
decision_engine_tokens_per_second 400
decision_engine_seconds_count{{phase="evaluating"}} {decided}
decision_engine_seconds_sum{{phase="evaluating"}} {tokens}
decision_decisions_total{{type="noul",disposition="accept"}} 30
decision_decisions_total{{type="score",disposition="review"}} 70
"""


def shown(health: dict[str, Any]) -> str:
    before = read_figures(FIGURES.format(decided=100, tokens=1000), health, 0.0)
    now = read_figures(FIGURES.format(decided=140, tokens=1600), health, 2.0)
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(screen(Interval(before, now), "http://127.0.0.1:8080"))
    return capture.get()


def test_everything_an_operator_asks_first() -> None:
    """Throughput, backlog, how near the limit, what was decided, what failed."""
    text = shown({"phase": "ready", "last_successful_poll_timestamp_seconds": 1_700_000_000})

    for expected in (
        "ready  tiny",
        "20.0/s   decided 140   lost 2",
        "16 in hand   12,400 tokens wait   last poll 22:13:20 UTC",
        "batch 20.0/s   interactive 0.0/s   interactive refused 20.0/s",
        "1,024 of 8,192 tokens resident",
        "300/s   0/s reused",
        "75% of 400/s when busy",
        "evaluating 15.00 s",
        "accept 30%   review 70%   abstain 0%   of 100 decisions",
        "polls 0   calls of llama.cpp 0   leases lost 2",
    ):
        assert expected in text


def test_the_last_troubles_come_newest_first() -> None:
    """With their time and level; without any there is no table."""
    troubles = [
        {"event": "poll_failed", "level": "warning", "at": "2026-01-01T00:00:00"},
        {"event": "failed", "level": "error", "at": "2026-01-01T00:00:05"},
    ]
    text = shown({"phase": "draining", "last_troubles": troubles})

    assert text.index("failed") < text.index("poll_failed")
    assert "last troubles" not in shown({"phase": "ready"})


def test_every_figure_exists() -> None:
    """Each metric that the picture is made of is one that the worker has."""
    named = set(re.findall(r'"(decision_\w+)"', Path(module.__file__).read_text("utf-8")))
    exposed = metrics.exposition().decode()

    assert len(named) >= 10
    for name in named:
        family = name.removesuffix("_total")
        assert re.search(rf"^# TYPE {family}(_total|_info)? ", exposed, re.MULTILINE), name
