"""What the dashboards and the alarms in infra/ read, and what of it a worker does not have."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.template_rules import read_template

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "write_dashboards.py"))
PANELS: dict[str, Any] = TOOL["read_panels"]()
ALL = [panel for row in PANELS["rows"] for panel in row["panels"]]
TEMPLATES = [
    read_template(path)
    for path in sorted((ROOT / "infra").glob("*.yaml"))
    if path != TOOL["PANELS"]
]
WORKER: str = PANELS["namespace"]

_PARTS = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
    "info": ("_info",),
}
_VARIABLE = re.compile(r"label_values\((\w+),")


def expressions() -> Iterator[str]:
    """Yield every expression that Grafana asks Prometheus for."""
    for panel in ALL:
        yield from panel["prometheus"].values()


def cloudwatch_metrics() -> Iterator[tuple[str, str]]:
    """Yield namespace and name of every metric that CloudWatch shows, or alarms by."""
    for panel in ALL:
        for one in panel.get("cloudwatch", ()):
            space = WORKER if one["source"] == "worker" else TOOL["_SOURCES"][one["source"]][0]
            yield space, one["metric"]
    for template in TEMPLATES:
        yield from _metrics(template["Resources"])


def _metrics(tree: Any) -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict):
        if "MetricName" in tree and isinstance(tree.get("Namespace"), str):
            yield tree["Namespace"], tree["MetricName"]
        for value in tree.values():
            yield from _metrics(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _metrics(value)


def used_metrics() -> set[str]:
    """Return the samples of a worker that a panel or an alarm uses, by name."""
    found = {match[1] for text in expressions() for match in TOOL["METRIC"].finditer(text)}
    found |= set(_VARIABLE.findall(TOOL["grafana"](PANELS)))
    return found | {name for space, name in cloudwatch_metrics() if space == WORKER}


def missing(exposition: str) -> set[str]:
    """Return what is used and is not in a worker's ``/metrics``."""
    there = {
        family.name + part
        for family in text_string_to_metric_families(exposition)
        for part in _PARTS.get(family.type, ("",))
    } | {
        sample.name
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }
    return used_metrics() - there
