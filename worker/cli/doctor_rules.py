"""What ``doctor`` says about question sets and policy."""

from dataclasses import dataclass

from worker.cli.findings import Finding
from worker.decision.outcome import Provenance
from worker.decision.policy_file import Profile
from worker.decision.question_set import NO_SETS, QuestionSets
from worker.decision.rule_names import unknown_names
from worker.errors import UsageError, WorkerError
from worker.library import open_policy, open_shelf
from worker.rulebook import bind_policy
from worker.settings import Settings


@dataclass(frozen=True, slots=True)
class Rules:
    """What could be read of question sets and policy.

    Attributes:
        sets: none where they are wrong.
        profile: of the policy; None where there is none, or it is wrong.
        findings: what is there and what is wrong.
    """

    sets: QuestionSets
    profile: Profile | None
    findings: tuple[Finding, ...]


async def examine_rules(settings: Settings) -> Rules:
    """Read question sets and policy."""
    sets, on_sets = await _examine_sets(settings)
    profile, on_policy = await _examine_policy(settings, sets)
    return Rules(sets, profile, (on_sets, on_policy))


async def _examine_sets(settings: Settings) -> tuple[QuestionSets, Finding]:
    name, place = "question sets", settings.question_sets
    try:
        shelf = await open_shelf(settings)
    except WorkerError as error:
        return NO_SETS, Finding(name, str(place), error)
    if shelf is None:
        return NO_SETS, Finding(name, "none: tickets bring their own questions")
    keys = " ".join(one.key for one in shelf.sets) or "none"
    return shelf.sets, Finding(name, f"{keys} (in {place})")


async def _examine_policy(settings: Settings, sets: QuestionSets) -> tuple[Profile | None, Finding]:
    name, place = "policy", str(settings.policy or "not set")
    try:
        profile = await open_policy(settings)
    except WorkerError as error:
        return None, Finding(name, place, error)
    if profile is None:
        return None, Finding(name, "none: every answer is for review")
    told = f"{profile.policy.name}, profile {profile.name} (in {place})"
    unknown = unknown_names(profile.policy, sets) if len(sets) else []
    return profile, Finding(name, told, UsageError("; ".join(unknown)) if unknown else None)


def examine_binding(rules: Rules, provenance: Provenance, settings: Settings) -> list[Finding]:
    """Say whether the policy was made for what answers here."""
    name, profile = "policy binding", rules.profile
    if profile is None:
        return []
    try:
        decider = bind_policy(profile, provenance, settings, rules.sets)
    except WorkerError as error:
        return [Finding(name, str(settings.policy), error)]
    if decider is not profile:
        return [Finding(name, "does not fit: everything goes to review (--policy-mismatch)")]
    return [Finding(name, "made for this model, prompt and build")]


def without_rules(settings: Settings) -> Settings:
    """Return settings for opening the model whatever is wrong with question sets and policy."""
    unset = {"question_sets": None, "policy": None, "policy_profile": None}
    return settings.model_copy(update=unset)
