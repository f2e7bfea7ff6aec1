"""Dashboards: made from one list, current, and of metrics that there are."""

import json
import re
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics import MetricWrapperBase

from tests.dashboards import ALL, PANELS, TOOL, WORKER, cloudwatch_metrics, expressions, missing
from worker import metrics
from worker.settings import Settings

AWS = {
    "AWS/SQS": {
        "ApproximateAgeOfOldestMessage",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesVisible",
        "NumberOfMessagesDeleted",
        "NumberOfMessagesSent",
    },
    "AWS/SNS": {"NumberOfMessagesPublished", "NumberOfNotificationsFailed"},
    "AWS/SageMaker": {"ApproximateBacklogSizePerInstance", "HasBacklogWithoutCapacity"},
    "ECS/ContainerInsights": {"RunningTaskCount"},
}
"""Of what AWS measures itself, what we use: names as its documentation spells them."""

LABELS = {
    name: set(metric._labelnames)
    for metric in vars(metrics).values()
    if isinstance(metric, MetricWrapperBase)
    for family in metric.describe()
    for name in (f"{family.name}{end}" for end in ("", "_total", "_bucket", "_sum", "_count"))
}
OF_NO_METRIC = {"instance", "le"}
"""Labels that Prometheus, or a histogram, brings along."""


def ids(panel: dict[str, Any]) -> str:
    return str(panel["title"])


def test_both_dashboards_are_current() -> None:
    """`make dashboards` writes them from infra/dashboards/panels.yaml."""
    assert TOOL["grafana"](PANELS) == TOOL["GRAFANA"].read_text("utf-8")
    assert TOOL["template"](PANELS) == TOOL["TEMPLATE"].read_text("utf-8")


@pytest.mark.parametrize("panel", ALL, ids=ids)
def test_a_panel_says_what_to_do(panel: dict[str, Any]) -> None:
    """In a sentence or two, which both dashboards show; each setting that it names is one."""
    advice = panel["when_wrong"]
    named = set(re.findall(r"--([a-z-]+)", advice))
    fields = {name.replace("_", "-") for name in Settings.model_fields}

    assert re.fullmatch(r"\S.{40,}\.", advice)
    assert named <= fields
    assert advice in TOOL["grafana"](PANELS).replace('\\"', '"')
    assert not panel.get("cloudwatch") or advice in TOOL["cloudwatch"](PANELS).replace('\\"', '"')


def test_no_title_twice() -> None:
    """Advice names other panels by title, and those are there."""
    titles = [panel["title"] for panel in ALL]
    named = {title for panel in ALL for title in re.findall(r'"([^"]+)"', panel["when_wrong"])}

    assert len(set(titles)) == len(titles)
    assert named <= set(titles)


def test_every_metric_is_one_of_ours() -> None:
    """As far as can be told without a running worker, of which an acceptance test asks it."""
    assert set() == missing(generate_latest().decode())


@pytest.mark.parametrize("expression", list(expressions()))
def test_every_label_is_one_of_its_metric(expression: str) -> None:
    """Those that are summed by, and those that are chosen by; parentheses are closed."""
    grouped = {
        label.strip()
        for group in re.findall(r"\bby \(([^)]*)\)", expression)
        for label in group.split(",")
    }
    for match in TOOL["METRIC"].finditer(expression):
        chosen = set(re.findall(r"(\w+)\s*[!=]", match[2] or ""))
        if match[1] in LABELS:  # else it is one of the process's
            assert chosen <= LABELS[match[1]]
            assert grouped - OF_NO_METRIC <= LABELS[match[1]]
    assert expression.count("(") == expression.count(")")


def test_every_legend_is_made_of_labels_that_are_left() -> None:
    """Of what is not summed over."""
    for panel in ALL:
        for legend, expression in panel["prometheus"].items():
            for label in re.findall(r"{{(\w+)}}", legend):
                by = f"by ({label}" in expression or f", {label})" in expression
                assert by or (label == "instance" and " by " not in expression), legend


def test_metrics_of_cloudwatch_are_known() -> None:
    """Of AWS's own by their list; of the worker by its declared metrics, without histograms."""
    for space, name in cloudwatch_metrics():
        assert name in AWS.get(space, LABELS), (space, name)
    for panel in ALL:
        for one in panel.get("cloudwatch", ()):
            if one["source"] == "worker":
                assert set(one.get("labels", {})) <= LABELS[one["metric"]]
                assert not one["metric"].endswith(("_bucket", "_sum", "_count"))


def test_grafana_has_a_place_for_every_panel() -> None:
    """No two overlap; ids are distinct, and every expression is of the chosen workers."""
    board = json.loads(TOOL["GRAFANA"].read_text("utf-8"))
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]

    assert len(set(cells)) == len(cells)
    assert len(board["panels"]) == len({panel["id"] for panel in board["panels"]})
    for expression in asked:
        assert expression.count('instance=~"$instance"') == len(TOOL["METRIC"].findall(expression))


def test_what_is_missing_is_found() -> None:
    """A worker without one of the metrics does not pass."""
    text = generate_latest().decode().replace("decision_parked_bytes", "decision_bytes")

    assert {"decision_parked_bytes"} == missing(text)
    assert WORKER == PANELS["namespace"]
