"""Write both dashboards from one list of panels: Grafana's, and CloudWatch's in its template."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

INFRA = Path(__file__).parents[1] / "infra"
PANELS = INFRA / "dashboards" / "panels.yaml"
GRAFANA = INFRA / "dashboards" / "grafana.json"
TEMPLATE = INFRA / "observability.yaml"

BEGIN = f"  # --- dashboard, made by `make dashboards` from dashboards/panels.yaml {'-' * 26}\n"
END = "\nOutputs:\n"

METRIC = re.compile(r"\b((?:decision|process|python)_[a-z_]+)(?:\{([^}]*)\})?")
"""A metric in a Prometheus expression, and its selector."""

# Where each source of CloudWatch's metrics is: its namespace, its dimension, the export.
_SOURCES = {
    "tickets": ("AWS/SQS", "QueueName", "Tickets", "TicketQueueName"),
    "dead_letters": ("AWS/SQS", "QueueName", "Dead", "TicketDeadLettersName"),
    "topic": ("AWS/SNS", "TopicName", "Topic", "OutcomeTopicName"),
}
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDE, _HIGH = 12, 8  # of Grafana's 24 columns
_CHART_HIGH, _TEXT_HIGH = 6, 2  # of CloudWatch's


def read_panels() -> dict[str, Any]:
    """Return the list."""
    found: dict[str, Any] = yaml.safe_load(PANELS.read_text("utf-8"))
    return found


def grafana(panels: Mapping[str, Any]) -> str:
    """Return Grafana's dashboard as JSON text."""
    board = {
        "title": "Decision worker",
        "uid": "decision-worker",
        "description": "Made by `make dashboards` from infra/dashboards/panels.yaml.",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_grafana_panels(panels["rows"])),
    }
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}
    yield {
        "name": "instance",
        "type": "query",
        "label": "Worker",
        "datasource": _DATASOURCE,
        "query": {"query": "label_values(decision_build_info, instance)", "refId": "instance"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _grafana_panels(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for row in rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row["title"],
            "collapsed": False,
            "gridPos": {"h": 1, "w": 2 * _WIDE, "x": 0, "y": y},
            "panels": [],
        }
        y += 1
        for place, panel in enumerate(row["panels"]):
            number += 1
            at = {"h": _HIGH, "w": _WIDE, "x": place % 2 * _WIDE, "y": y + place // 2 * _HIGH}
            yield _grafana_panel(panel, number, at)
        y += -(-len(row["panels"]) // 2) * _HIGH


def _grafana_panel(panel: Mapping[str, Any], number: int, at: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel["title"],
        "description": f"When it looks wrong: {panel['when_wrong']}",
        "datasource": _DATASOURCE,
        "gridPos": at,
        "fieldConfig": {"defaults": {"unit": panel["unit"], "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "legendFormat": legend,
                "expr": METRIC.sub(_of_instance, expression),
            }
            for place, (legend, expression) in enumerate(panel["prometheus"].items())
        ],
    }


def _of_instance(metric: re.Match[str]) -> str:
    selectors = [*filter(None, [metric[2]]), 'instance=~"$instance"']
    return f"{metric[1]}{{{','.join(selectors)}}}"


def cloudwatch(panels: Mapping[str, Any]) -> str:
    """Return the resource of CloudWatch's dashboard, as YAML text in its template."""
    shown = [panel for row in panels["rows"] for panel in row["panels"] if panel.get("cloudwatch")]
    widgets = [
        widget
        for place, panel in enumerate(shown)
        for widget in _widgets(panel, place, panels["namespace"])
    ]
    lines = ",\n".join(f"            {json.dumps(widget)}" for widget in widgets)
    names = "\n".join(
        f'          {name}: {{"Fn::ImportValue": !Sub "${{Name}}-{export}"}}'
        for _, _, name, export in _SOURCES.values()
    )
    return f"""
  Dashboard:
    Type: AWS::CloudWatch::Dashboard
    Properties:
      DashboardName: !Ref Name
      DashboardBody: !Sub
        - |
          {{"widgets": [
{lines}
          ]}}
        -
{names}
"""


def _widgets(panel: Mapping[str, Any], place: int, namespace: str) -> Iterator[dict[str, Any]]:
    x, y = place % 2 * 12, place // 2 * (_CHART_HIGH + _TEXT_HIGH)
    yield {
        "type": "metric",
        "x": x,
        "y": y,
        "width": 12,
        "height": _CHART_HIGH,
        "properties": {
            "title": panel["title"],
            "region": "${AWS::Region}",
            "period": 60,
            "metrics": [list(_metric(one, namespace)) for one in panel["cloudwatch"]],
        },
    }
    yield {
        "type": "text",
        "x": x,
        "y": y + _CHART_HIGH,
        "width": 12,
        "height": _TEXT_HIGH,
        "properties": {"markdown": f"**When it looks wrong:** {panel['when_wrong']}"},
    }


def _metric(one: Mapping[str, Any], namespace: str) -> Iterator[Any]:
    if one["source"] == "worker":
        yield from (namespace, one["metric"], "Name", "${Name}")
        for name, value in one.get("labels", {}).items():
            yield from (name, value)
    else:
        space, dimension, name, _ = _SOURCES[one["source"]]
        yield from (space, one["metric"], dimension, f"${{{name}}}")
    yield {"stat": one["stat"], "label": one["label"]}


def template(panels: Mapping[str, Any]) -> str:
    """Return the whole template with the dashboard made anew."""
    text = TEMPLATE.read_text("utf-8")
    begin = text.index(BEGIN) + len(BEGIN)
    return text[:begin] + cloudwatch(panels) + text[text.index(END, begin) :]


if __name__ == "__main__":
    found = read_panels()
    GRAFANA.write_text(grafana(found), "utf-8")
    TEMPLATE.write_text(template(found), "utf-8")
