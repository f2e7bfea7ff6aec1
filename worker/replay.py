"""Evaluate an outcome's ticket again, set as its provenance says."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from worker.brain import open_brain
from worker.decision.derived import contradictions
from worker.decision.inquiry import inquire
from worker.decision.outcome import Outcome
from worker.decision.policy import REVIEW_ALL, Recorded
from worker.decision.policy_file import Decider
from worker.decision.replayed import Replayed, compare
from worker.decision.strict_json import parse_json
from worker.decision.ticket import Ticket, first_fault, parse_ticket
from worker.errors import Rejected, UsageError
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.settings import Settings

_FROM_RUNTIME = ("batching", "gpu_layers", "kv_type", "flash_attention", "ubatch_tokens")
"""Parts of the runtime's provenance that are settings of the same name."""

_MOST_WINDOWS = 1024


def read_outcome(source: str, text: str) -> Outcome:
    """Read one published outcome that can be replayed.

    Raises:
        UsageError: naming the source and what is wrong: no outcome, or of a rejection.
    """
    try:
        outcome = Outcome.model_validate(parse_json(text))
    except Rejected as fault:
        raise UsageError(f"{source}: {fault}") from None
    except ValidationError as error:
        where, message = first_fault(error)
        told = f"{where}: {message}" if where else message
        raise UsageError(f"{source}: no outcome: {told}") from None
    if outcome.status == "rejected":
        raise UsageError(f"{source}: the ticket was rejected, there are no answers to replay")
    return outcome


def settings_of(outcome: Outcome) -> dict[str, Any]:
    """Return the settings that an outcome tells, by name; nothing for what it does not tell."""
    runtime = outcome.provenance.runtime
    told = {name: getattr(runtime, name) for name in _FROM_RUNTIME}
    told["orders"] = outcome.provenance.prompt.orders
    told |= _windows_of(outcome)
    return {name: value for name, value in told.items() if value not in (None, "")}


def _windows_of(outcome: Outcome) -> dict[str, Any]:
    windows = outcome.provenance.windows
    if windows is None:
        # Read whole, so as far as a prompt goes here: also if its set asks for windows.
        names = ("window_tokens", "window_question_tokens", "window_overlap_tokens")
        return {"overflow": "reject", **dict.fromkeys(names, 0)}
    return {
        "overflow": "window",
        "window_tokens": windows.window_tokens,
        "window_question_tokens": windows.question_tokens,
        "window_overlap_tokens": windows.overlap_tokens,
        "max_windows": _MOST_WINDOWS,  # another number is told, not refused
        "aggregation": windows.aggregation,
        "noul_aggregation": windows.noul_aggregation,
    }


async def replay(
    settings: Settings,
    outcome: Outcome,
    state: Any,
    questions: Mapping[str, Any] | None,
    policy: str | None = None,
) -> Replayed:
    """Ask again, and compare.

    Args:
        settings: with what :func:`settings_of` says.
        outcome: as published.
        state: of its ticket, as parsed JSON.
        questions: of its ticket; None: those of the set that it names.
        policy: where the policy lies that made the verdicts; None: not at hand.

    Raises:
        UsageError: state or questions cannot be asked here, the set is not there, or the policy
            is another than the outcome tells.
        WorkerError: see :func:`worker.brain.open_brain`.
    """
    ticket = _ticket(outcome, state, questions)
    async with open_brain(_as_it_was(settings, outcome, ticket, policy)) as brain:
        decider = _decider(outcome, brain.evaluator)
        try:
            recorded = Recorded(_temperatures(outcome))
            evaluator = dataclasses.replace(brain.evaluator, policy=recorded)
            now = await evaluator.evaluate(ticket, Lane.INTERACTIVE)
            asked = inquire(ticket, brain.evaluator.shelf)
        except Rejected as fault:
            raise UsageError(f"the ticket is rejected here: {fault}") from None
    return compare(
        outcome,
        now,
        state,
        contradictions=contradictions(outcome, asked.questions, decider, asked.key),
        verdicts_checked=decider is not None,
    )


def _decider(outcome: Outcome, evaluator: Evaluator) -> Decider | None:
    """Return what made the outcome's verdicts; None: it is not at hand.

    Raises:
        UsageError: another policy was given.
    """
    then, here = outcome.provenance.policy, evaluator.provenance.policy
    if then is None:
        return REVIEW_ALL
    if here is None:
        return None
    if then.sha256 != here.sha256:
        raise UsageError(
            f"the outcome's policy is {then.name}, profile {then.profile}, {then.sha256};"
            f" --policy is {here.name}, profile {here.profile}, {here.sha256}"
        )
    return evaluator.policy


def _temperatures(outcome: Outcome) -> dict[str, float]:
    """Return the temperatures that the answers' probabilities went through, by question."""
    told = {key: answer.verdict.temperature for key, answer in (outcome.answers or {}).items()}
    return {key: temperature for key, temperature in told.items() if temperature is not None}


def _ticket(outcome: Outcome, state: Any, questions: Mapping[str, Any] | None) -> Ticket:
    tree = {"ticket_id": outcome.ticket_id, "state": state}
    asked = outcome.provenance.question_set
    if questions is not None:
        tree["questions"] = questions
    elif asked is not None:
        tree["question_set"] = f"{asked.name}@{asked.version}"
    else:
        raise UsageError("the ticket brought its own questions: give --questions")
    try:
        # Arguments may hold bytes that are not UTF-8, which only the strict parser notices.
        return parse_ticket(json.dumps(tree))
    except Rejected as fault:
        raise UsageError(str(fault)) from None


def _as_it_was(
    settings: Settings, outcome: Outcome, ticket: Ticket, policy: str | None
) -> Settings:
    """Return the settings without what the environment has and the outcome had not."""
    by_name = ticket.question_set is not None
    if by_name and settings.question_sets is None:
        raise UsageError(
            f"the ticket asked {ticket.question_set}: give --question-sets, or --questions"
        )
    sets = settings.question_sets if by_name else None
    told = outcome.provenance.policy
    if policy is not None and told is None:
        raise UsageError("the outcome was decided without a policy: leave --policy out")
    profile = told.profile if policy is not None and told is not None else None
    unset = {
        "policy": policy,
        "policy_profile": profile,
        # What the worker that wrote the outcome did; here the verdicts show it.
        "policy_mismatch": "review",
        "control_tokens": "text",
    }
    orders = outcome.provenance.prompt.orders
    return settings.model_copy(update={**unset, "orders": orders, "question_sets": sets})
