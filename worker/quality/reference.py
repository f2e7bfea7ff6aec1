"""Make the reference distributions that later answers are compared with."""

from collections.abc import Mapping, Sequence

import numpy as np

from worker.decision.drift import Binned, Reference
from worker.decision.scores import choice_confidence, score_confidence
from worker.quality.answered import Table, gather
from worker.quality.measures import Floats, Ints
from worker.quality.run_file import AskedQuestion, Header, Result
from worker.quality.temperature import temper

_BINS = 10
_DIGITS = 6


def references(
    header: Header, results: Sequence[Result], temperatures: Mapping[str, float]
) -> dict[str, Reference]:
    """Return how the answers of a run are distributed, by question; labelled or not.

    Args:
        header: of the run.
        results: of all cases.
        temperatures: that later answers will go through, by question.
    """
    found = {}
    for key, question in header.questions.items():
        table = gather(key, len(question.options), results)
        if len(table):
            found[key] = _reference(question, table, temperatures.get(key, 1.0))
    return found


def _reference(question: AskedQuestion, table: Table, temperature: float) -> Reference:
    probabilities = temper(table.probabilities, temperature)
    confidence = score_confidence if question.type == "score" else choice_confidence
    counts = np.bincount(table.given, minlength=len(question.options))
    shares = _shares(counts)
    masses = table.label_mass[~np.isnan(table.label_mass)]
    return Reference(
        cases=len(table),
        answers=dict(zip(question.options, shares, strict=True)),
        confidence=_binned(np.array([confidence(row) for row in probabilities.tolist()])),
        label_mass=_binned(masses) if len(masses) else None,
    )


def _binned(values: Floats) -> Binned:
    """Return shares between the deciles, fewer where values repeat."""
    deciles = np.quantile(values, np.arange(1, _BINS) / _BINS)
    edges = [round(float(edge), _DIGITS) for edge in np.unique(deciles.round(_DIGITS))]
    counts = np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
    return Binned(edges=edges, shares=_shares(counts))


def _shares(counts: Ints) -> list[float]:
    return [round(float(share), _DIGITS) for share in counts / counts.sum()]
