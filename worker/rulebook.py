"""Make sure that the policy was made for what answers here."""

from collections.abc import Iterable

import structlog

from worker import metrics
from worker.decision.outcome import PolicyProvenance, Provenance
from worker.decision.policy import POLICY_MISMATCH, REVIEW_ALL, Fixed
from worker.decision.policy_file import (
    Binding,
    BoundPrompt,
    BoundRuntime,
    Decider,
    Profile,
    mismatches,
)
from worker.decision.question_set import QuestionSet
from worker.decision.rule_names import unknown_names
from worker.errors import UsageError
from worker.settings import Settings

_log = structlog.get_logger()


def bind_policy(
    profile: Profile | None,
    provenance: Provenance,
    settings: Settings,
    sets: Iterable[QuestionSet] = (),
) -> Decider:
    """Return what decides here: the profile, or what stands in for it.

    Args:
        profile: of the policy.
        provenance: of what answers here.
        settings: what to do where the policy does not fit.
        sets: that may be asked by name.

    Raises:
        UsageError: the policy was made for something else, and that refuses the start.
    """
    if profile is None:
        return REVIEW_ALL
    known = tuple(sets)
    faults = mismatches(profile.policy.bound_to, binding_of(provenance, known))
    if not faults:
        if known and (unknown := unknown_names(profile.policy, known)):
            _log.warning("policy_names_missed", places=unknown)
        return profile
    told = f"policy {profile.policy.name} does not fit: {'; '.join(faults)}"
    if settings.policy_mismatch == "refuse":
        raise UsageError(f"{told} (--policy-mismatch review would send everything to review)")
    _log.warning("policy_mismatched", error=told)
    metrics.POLICY_MISMATCHED.set(1)
    return Fixed(POLICY_MISMATCH)


def binding_of(provenance: Provenance, sets: Iterable[QuestionSet] = ()) -> Binding:
    """Return what a policy that is made here is bound to.

    Args:
        provenance: of what answers here.
        sets: that the policy has rules about.
    """
    runtime, prompt = provenance.runtime, provenance.prompt
    return Binding(
        model_sha256=provenance.model.sha256,
        prompt=BoundPrompt(
            name=prompt.name, version=prompt.version, sha256=prompt.sha256, orders=prompt.orders
        ),
        runtime=BoundRuntime(
            llama_cpp=runtime.llama_cpp,
            backend=runtime.backend,
            cpu_variant=runtime.cpu_variant,
            batching=runtime.batching,
            kv_type=runtime.kv_type,
        ),
        question_sets={one.key: one.sha256() for one in sets},
    )


def policy_provenance(profile: Profile | None) -> PolicyProvenance | None:
    """Return what outcomes tell about the policy."""
    if profile is None:
        return None
    return PolicyProvenance(name=profile.policy.name, profile=profile.name, sha256=profile.sha256)
