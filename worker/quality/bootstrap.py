"""How far a measure may be off because these cases were drawn and not others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from worker.quality.measures import Ints

RESAMPLES = 500
_PERCENT = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Draw:
    """How cases are drawn again.

    Attributes:
        seed: of everything drawn.
        resamples: how often.
    """

    seed: int = 0
    resamples: int = RESAMPLES


def intervals(
    case_of: Ints, values: Callable[[Ints], Mapping[str, float]], draw: Draw
) -> dict[str, tuple[float, float]]:
    """Return the interval of each measure in which 95 % of resamples fall.

    Percentile bootstrap, Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter
    13; whole cases are drawn, with all of their answers, since those are not independent
    (Davison and Hinkley, "Bootstrap methods and their application", 1997, section 3.8).

    Args:
        case_of: (answers,) the number of each answer's case, ascending.
        values: from indices of answers, some repeated, to measures by name.
        draw: seed and number of resamples.
    """
    rng = np.random.default_rng(draw.seed)
    _, starts, lengths = np.unique(case_of, return_index=True, return_counts=True)
    rows = []
    for _ in range(draw.resamples):
        drawn = rng.integers(0, len(starts), len(starts))
        rows.append(values(_spread(starts[drawn], lengths[drawn])))
    return {
        name: tuple(np.percentile([row[name] for row in rows], _PERCENT).tolist())
        for name in rows[0]
    }


def _spread(starts: Ints, lengths: Ints) -> Ints:
    """Return the indices of runs: ``starts[0], starts[0] + 1, …`` for each in turn."""
    ends = lengths.cumsum()
    offsets = np.repeat(starts - (ends - lengths), lengths)
    return np.asarray(offsets + np.arange(ends[-1]), dtype=np.int64)
