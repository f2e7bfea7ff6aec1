"""The linter of metrics finds what it looks for."""

import pytest
from prometheus_client import generate_latest

from tests.exposition import faults
from worker import metrics


def sample(name: str, kind: str, labels: str = "", *, note: str = "A sentence") -> str:
    return f"# HELP {name} {note}\n# TYPE {name} {kind}\n{name}{labels} 1\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (sample("a_total", "counter", note=""), "a: no help text"),
        ("a_seconds 1\n", "a_seconds: no type"),
        (sample("aThing_total", "counter"), "aThing: not in lower case, with single underscores"),
        (sample("a__b", "gauge"), "a__b: not in lower case, with single underscores"),
        (sample("a_gauge", "gauge"), "a_gauge: names its type"),
        (sample("a_ms", "gauge"), "a_ms: ms is no base unit"),
        (sample("a_minutes_old", "gauge"), "a_minutes_old: minutes is no base unit"),
        (sample("a", "counter"), "a: a counter ends in _total"),
        (sample("a_total", "gauge"), "a_total: only a counter ends in _total"),
        (sample("a_count", "gauge"), "a_count: ends like a part of a histogram"),
        (sample("a", "gauge", '{le="1"}'), "a: label le belongs to a histogram"),
        (
            sample("a", "gauge", '{Kind="1"}'),
            "a: label Kind is not in lower case, with single underscores",
        ),
        (sample("a", "gauge") + sample("b", "gauge") + sample("a", "gauge"), "a: declared twice"),
    ],
)
def test_a_fault_is_found(text: str, fault: str) -> None:
    """Each rule has an example that breaks it."""
    assert fault in faults(text)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """One metric of each type."""
    good = (
        sample("app_things_total", "counter", '{kind="a"}')
        + sample("app_waiting_seconds", "gauge")
        + "# HELP app_took_seconds A time\n# TYPE app_took_seconds histogram\n"
        'app_took_seconds_bucket{le="+Inf"} 1\napp_took_seconds_sum 1\napp_took_seconds_count 1\n'
    )

    assert [] == faults(good)


def test_our_own_metrics_are_clean() -> None:
    """With a sample of each that has labels; and those of the process that come along."""
    metrics.DECISIONS.labels("choice", "review").inc(0)

    assert [] == faults(generate_latest().decode())
