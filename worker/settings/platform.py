"""What the platform says of itself in variables of its own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.settings.containers import from_containers, ignored_by_us
from worker.settings.joined import PREFIX

SAGEMAKER_PORT = 8080
SAGEMAKER_HOST = "0.0.0.0"  # noqa: S104 - SageMaker calls from outside the container
_SAGEMAKER_FOLDER = Path("/opt/ml/model")
_BATCH_REQUEST_SECONDS = 540  # SageMaker's batch transform waits 600


def ecs_agent_url() -> str | None:
    """Return where ECS's agent answers this task; None elsewhere."""
    return os.environ.get("ECS_AGENT_URI")


def otlp_protocol() -> str | None:
    """Return how OpenTelemetry's variables want spans to be sent; None: they do not say."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def under_sagemaker() -> bool:
    """Return whether SageMaker started this process, as far as its marks tell."""
    is_named = any(name.startswith("SAGEMAKER_") for name in os.environ)
    return is_named or _SAGEMAKER_FOLDER.is_dir()


def aws_region() -> str | None:
    """Return the region in ``AWS_REGION``, which ECS and Lambda set and boto does not read."""
    return os.environ.get("AWS_REGION") or None


def sagemaker_folder() -> Path | None:
    """Return the folder that SageMaker unpacks the model into; None elsewhere."""
    return _SAGEMAKER_FOLDER if _SAGEMAKER_FOLDER.is_dir() else None


def ignored_variables() -> list[str]:
    """Return variables of AWS's neighbouring containers that are set and mean nothing here."""
    return ignored_by_us(os.environ)


def from_platform(environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    """Return what SageMaker's and its containers' variables say, with the variable: by field name.

    SageMaker's port wins over ours, since it calls no other; the rest holds unless ours is set.
    """
    found: dict[str, tuple[Any, str]] = dict(from_containers(environment))
    port = environment.get("SAGEMAKER_BIND_TO_PORT")
    if port:
        found["port"] = (port, "SAGEMAKER_BIND_TO_PORT")
        found["host"] = (SAGEMAKER_HOST, "SAGEMAKER_BIND_TO_PORT")
    if environment.get("SAGEMAKER_BATCH", "").lower() == "true":
        found["request_seconds"] = (_BATCH_REQUEST_SECONDS, "SAGEMAKER_BATCH")
    kept = [name for name in found if PREFIX + name.upper() not in environment]
    if port:
        kept.append("port")
    return {name: value for name, value in found.items() if name in kept}
