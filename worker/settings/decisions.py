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
    overflow: Literal["reject", "window"] = setting(
        "reject", "state too long for a prompt: reject the ticket, or read windows"
    )
    window_tokens: int = setting(
        0, "longest prompt over a window; 0: the context's", ge=0, le=1 << 24
    )
    window_question_tokens: int | None = setting(
        None, "of those kept for a question [a quarter, at most 1024]", ge=0
    )
    window_overlap_tokens: int | None = setting(
        None, "the most that a window repeats [an eighth of the rest]", ge=0
    )
    max_windows: int = setting(
        16, "windows of one state, else its ticket is rejected", ge=1, le=1024
    )
    aggregation: Literal["max", "mean"] = setting(
        "mean", "choices and scores over windows: the surest one's, or the mean"
    )
    noul_aggregation: Literal["max", "mean", "noisy_or"] = setting(
        "max", "nouls over windows: the likeliest, the mean, or 1 - prod(1 - p)"
    )
