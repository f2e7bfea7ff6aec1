"""The process itself: limits, stopping, provenance, traces, logs."""

import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from worker.settings.fields import Folder, setting_of

setting = setting_of("Process")


def _default_cache_dir() -> Path:
    try:
        return Path.home() / ".cache" / "decision-worker"
    except RuntimeError:  # as in containers that run under any user id
        return Path(tempfile.gettempdir()) / "decision-worker"


class ProcessSettings(BaseModel):
    """The process itself: limits, stopping, provenance, traces, logs."""

    max_body_bytes: int = setting(1_048_576, "largest ticket or request", ge=1024)
    drain_seconds: float = setting(20.0, "time to finish what is held after a stop signal", ge=0)
    stop_window_seconds: float = setting(
        30.0, "time from stop signal to kill, as the platform gives it", gt=0
    )
    prove_build: bool = setting(True, "decode a few tokens in a child process before loading")
    image_digest: str | None = setting(
        None, "digest of the container image, for provenance", min_length=1
    )
    instance_type: str | None = setting(
        None, "type of the machine, for provenance [on EC2 the machine's own]"
    )
    cache_dir: Folder = setting(
        default_factory=_default_cache_dir,
        description="sample model, checksums [~/.cache/decision-worker]",
    )
    metrics_port: int | None = setting(
        None,
        "port for GET /metrics, /health and /ping alone, without keys; 0 takes a free one",
        ge=0,
        le=65_535,
    )
    metrics_host: str = setting("127.0.0.1", "address of that port", min_length=1)
    tracing: bool = setting(
        False, "send spans to an OpenTelemetry collector; where is OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "least severe event that is logged"
    )
    log_format: Literal["auto", "json", "console"] = setting(
        "auto", "auto: console on a terminal, else JSON"
    )
    log_share: float = setting(
        1.0,
        "of tickets and requests that go well, the share that is logged; failures always are",
        ge=0,
        le=1,
    )
