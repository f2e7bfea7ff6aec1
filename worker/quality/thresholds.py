"""Choose thresholds that keep a promise about answers that nobody has seen yet.

The thresholds to try are fixed before the cases that test them are looked at. Each is tested with
an exact binomial bound at ``delta`` divided by the number of thresholds (Bonferroni), so that with
a probability of ``1 - delta`` no test is wrong, and any threshold that is chosen keeps its promise:
"Learn then test", Angelopoulos, Bates, Candès, Jordan and Lei, 2021, and Geifman and El-Yaniv,
"Selective classification for deep neural networks", NeurIPS 2017.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from worker.quality.measures import Flags, Floats

MOST_CANDIDATES = 20
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Tested:
    """A threshold, and what the cases that tested it say.

    Attributes:
        threshold: answers at least so sure are on its upper side.
        count: answers on the side that it was chosen for.
        share: of all answers.
        errors: of them that are wrong.
        bound: what the promise is about, at worst: the most errors in 1, or the least coverage.
    """

    threshold: float
    count: int
    share: float
    errors: int
    bound: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Answers that test thresholds.

    Attributes:
        strength: (answers,) what is compared with a threshold.
        right: (answers,) whether the answer is right.
    """

    strength: Floats
    right: Flags

    def side(self, rows: Flags, threshold: float, bound: float) -> Tested:
        """Return what some of the answers say about a threshold."""
        count = int(rows.sum())
        share = count / len(self.strength)
        return Tested(threshold, count, share, int((rows & ~self.right).sum()), bound)


def candidates(strength: Floats) -> list[float]:
    """Return up to twenty thresholds that accept about 5 %, 10 % … of such answers, highest first.

    Args:
        strength: of other answers than those that will test them.
    """
    shares = np.linspace(1 - 1 / MOST_CANDIDATES, 0.0, MOST_CANDIDATES)
    scale = 10**_DIGITS
    levels = {math.floor(level * scale) / scale for level in np.quantile(strength, shares)}
    return sorted(levels, reverse=True)


def upper_bound(hits: int, count: int, delta: float) -> float:
    """Return the largest rate that *hits* in *count* leaves possible, but for a chance of *delta*.

    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26, 1934, one-sided: a quantile of the beta distribution
    (``scipy.stats.beta``).
    """
    return 1.0 if hits == count else float(stats.beta.ppf(1 - delta, hits + 1, count - hits))


def lower_bound(hits: int, count: int, delta: float) -> float:
    """Return the smallest rate that *hits* in *count* leaves possible; see :func:`upper_bound`."""
    return 0.0 if hits == 0 else float(stats.beta.ppf(delta, hits, count - hits + 1))


def accept_for_error(
    sample: Sample, tried: Sequence[float], max_error: float, delta: float
) -> Tested | None:
    """Return the threshold that accepts most while at most *max_error* of the accepted is wrong.

    None: no threshold can promise that on so few cases, or at all.
    """

    def test(threshold: float) -> Tested:
        rows = sample.strength >= threshold
        errors, count = int((rows & ~sample.right).sum()), int(rows.sum())
        return sample.side(rows, threshold, upper_bound(errors, count, delta / len(tried)))

    return _last(tried, test, lambda tested: tested.bound <= max_error)


def accept_for_coverage(
    sample: Sample, tried: Sequence[float], min_coverage: float, delta: float
) -> Tested | None:
    """Return the highest threshold that accepts at least *min_coverage* of all answers.

    None: none does, for sure.
    """

    def test(threshold: float) -> Tested:
        rows = sample.strength >= threshold
        bound = lower_bound(int(rows.sum()), len(rows), delta / len(tried))
        return sample.side(rows, threshold, bound)

    return _last(reversed(tried), test, lambda tested: tested.bound >= min_coverage)


def abstain_for_error(
    sample: Sample, tried: Sequence[float], min_error: float, delta: float, at_most: float = 1.0
) -> Tested | None:
    """Return the highest threshold under which at least *min_error* of the answers is wrong.

    None: there is none up to *at_most*; what is not sure enough to be accepted is worth a look.
    """

    def test(threshold: float) -> Tested:
        rows = sample.strength < threshold
        errors, count = int((rows & ~sample.right).sum()), int(rows.sum())
        return sample.side(rows, threshold, lower_bound(errors, count, delta / len(tried)))

    return _last(
        reversed(tried),
        test,
        lambda tested: tested.bound >= min_error and tested.threshold <= at_most,
    )


def least_accepted(max_error: float, tried: int, delta: float) -> int:
    """Return how many accepted answers, all right, it takes to promise *max_error*."""
    return math.ceil(math.log(delta / tried) / math.log1p(-max_error))


def _last(
    tried: Iterable[float], test: Callable[[float], Tested], keeps: Callable[[Tested], bool]
) -> Tested | None:
    kept = [tested for tested in map(test, tried) if keeps(tested)]
    return kept[-1] if kept else None
