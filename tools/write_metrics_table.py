"""Write docs/metrics.md: every metric of the worker, from the code that declares them."""

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.metrics import MetricWrapperBase

from worker import metrics

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

HEAD = """# Metrics

Made by `make tables` from `worker/metrics.py`; do not edit.

`GET /metrics` answers in Prometheus' text format: on the sidecar's port, and, for workers without
one such as those on ECS, on a port of its own (`--metrics-port 9464`, on `--metrics-host`
[127.0.0.1]). That port answers `/health` and `/ping` as well, and nothing else, so it asks for no
key.

Labels hold words of the worker's own, never a ticket's, so there are a few hundred series at most.
A histogram has `_bucket`, `_sum` and `_count`.

| metric | type | labels | |
| --- | --- | --- | --- |
"""

FOOT = """
With them come `process_*` (memory, processor time, open files) and `python_*` of the process.
"""


def page() -> str:
    """Return the page."""
    return HEAD + "".join(f"{row}\n" for row in sorted(_rows())) + FOOT


def _rows() -> Iterator[str]:
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            [family] = metric.describe()
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            names = metric._labelnames  # noqa: SLF001 - it has no other way to say them
            labels = ", ".join(f"`{name}`" for name in names)
            kind = "gauge, always 1" if family.type == "info" else family.type
            yield f"| `{family.name}{suffix}` | {kind} | {labels} | {family.documentation} |"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
