"""Metrics: named by Prometheus' conventions, bounded, and documented as they are."""

import asyncio
import re
import runpy
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from tests.factories import (
    make_body,
    make_choice,
    make_delivery,
    make_noul,
    make_outcome,
    make_score,
    make_scored,
)
from tests.fakes import FakeInbox
from tests.unit.queue.bench import make_bench, make_leases
from worker import metrics
from worker.counted import count_answers, margin
from worker.errors import AwsUnavailable, AwsUnusable, EngineBusy
from worker.queue.aws import aws_errors, errors_by_place

TOOL = Path(__file__).parents[2] / "tools" / "write_metrics_table.py"
OURS = [one for one in vars(metrics).values() if isinstance(one, MetricWrapperBase)]
UNITS = ("seconds", "bytes", "tokens", "ratio")
OTHER_UNITS = re.compile(r"_(milliseconds|ms|minutes|hours|kib|mib|mebibytes|percent)(_|$)")
BOUNDED = {
    "code", "disposition", "face", "kind", "lane", "operation", "phase", "reason", "result",
    "route", "stage", "type", "question", "question_set", "what",
}  # fmt: skip
"""Labels whose values are words of ours, one of HTTP's few hundred status codes, or what the
configured question sets are called."""


def test_the_page_is_current() -> None:
    """What docs/metrics.md says is what the code declares; `make tables` writes it."""
    tool = runpy.run_path(str(TOOL))

    assert tool["page"]() == tool["PAGE"].read_text("utf-8")


@pytest.mark.parametrize("metric", OURS, ids=lambda one: one._name)
def test_names_follow_the_conventions(metric: MetricWrapperBase) -> None:
    """One prefix, base units at the end, a suffix by type, and a sentence without a full stop."""
    [family] = metric.describe()
    name = family.name

    assert re.fullmatch(r"decision_[a-z]+(_[a-z]+)*", name)
    assert not OTHER_UNITS.search(name)
    assert not re.search(r"_(total|count|sum|bucket|created|info)$", name)
    if family.type == "histogram":
        assert name.endswith(UNITS)
    for unit in UNITS:
        assert unit not in name or name.endswith((unit, "_per_second"))
    assert re.fullmatch(r"[A-Z0-9].*[^.]", family.documentation)
    assert set(metric._labelnames) <= BOUNDED or family.type == "info"


def test_the_exposition_can_be_read() -> None:
    """By Prometheus' own parser: no name twice, and nothing that it would not take."""
    metrics.DECISIONS.labels("choice", "review").inc(0)
    families = list(text_string_to_metric_families(metrics.exposition().decode()))
    names = [family.name for family in families]

    assert len(names) == len(set(names))
    assert {one.describe()[0].name for one in OURS} <= {
        name.removesuffix("_info") for name in names
    }
    assert [] == [name for name in names if name.endswith("_created")]
    assert all(family.documentation for family in families)


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("body", "error", "name", "labels"),
    [
        ("{", None, "decision_rejections_total", {"code": "invalid_ticket"}),
        (make_body(), EngineBusy(1, 2), "decision_releases_total", {"reason": "EngineBusy"}),
        (make_body(), KeyError("a word"), "decision_releases_total", {"reason": "bug"}),
        (make_body(), None, "decision_stage_seconds_count", {"stage": "open"}),
        (make_body(), None, "decision_stage_seconds_count", {"stage": "evaluate"}),
        (make_body(), None, "decision_stage_seconds_count", {"stage": "publish"}),
        (make_body(), None, "decision_stage_seconds_count", {"stage": "delete"}),
    ],
)
async def test_deliveries_are_counted(
    body: str, error: Exception | None, name: str, labels: dict[str, str]
) -> None:
    """By why they did not end in an outcome, and by how long each stage took."""
    bench = make_bench()
    bench.engine.error = error
    before = count(name, **labels)
    await bench.carry(body)

    assert 1 == count(name, **labels) - before


@pytest.mark.parametrize(
    ("error", "starting", "result"),
    [
        (None, False, "done"),
        (OSError("no route"), False, "unavailable"),
        (OSError("no route"), True, "unusable"),
    ],
)
def test_calls_to_aws_are_counted(error: Exception | None, starting: bool, result: str) -> None:
    """Each once, by operation and result."""
    labels = {"operation": "receive", "result": result}
    before = count("decision_aws_calls_total", **labels)
    with (
        suppress(AwsUnavailable, AwsUnusable),
        aws_errors("receive", starting=starting, operation="receive"),
    ):
        if error is not None:
            raise error

    assert 1 == count("decision_aws_calls_total", **labels) - before


def test_failed_entries_are_counted() -> None:
    """A batch call that is done may have failed for some."""
    before = count("decision_aws_entry_failures_total", operation="delete")
    answer = {"Failed": [{"Id": "1", "Code": "InternalError", "SenderFault": False}]}
    errors_by_place(answer, 3, "delete a delivery", operation="delete")

    assert 1 == count("decision_aws_entry_failures_total", operation="delete") - before


async def test_the_oldest_delivery_that_is_held() -> None:
    """Its age counts from when it was asked for; without any it is 0."""
    leases = make_leases(FakeInbox())
    now = asyncio.get_running_loop().time()
    old, new = (make_delivery(message_id=f"{age}", asked_at=now - age) for age in (20, 2))
    async with leases.hold(new), leases.hold(old):
        held = leases.oldest_seconds()

    assert 20 <= held < 30
    assert 0 == leases.oldest_seconds()


def test_answers_are_counted() -> None:
    """By type and disposition; those whose options are close count as near ties as well."""
    answers = {
        "close": make_scored(make_choice(), 0.52, 0.48),
        "clear": make_scored(make_choice(), 0.53, 0.47),
        "noul": make_scored(make_noul(), 0.51, 0.49),
        "score": make_scored(make_score(), 0.45, 0.1, 0.45),
    }
    names = ("choice", "noul", "score")

    def counted() -> list[float]:
        return [count("decision_near_ties_total", type=name) for name in names] + [
            count("decision_label_mass_ratio_count", type=name) for name in names
        ]

    before = counted()
    count_answers(make_outcome(answers=answers))

    assert [1, 1, 1, 2, 1, 1] == [after - old for after, old in zip(counted(), before, strict=True)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (make_scored(make_choice(criteria={"a": None}), 1.0), 1.0),
        (make_scored(make_choice(), 0.25, 0.75), 0.5),
        (make_scored(make_noul(), 0.25, 0.75), 0.5),
    ],
)
def test_margins(answer: object, expected: float) -> None:
    """What the likeliest option leads by; a single one leads by all."""
    assert expected == margin(answer)  # type: ignore[arg-type]
