"""Comparisons: which answers changed from one run to another, and whether that means something."""

import math

import pytest

from tests.unit.quality.bench import make_header, make_result
from worker.errors import UsageError
from worker.quality.bootstrap import Draw
from worker.quality.comparison import Flip, compare, mcnemar
from worker.quality.run_file import AskedQuestion, Failure, Result

FEW = Draw(seed=1, resamples=40)


def make_run(**desks: tuple[float, float]) -> list[Result]:
    """Return results of the question ``desk``; ``money`` is right in each."""
    return [make_result(case, {"desk": p}, {"desk": 0}, seconds=1.0) for case, p in desks.items()]


def test_a_run_does_not_differ_from_itself() -> None:
    """Nothing flips, nothing shifts."""
    run = make_header(), make_run(a=(0.9, 0.1), b=(0.4, 0.6))
    found = compare(run, run, FEW)

    assert (2, 0, 0.0, 0.0) == (
        found.cases,
        found.all.flips,
        found.all.max_shift,
        found.all.accuracy_change,
    )
    assert (1.0, [], 0) == (found.all.p_value, found.flips, found.left_out)
    assert found.all == found.questions["desk"]


def test_every_flip_is_told() -> None:
    """Case by case, with both options, how likely they were, and what is right."""
    before = make_run(a=(0.9, 0.1), b=(0.4, 0.6), c=(0.7, 0.3))
    after = make_run(a=(0.2, 0.8), b=(0.8, 0.2), c=(0.6, 0.4))
    found = compare((make_header(), before), (make_header(), after), FEW)

    assert [
        Flip("a", "desk", "money", 0.9, "tech", 0.8, "money"),
        Flip("b", "desk", "tech", 0.6, "money", 0.8, "money"),
    ] == found.flips
    change = found.all
    assert (3, 2, 1, 1) == (change.answers, change.flips, change.broken, change.fixed)
    assert pytest.approx((0.7, (0.7 + 0.4 + 0.1) / 3)) == (change.max_shift, change.mean_shift)
    assert pytest.approx(2 / 3) == change.accuracy_before == change.accuracy_after
    assert change.accuracy_change_low <= 0.0 <= change.accuracy_change_high
    assert (1.0, 1.0) == (found.seconds_before, found.seconds_after)


def test_options_are_paired_by_name() -> None:
    """Whatever order they are shown in; where a name is another, nothing is compared."""
    turned = {"desk": AskedQuestion(type="choice", options=("tech", "money"))}
    renamed = {"desk": AskedQuestion(type="choice", options=("money", "it"))}
    before = make_header(), make_run(a=(0.9, 0.1))
    after = make_result("a", {"desk": (0.1, 0.9)}, {"desk": 1})
    found = compare(before, (make_header(questions=turned), [after]), FEW)

    assert (0, 0.0, 1.0) == (found.all.flips, found.all.max_shift, found.all.accuracy_after)
    assert ("heat", "refund") == found.not_compared
    with pytest.raises(UsageError, match="no answers to the same cases"):
        compare(before, (make_header(questions=renamed), [after]), FEW)


def test_only_the_same_states_are_paired() -> None:
    """A case whose state changed, that failed, or that one run has only, is left out."""
    before = make_run(a=(0.9, 0.1), b=(0.9, 0.1), c=(0.9, 0.1), d=(0.9, 0.1))
    after = make_run(a=(0.9, 0.1), b=(0.9, 0.1), c=(0.9, 0.1), e=(0.9, 0.1))
    after[1] = after[1].model_copy(update={"state_sha256": "other"})
    after[2] = Result(case="c", state_sha256="sha of c", expected={}, failure=Failure(code="x"))
    found = compare((make_header(), before), (make_header(), after), FEW)
    assert (1, 4) == (found.cases, found.left_out)


def test_without_right_answers_flips_are_told_all_the_same() -> None:
    """And the accuracy is not known, which is not zero."""
    before, after = ([make_result("a", {"desk": p}, {})] for p in ((0.9, 0.1), (0.1, 0.9)))
    change = compare((make_header(), before), (make_header(), after), FEW).all
    assert (1, None, 0) == (change.flips, change.accuracy_after, change.labelled)


@pytest.mark.parametrize(("broken", "fixed"), [(0, 0), (1, 8), (10, 2), (5, 5)])
def test_the_paired_test_agrees_with_its_formula(broken: int, fixed: int) -> None:
    """Twice the binomial tail at one half, at most 1."""
    changed, fewer = broken + fixed, min(broken, fixed)
    tail = sum(math.comb(changed, k) for k in range(fewer + 1)) / 2**changed
    assert pytest.approx(min(1.0, 2 * tail), abs=1e-9) == mcnemar(broken, fixed)
