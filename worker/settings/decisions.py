"""Question sets, and what becomes of scores."""

from typing import Literal

from pydantic import BaseModel

from worker.settings.fields import Place, setting_of

setting = setting_of("Decisions")


class DecisionsSettings(BaseModel):
    """Question sets, and what becomes of scores."""

    question_sets: Place | None = setting(
        None,
        "folder of question sets (YAML, JSON), or s3://bucket/prefix; SIGHUP reads it again",
    )
    policy: Place | None = setting(
        None,
        "file of thresholds, or s3://bucket/key; without one every answer is for review",
    )
    policy_profile: str | None = setting(
        None, "profile of the policy [its only one, or default]", min_length=1
    )
    policy_mismatch: Literal["refuse", "review"] = setting(
        "refuse", "policy made for another model, prompt or build: no start, or review"
    )
