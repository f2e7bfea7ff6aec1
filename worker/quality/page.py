"""A run as one HTML page that needs nothing else: no network, no script from elsewhere."""

import json
from collections.abc import Sequence
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from worker.quality.answered import Table, gather
from worker.quality.bootstrap import RESAMPLES
from worker.quality.charts import (
    PLOT_LEFT,
    PLOT_WIDTH,
    confidence_histogram,
    confusion_matrix,
    reliability_diagram,
    risk_coverage_curve,
)
from worker.quality.run_file import Header, Result
from worker.quality.summary import QuestionSummary, Summary, Value

_TEMPLATE = "page.html.jinja"
_SHOWN = (
    "accuracy",
    "balanced_accuracy",
    "log_loss",
    "brier",
    "ece",
    "ece_noise_floor",
    "aurc",
    "order_flips",
    "injection_flips",
    "label_mass",
    "near_ties",
)
_MOST_POINTS = 400


def write_page(
    header: Header, results: Sequence[Result], summary: Summary, resamples: int = RESAMPLES
) -> str:
    """Return the page.

    Args:
        header: of the run.
        results: of its cases.
        summary: of those.
        resamples: how many draws its intervals are from.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = (resources.files(__package__) / _TEMPLATE).read_text("utf-8")
    pictures = {
        key: _pictures(one, gather(key, len(one.options), results))
        for key, one in summary.questions.items()
        if one.labelled
    }
    names = [
        name for name in _SHOWN if any(name in one.values for one in summary.questions.values())
    ]
    return environment.from_string(source).render(
        header=header,
        summary=summary,
        names=names,
        cell=_cell,
        pictures=pictures,
        curves={key: _curve(one) for key, one in summary.questions.items()},
        resamples=resamples,
        left=PLOT_LEFT,
        width=PLOT_WIDTH,
    )


def _pictures(one: QuestionSummary, table: Table) -> list[Markup]:
    labelled = table.of(table.labelled)
    # Made of numbers and escaped names only.
    return [
        Markup(picture)  # noqa: S704
        for picture in (
            reliability_diagram(one.reliability),
            risk_coverage_curve(one.curve),
            confidence_histogram(labelled.confidence, labelled.right),
            confusion_matrix(one.confusion, one.options),
        )
    ]


def _curve(one: QuestionSummary) -> str:
    """Return thresholds, coverages and risks for the chooser, a few hundred at most."""
    step = max(1, len(one.curve) // _MOST_POINTS)
    kept = [*one.curve[::step], *one.curve[-1:]]
    return json.dumps(
        [[round(x, 5) for x in (point.threshold, point.coverage, point.risk)] for point in kept]
    )


def _cell(value: Value | None) -> str:
    if value is None:
        return ""
    if value.low is None or value.high is None:
        return f"{value.value:.3f}"
    return f"{value.value:.3f} ({value.low:.3f}–{value.high:.3f})"
