"""Write what a calibration found as a policy file."""

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from worker.decision.policy_file import Binding, Policy, read_policy
from worker.errors import Bug
from worker.quality.calibration import Calibration, Fitted
from worker.quality.reference import references
from worker.quality.run_file import Header, Result

PROFILE = "default"
_DIGITS = 6
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def policy_of(
    calibration: Calibration,
    header: Header,
    bound_to: Binding,
    name: str,
    description: str,
    results: Sequence[Result] = (),
) -> Policy:
    """Return a policy with a calibration's temperatures and thresholds.

    Args:
        calibration: of the run.
        header: of the run, whose question set the rules are about.
        bound_to: model, prompt and build that answered; the question set is added.
        name: of the policy.
        description: of where it comes from, for people.
        results: of the run, whose distributions later answers are compared with.
    """
    one = header.question_set
    key = f"{one.name}@{one.version}"
    own = {
        question: round(fitted.temperature, _DIGITS)
        for question, fitted in calibration.questions.items()
        if fitted.fitted_on == "question"
    }
    used = {key: fitted.temperature for key, fitted in calibration.questions.items()}
    reference = {
        question: found.model_dump(mode="json", exclude_none=True)
        for question, found in references(header, results, used).items()
    }
    tree = {
        "name": name,
        "description": description,
        "bound_to": {
            **bound_to.model_dump(mode="json", exclude_unset=True),
            "question_sets": {key: one.sha256},
        },
        "temperatures": {
            **({"question_sets": {key: own}} if own else {}),
            "types": {kind: round(value, _DIGITS) for kind, value in calibration.types.items()},
        },
        **({"reference": {key: reference}} if reference else {}),
        "profiles": {
            PROFILE: {
                "question_sets": {
                    key: {
                        question: _rule(fitted)
                        for question, fitted in calibration.questions.items()
                    }
                }
            }
        },
    }
    return Policy.model_validate(tree)


def write_policy(policy: Policy, name: str) -> bytes:
    """Return the content of a policy file, JSON when its name ends so, else YAML."""
    tree = policy.model_dump(mode="json", exclude_unset=True)
    if name.lower().endswith(".json"):
        text = json.dumps(tree, ensure_ascii=False, indent=2) + "\n"
    else:
        text = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    content = text.encode()
    if read_policy(name, content) != policy:
        raise Bug("a policy file does not say what was written")
    return content


def _rule(fitted: Fitted) -> dict[str, float]:
    rule = {}
    if fitted.accept is not None:
        rule["accept"] = fitted.accept.threshold
    if fitted.abstain is not None:
        rule["abstain"] = fitted.abstain.threshold
    return rule


class _Dumper(yaml.SafeDumper):
    """Quotes every text that some reader of YAML might take for something else."""


def _text(dumper: _Dumper, text: str) -> Any:
    style = None if _PLAIN.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
