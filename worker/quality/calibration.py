"""Fit temperatures and thresholds to one part of a run, and test them on the rest."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from worker.errors import UsageError
from worker.quality.answered import Table, gather
from worker.quality.measures import log_loss
from worker.quality.reliability import ece, ece_noise_floor
from worker.quality.run_file import Header, Result
from worker.quality.temperature import Labelled, fit_temperature, temper
from worker.quality.thresholds import (
    Sample,
    Tested,
    abstain_for_error,
    accept_for_coverage,
    accept_for_error,
    candidates,
)

LEAST_CASES = 50
"""What fits a temperature of its own has at least so many labelled cases in the fitting part."""

_HASH_VALUES = 1 << 32


@dataclass(frozen=True, slots=True)
class Goal:
    """What thresholds must promise, and how the cases are parted.

    Attributes:
        max_error: the most of the accepted answers that may be wrong; or
        min_coverage: the least of all answers that must be accepted.
        abstain_error: answers are abstained from where at least this part of them is wrong.
        delta: the chance that a promise does not hold.
        fit_share: part of the cases that temperatures are fitted on; the rest tests thresholds.
        seed: of the parting.
    """

    max_error: float | None = None
    min_coverage: float | None = None
    abstain_error: float = 0.5
    delta: float = 0.05
    fit_share: float = 0.3
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Check:
    """How good probabilities are on the part that they were not fitted on."""

    log_loss: float
    ece: float
    ece_noise_floor: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was found for one question.

    Attributes:
        temperature: that its logits are divided by.
        fitted_on: its own cases, those of all questions of its type, or nothing.
        fit_cases: labelled cases of the fitting part.
        check_cases: labelled cases of the testing part.
        before: on the testing part, without the temperature; None: it has no case.
        after: the same with it.
        accept: the threshold to accept at; None: none keeps the promise.
        abstain: the threshold to abstain under; None: there is none.
        tried: how many thresholds were tested.
    """

    temperature: float
    fitted_on: Literal["question", "type", "nothing"]
    fit_cases: int
    check_cases: int
    before: Check | None = None
    after: Check | None = None
    accept: Tested | None = None
    abstain: Tested | None = None
    tried: int = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found for a set.

    Attributes:
        types: temperatures by question type, for questions without one of their own.
        questions: by id.
    """

    types: dict[str, float]
    questions: dict[str, Fitted]


def calibrate(header: Header, results: Sequence[Result], goal: Goal) -> Calibration:
    """Fit temperatures, and choose thresholds.

    Raises:
        UsageError: the answers went through a temperature already, or nothing is labelled.
    """
    if any(given.temperature is not None for one in results for given in one.answers.values()):
        raise UsageError("the run was made under a policy with temperatures; evaluate without it")
    is_fit = np.array([_is_fit(one, goal) for one in results], dtype=np.bool_)
    parts = {}
    for key, question in header.questions.items():
        table = gather(key, len(question.options), results)
        known = table.of(table.labelled)
        first = is_fit[known.case_of]
        parts[key] = known.of(first), known.of(~first)
    if not any(len(fit) and len(check) for fit, check in parts.values()):
        raise UsageError("the run has too few cases with right answers to calibrate on")
    kinds = {key: question.type for key, question in header.questions.items()}
    types = _types(kinds, {key: fit for key, (fit, _) in parts.items()})
    return Calibration(
        types,
        {
            key: _question(fit, check, types.get(kinds[key]), goal)
            for key, (fit, check) in parts.items()
        },
    )


def _is_fit(result: Result, goal: Goal) -> bool:
    """Return whether a case is for fitting: cases with the same state are in the same part."""
    digest = hashlib.sha256(f"{goal.seed} {result.state_sha256}".encode()).digest()
    return int.from_bytes(digest[:4]) < goal.fit_share * _HASH_VALUES


def _types(kinds: Mapping[str, str], fits: Mapping[str, Table]) -> dict[str, float]:
    found = {}
    for kind in sorted(set(kinds.values())):
        parts = [_labelled(fit) for key, fit in fits.items() if kinds[key] == kind]
        if sum(len(part.truth) for part in parts) >= LEAST_CASES:
            temperature = fit_temperature(parts)
            if temperature is not None:
                found[kind] = temperature
    return found


def _question(fit: Table, check: Table, of_type: float | None, goal: Goal) -> Fitted:
    own = fit_temperature([_labelled(fit)]) if len(fit) >= LEAST_CASES else None
    temperature = own or of_type or 1.0
    fitted_on: Literal["question", "type", "nothing"] = (
        "question" if own else "type" if of_type else "nothing"
    )
    if not len(fit) or not len(check):
        return Fitted(temperature, fitted_on, len(fit), len(check))
    tried = candidates(temper(fit.probabilities, temperature).max(axis=1))
    sample = Sample(temper(check.probabilities, temperature).max(axis=1), check.right)
    accept = _accept(sample, tried, goal)
    return Fitted(
        temperature,
        fitted_on,
        len(fit),
        len(check),
        _check(check, 1.0, goal),
        _check(check, temperature, goal),
        accept,
        # What is accepted is never abstained from.
        abstain_for_error(
            sample,
            tried,
            goal.abstain_error,
            goal.delta,
            accept.threshold if accept else 1.0,
        ),
        len(tried),
    )


def _accept(sample: Sample, tried: Sequence[float], goal: Goal) -> Tested | None:
    if goal.max_error is not None:
        return accept_for_error(sample, tried, goal.max_error, goal.delta)
    if goal.min_coverage is not None:
        return accept_for_coverage(sample, tried, goal.min_coverage, goal.delta)
    raise UsageError("thresholds need a goal: --max-error or --min-coverage")


def _check(table: Table, temperature: float, goal: Goal) -> Check:
    probabilities = temper(table.probabilities, temperature)
    confidence = probabilities.max(axis=1)
    return Check(
        log_loss(table.truth, probabilities),
        ece(confidence, table.right),
        ece_noise_floor(confidence, goal.seed),
    )


def _labelled(table: Table) -> Labelled:
    return Labelled(table.probabilities, table.truth)
