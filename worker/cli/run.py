"""``decision-worker run`` and ``serve``: the worker as a process."""

import asyncio
from typing import Any

import click

from worker.app import OpenBrain, run_faces
from worker.brain import open_brain
from worker.cli.options import SettingsCommand, read_settings
from worker.errors import ExitCode, UsageError
from worker.lifecycle import Lifecycle
from worker.queue.aws import Connection, aws_connection
from worker.settings import (
    SAGEMAKER_HOST,
    SAGEMAKER_PORT,
    Settings,
    under_sagemaker,
)

GROUPS = ("Model", "Engine", "Decisions", "Queue", "Sidecar", "Process")
_SERVE_GROUPS = ("Model", "Engine", "Decisions", "Sidecar", "Process")


@click.command(cls=SettingsCommand, groups=GROUPS)
def run(**flags: Any) -> ExitCode:
    """Answer tickets from a queue; with --port, callers over HTTP as well.

    Receives tickets from an SQS queue, publishes outcomes to an SNS topic, and deletes a ticket
    only after its outcome is published. SIGTERM drains: what is held is finished or released.
    """
    settings = read_settings(flags)
    return asyncio.run(run_process(settings, aws_connection()))


@click.command(cls=SettingsCommand, groups=_SERVE_GROUPS)
def serve(**flags: Any) -> ExitCode:
    """Answer callers over HTTP only: POST /invocations and /v1/systemone; GET /openapi.json tells.

    No AWS client is created unless question sets or policy lie in S3. Under SageMaker it listens
    on port 8080 of all addresses.
    """
    settings = read_settings(flags)
    if settings.port is None and under_sagemaker():
        where: dict[str, Any] = {"port": SAGEMAKER_PORT}
        if "host" not in settings.model_fields_set:
            where["host"] = SAGEMAKER_HOST
        settings = settings.model_copy(update=where)
    if settings.port is None:
        raise UsageError("serve needs --port")
    return asyncio.run(run_process(settings, None))


async def run_process(
    settings: Settings, aws: Connection | None, open_brain: OpenBrain = open_brain
) -> ExitCode:
    """Run the faces until a signal or a failure; return the exit code."""
    lifecycle = Lifecycle()
    with lifecycle.signals():
        await run_faces(settings, lifecycle, aws, open_brain)
    lifecycle.stopped()
    if lifecycle.failure is not None:
        raise lifecycle.failure
    return lifecycle.exit_code()
