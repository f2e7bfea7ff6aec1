"""Figures of a running worker: sums, rates, means."""

import pytest

from worker.watch.figures import Interval, read_figures

BEFORE = """\
# TYPE decision_tickets_total counter
decision_tickets_total{result="decided"} 10
decision_tickets_total{result="lost"} 1
# TYPE took_seconds histogram
took_seconds_bucket{phase="waiting",le="+Inf"} 2
took_seconds_count{phase="waiting"} 2
took_seconds_sum{phase="waiting"} 3
"""
LATER = """\
# TYPE decision_tickets_total counter
decision_tickets_total{result="decided"} 30
decision_tickets_total{result="lost"} 1
# TYPE took_seconds histogram
took_seconds_bucket{phase="waiting",le="+Inf"} 6
took_seconds_count{phase="waiting"} 6
took_seconds_sum{phase="waiting"} 5
"""


@pytest.fixture
def interval() -> Interval:
    return Interval(read_figures(BEFORE, {}, 100.0), read_figures(LATER, {}, 104.0))


def test_sums(interval: Interval) -> None:
    """Over all samples, over those with some labels, or by a label; unknown names are 0."""
    assert 31 == interval.now.sum("decision_tickets_total")
    assert 30 == interval.now.sum("decision_tickets_total", result="decided")
    assert {"decided": 30.0, "lost": 1.0} == interval.now.by("decision_tickets_total", "result")
    assert 0 == interval.now.sum("other_total")


def test_rates(interval: Interval) -> None:
    """What a counter gained in each second."""
    assert 5.0 == interval.rate("decision_tickets_total")
    assert 0.0 == interval.rate("decision_tickets_total", result="lost")


def test_a_worker_that_was_restarted_counts_from_nothing(interval: Interval) -> None:
    """No rate is negative."""
    restarted = Interval(interval.now, interval.before)

    assert 11 == restarted.gained("decision_tickets_total")


def test_means(interval: Interval) -> None:
    """Of what was observed in the interval; of nothing there is none."""
    assert 0.5 == interval.mean("took_seconds", phase="waiting")
    assert interval.mean("took_seconds", phase="evaluating") is None


def test_two_looks_at_the_same_time_have_no_rate(interval: Interval) -> None:
    """Nothing is divided by nothing."""
    assert 0.0 == Interval(interval.before, interval.before).rate("decision_tickets_total")


def test_other_text_is_refused() -> None:
    """What is no exposition is an error, not a screen of zeros."""
    with pytest.raises(ValueError, match="no figures of a worker"):
        read_figures("# TYPE up gauge\nup 1\n", {}, 0.0)
