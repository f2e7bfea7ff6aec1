"""Every setting, read once from flags and environment, checked as a whole."""

import difflib
import ipaddress
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from worker.errors import UsageError

PREFIX = "WORKER_"
HEARTBEATS_PER_VISIBILITY = 3
# Between the last poll's return and the kill: closing clients, flushing logs.
_STOP_MARGIN_SECONDS = 2
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")

SAGEMAKER_PORT = 8080
SAGEMAKER_HOST = "0.0.0.0"  # noqa: S104 - SageMaker calls from outside the container
_SAGEMAKER_FOLDER = Path("/opt/ml/model")
_BATCH_REQUEST_SECONDS = 540  # SageMaker's batch transform waits 600


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("the home directory is not known") from None


def _default_cache_dir() -> Path:
    try:
        return Path.home() / ".cache" / "decision-worker"
    except RuntimeError:  # as in containers that run under any user id
        return Path(tempfile.gettempdir()) / "decision-worker"


def _words(value: Any) -> Any:
    # An environment variable holds several values between spaces or commas.
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


# What a setting with a pattern must be, in words.
_PATTERNS = {
    "queue_url": "the URL of an SQS queue",
    "topic_arn": "an ARN of an SNS topic",
    "tensor_split": "numbers with commas between them",
}


def _here_or_in_s3(value: Any) -> Any:
    """Return a place as text: a path of this machine, or a URI of S3."""
    place = str(value)
    if not place.startswith("s3:"):
        return str(_at_home(Path(place)))
    if not _BUCKET.fullmatch(place):
        raise ValueError("must be a path, s3://bucket or s3://bucket/prefix")
    return place


_Folder = Annotated[Path, AfterValidator(_at_home)]
_Place = Annotated[str, BeforeValidator(_here_or_in_s3)]


def _setting(default: Any, group: str, description: str, **limits: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"group": group}, **limits)


class Settings(BaseSettings):
    """One frozen model: field ``queue_url`` is flag ``--queue-url`` and ``WORKER_QUEUE_URL``."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=False,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )

    model: Path | None = _setting(None, "Model", "GGUF file; `sample` is the sample model")
    model_name: str | None = _setting(
        None, "Model", "name that answers carry [file name]", min_length=1, max_length=128
    )
    chat_template: Literal["auto", "none"] = _setting(
        "auto", "Model", "auto: the GGUF's own when it has one; none: plain text"
    )
    prompt_file: _Folder | None = _setting(
        None, "Model", "Jinja file of a prompt of your own [direct-v1]"
    )
    orders: int | None = _setting(
        None, "Model", "orders that options are shown in, averaged [1; lev: 2]", ge=1, le=32
    )
    control_tokens: Literal["text", "reject"] = _setting(
        "text", "Model", "control tokens spelled in a ticket: read as text, or reject it"
    )
    contexts: int = _setting(
        0,
        "Engine",
        "llama.cpp contexts; 0: one per core, just one on a GPU or with batching packed",
        ge=0,
        le=64,
    )
    threads: int = _setting(
        0, "Engine", "threads of each context; 0: share the cores", ge=0, le=512
    )
    context_tokens: int = _setting(
        0, "Engine", "longest prompt; 0: what model and memory allow, up to 16384", ge=0, le=1 << 24
    )
    batching: Literal["exact", "packed"] = _setting(
        "exact",
        "Engine",
        "exact: the same bits whatever is evaluated beside; packed: questions and tickets in one"
        " call, for GPUs",
    )
    batch_tokens: int = _setting(
        2048, "Engine", "tokens of one call with batching packed; exact takes 512", ge=64, le=65_536
    )
    ubatch_tokens: int = _setting(
        512, "Engine", "tokens computed at once; another number, other last bits", ge=32, le=65_536
    )
    sequences: int = _setting(
        64,
        "Engine",
        "of a context with batching packed: each trunk and each question in it takes one, saving"
        " one more",
        ge=3,
        le=256,
    )
    gpu_layers: int = _setting(0, "Engine", "layers on the GPU; -1: all", ge=-1)
    main_gpu: int = _setting(0, "Engine", "GPU for what is not split", ge=0)
    tensor_split: str | None = _setting(
        None,
        "Engine",
        "share of the model for each GPU, such as 3,1 [llama.cpp decides]",
        pattern=r"^\d+(\.\d+)?(,\d+(\.\d+)?)*$",
    )
    flash_attention: Literal["auto", "on", "off"] = _setting(
        "auto", "Engine", "use the fused attention kernel"
    )
    kv_type: Literal["f32", "f16", "q8_0"] = _setting(
        "f16", "Engine", "how keys and values are stored"
    )
    load_mode: Literal["auto", "none", "mmap", "mlock"] = _setting(
        "auto", "Engine", "how weights are loaded"
    )
    max_waiting_tokens: int = _setting(
        262_144, "Engine", "tokens that may wait for a context", ge=1
    )

    parked_mebibytes: int = _setting(
        512, "Engine", "host memory for finished trunks, to be reused; 0: none", ge=0
    )
    spill_dir: _Folder | None = _setting(
        None, "Engine", "folder for finished trunks (customer text!) that memory has no room for"
    )
    spill_mebibytes: int = _setting(4096, "Engine", "the most that folder may take", ge=1)

    question_sets: _Place | None = _setting(
        None,
        "Decisions",
        "folder of question sets (YAML, JSON), or s3://bucket/prefix; SIGHUP reads it again",
    )
    policy: _Place | None = _setting(
        None,
        "Decisions",
        "file of thresholds, or s3://bucket/key; without one every answer is for review",
    )
    policy_profile: str | None = _setting(
        None, "Decisions", "profile of the policy [its only one, or default]", min_length=1
    )
    policy_mismatch: Literal["refuse", "review"] = _setting(
        "refuse", "Decisions", "policy made for another model, prompt or build: no start, or review"
    )

    queue_url: str | None = _setting(
        None, "Queue", "SQS queue that tickets come from", pattern=r"^https?://[^/]+/.+"
    )
    topic_arn: str | None = _setting(
        None, "Queue", "SNS topic that outcomes go to", pattern=r"^arn:[^:]+:sns:[^:]+:\d+:[^:]+$"
    )
    max_in_hand: int = _setting(16, "Queue", "deliveries held at once", ge=1, le=1000)
    max_queued_tokens: int | None = _setting(
        None,
        "Queue",
        "while so many tokens wait, no more is received [half of max_waiting_tokens]",
        ge=1,
    )
    wait_seconds: int = _setting(5, "Queue", "long poll", ge=1, le=20)
    visibility_seconds: int | None = _setting(
        None, "Queue", "lease of a delivery [the queue's own]", ge=3, le=43_200
    )
    heartbeat_seconds: float | None = _setting(
        None, "Queue", "between extensions [a third of the visibility]", gt=0
    )
    on_reject: Literal["keep", "publish"] = _setting(
        "keep", "Queue", "rejected ticket, no dead-letter queue: keep it, or publish and delete"
    )
    max_backoff_seconds: int = _setting(
        900, "Queue", "longest delay before a released delivery returns", ge=1, le=43_200
    )

    allow_bucket: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)] = _setting(
        (), "Queue", "where S3 documents may be read: s3://bucket/prefix; may be repeated"
    )
    max_document_bytes: int = _setting(
        8 * 2**20, "Queue", "largest S3 document, also once unpacked", ge=1024
    )
    outcome_bucket: str | None = _setting(
        None, "Queue", "where outcomes over the topic's limit go: s3://bucket/prefix"
    )

    host: str = _setting("127.0.0.1", "Sidecar", "address to listen on", min_length=1)
    port: int | None = _setting(None, "Sidecar", "port to listen on", ge=0, le=65_535)
    request_seconds: float = _setting(
        55.0, "Sidecar", "time for one answer, else 504; SageMaker waits 60", gt=0
    )
    body_seconds: float = _setting(
        10.0, "Sidecar", "time for a request's body to arrive, else 408", gt=0
    )
    max_callers: int = _setting(256, "Sidecar", "requests in progress at once, else 503", ge=1)
    stall_seconds: float = _setting(
        120.0, "Sidecar", "work without progress for so long makes /ping say 503", gt=0
    )
    api_keys_file: _Folder | None = _setting(
        None, "Sidecar", "file of bearer keys, one a line; SIGHUP reads it again"
    )
    guard_probes: bool = _setting(False, "Sidecar", "ask for a key at /ping and /metrics, too")
    open_to_all: bool = _setting(
        False, "Sidecar", "answer without keys on an address that others can reach"
    )

    max_body_bytes: int = _setting(1_048_576, "Process", "largest ticket or request", ge=1024)
    drain_seconds: float = _setting(
        20.0, "Process", "time to finish what is held after a stop signal", ge=0
    )
    stop_window_seconds: float = _setting(
        30.0, "Process", "time from stop signal to kill, as the platform gives it", gt=0
    )
    prove_build: bool = _setting(
        True, "Process", "decode a few tokens in a child process before loading"
    )
    image_digest: str | None = _setting(
        None, "Process", "digest of the container image, for provenance", min_length=1
    )
    instance_type: str | None = _setting(
        None, "Process", "type of the machine, for provenance [on EC2 the machine's own]"
    )
    cache_dir: _Folder = Field(
        default_factory=_default_cache_dir,
        description="sample model, checksums [~/.cache/decision-worker]",
        json_schema_extra={"group": "Process"},
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "Process", "least severe event that is logged"
    )
    log_format: Literal["auto", "json", "console"] = _setting(
        "auto", "Process", "auto: console on a terminal, else JSON"
    )

    @field_validator("allow_bucket", "outcome_bucket")
    @classmethod
    def _in_s3(cls, value: tuple[str, ...] | str | None) -> tuple[str, ...] | str | None:
        places = (value,) if isinstance(value, str) else value or ()
        if not all(map(_BUCKET.fullmatch, places)):
            raise ValueError("must be s3://bucket or s3://bucket/prefix")
        return value

    def is_local(self) -> bool:
        """Return whether only this machine can reach the sidecar."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        faults = [*self._lease_faults(), *self._stop_faults()]
        if faults:
            raise ValueError("; ".join(faults))
        return self

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

    def _stop_faults(self) -> list[str]:
        polls = self.queue_url is not None
        wait_seconds = self.wait_seconds if polls else 0
        needed = wait_seconds + self.drain_seconds + _STOP_MARGIN_SECONDS
        if needed <= self.stop_window_seconds:
            return []
        terms = "wait_seconds + drain_seconds" if polls else "drain_seconds"
        return [
            f"{terms} + {_STOP_MARGIN_SECONDS} is {needed:g},"
            f" more than stop_window_seconds ({self.stop_window_seconds:g})"
        ]


def load_settings(flags: dict[str, Any]) -> Settings:
    """Read the settings: a flag wins over the environment.

    Args:
        flags: the values given on the command line, by field name.

    Raises:
        UsageError: everything that is wrong, in one line.
    """
    faults = _unknown_names(list(os.environ))
    names = {name: f"--{name.replace('_', '-')}" for name in flags}
    platform = _from_sagemaker(os.environ)
    try:
        settings = Settings(**{**{name: value for name, (value, _) in platform.items()}, **flags})
    except ValidationError as error:
        names = {name: source for name, (_, source) in platform.items()} | names
        faults += [_fault(fault, names) for fault in error.errors(include_url=False)]
    else:
        if not faults:
            return settings
    raise UsageError("settings: " + "; ".join(faults))


def ecs_agent_url() -> str | None:
    """Return where ECS's agent answers this task; None elsewhere."""
    return os.environ.get("ECS_AGENT_URI")


def under_sagemaker() -> bool:
    """Return whether SageMaker started this process, as far as its marks tell."""
    is_named = any(name.startswith("SAGEMAKER_") for name in os.environ)
    return is_named or _SAGEMAKER_FOLDER.is_dir()


def aws_region() -> str | None:
    """Return the region in ``AWS_REGION``, which ECS and Lambda set and boto does not read."""
    return os.environ.get("AWS_REGION") or None


def _from_sagemaker(environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    """Return what SageMaker's own variables say, with the variable: by field name.

    The port wins over ours, since SageMaker calls no other; the rest holds unless ours is set.
    """
    found: dict[str, tuple[Any, str]] = {}
    port = environment.get("SAGEMAKER_BIND_TO_PORT")
    if port:
        found["port"] = (port, "SAGEMAKER_BIND_TO_PORT")
        found["host"] = (SAGEMAKER_HOST, "SAGEMAKER_BIND_TO_PORT")
    if environment.get("SAGEMAKER_BATCH", "").lower() == "true":
        found["request_seconds"] = (_BATCH_REQUEST_SECONDS, "SAGEMAKER_BATCH")
    kept = ("port", *(name for name in found if PREFIX + name.upper() not in environment))
    return {name: value for name, value in found.items() if name in kept}


def _unknown_names(environment: list[str]) -> list[str]:
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    faults = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0)
            faults.append(f"{name} is not a setting; the nearest is {nearest[0]}")
    return faults


def _fault(fault: Any, names: Mapping[str, str]) -> str:
    if not fault["loc"]:
        return str(fault["ctx"]["error"])
    name = str(fault["loc"][0])
    shown = names.get(name, PREFIX + name.upper())
    if fault["type"] == "string_pattern_mismatch":
        return f"{shown}: must be {_PATTERNS[name]}"
    text = str(fault["msg"])
    return f"{shown}: {text[0].lower()}{text[1:]}"
