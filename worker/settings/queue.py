"""Where tickets come from and outcomes go, and how deliveries are held."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, field_validator
from pydantic_settings import NoDecode

from worker.settings.fields import BUCKET, setting_of, words

HEARTBEATS_PER_VISIBILITY = 3

setting = setting_of("Queue")


class QueueSettings(BaseModel):
    """Where tickets come from and outcomes go, and how deliveries are held."""

    queue_url: str | None = setting(
        None, "SQS queue that tickets come from", pattern=r"^https?://[^/]+/.+"
    )
    topic_arn: str | None = setting(
        None, "SNS topic that outcomes go to", pattern=r"^arn:[^:]+:sns:[^:]+:\d+:[^:]+$"
    )
    feedback_queue_url: str | None = setting(
        None,
        "SQS queue that tells what people decided about answers",
        pattern=r"^https?://[^/]+/.+",
    )
    max_in_hand: int = setting(16, "deliveries held at once", ge=1, le=1000)
    max_queued_tokens: int | None = setting(
        None,
        "while so many tokens wait, no more is received [half of max_waiting_tokens]",
        ge=1,
    )
    wait_seconds: int = setting(5, "long poll", ge=1, le=20)
    visibility_seconds: int | None = setting(
        None, "lease of a delivery [the queue's own]", ge=3, le=43_200
    )
    heartbeat_seconds: float | None = setting(
        None, "between extensions [a third of the visibility]", gt=0
    )
    on_reject: Literal["keep", "publish"] = setting(
        "keep", "rejected ticket, no dead-letter queue: keep it, or publish and delete"
    )
    max_backoff_seconds: int = setting(
        900, "longest delay before a released delivery returns", ge=1, le=43_200
    )
    allow_bucket: Annotated[tuple[str, ...], NoDecode, BeforeValidator(words)] = setting(
        (), "where S3 documents may be read: s3://bucket/prefix; may be repeated"
    )
    max_document_bytes: int = setting(8 * 2**20, "largest S3 document, also once unpacked", ge=1024)
    outcome_bucket: str | None = setting(
        None, "where outcomes over the topic's limit go: s3://bucket/prefix"
    )

    @field_validator("allow_bucket", "outcome_bucket")
    @classmethod
    def _in_s3(cls, value: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        places = (value,) if isinstance(value, str) else value or ()
        if not all(map(BUCKET.fullmatch, places)):
            raise ValueError("must be s3://bucket or s3://bucket/prefix")
        return value

    def _lease_faults(self) -> list[str]:
        # Without a visibility of its own the queue's counts, which is known later.
        return [] if self.visibility_seconds is None else self.lease_faults(self.visibility_seconds)

    def lease_faults(self, visibility_seconds: int) -> list[str]:
        """Return why leases of *visibility_seconds* cannot be held, in words; empty if they can."""
        heartbeat = self.heartbeat_for(visibility_seconds)
        faults = []
        if HEARTBEATS_PER_VISIBILITY * heartbeat > visibility_seconds:
            faults.append(
                f"heartbeat_seconds ({heartbeat:g}) must fit {HEARTBEATS_PER_VISIBILITY} times"
                f" into the visibility ({visibility_seconds} s)"
            )
        # A lease counts from when the poll was sent: what comes at its end has used that up.
        needed = self.wait_seconds + 2 * heartbeat
        if needed > visibility_seconds:
            faults.append(
                f"wait_seconds ({self.wait_seconds}) and two heartbeats of {heartbeat:g} s must"
                f" fit into the visibility ({visibility_seconds} s)"
            )
        return faults

    def heartbeat_for(self, visibility_seconds: int) -> float:
        """Return the seconds between two extensions of leases of *visibility_seconds*."""
        return self.heartbeat_seconds or visibility_seconds / HEARTBEATS_PER_VISIBILITY
