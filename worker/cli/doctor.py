"""``decision-worker doctor``: say what is there, what fits, and what is missing."""

import asyncio
import sys
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Any, cast

import click

from worker import __version__
from worker.app import open_queue
from worker.brain import Brain, open_brain
from worker.cli.doctor_rules import Rules, examine_binding, examine_rules, without_rules
from worker.cli.findings import Finding, print_findings
from worker.cli.options import SettingsCommand, read_settings
from worker.cli.run import GROUPS
from worker.engine.cores import usable_cores
from worker.engine.memory import available_bytes, in_words
from worker.errors import AwsUnusable, ExitCode, WorkerError
from worker.queue.aws import Connection, aws_connection, aws_errors, call_config
from worker.settings import Settings

_WITHOUT_DEAD_LETTERS = {
    "keep": "none: a rejected ticket returns until the queue drops it, and nobody is told",
    "publish": "none: a rejected ticket is published as a rejection, and deleted",
}
_FREE_BEFORE = "free before loading"


@click.command(cls=SettingsCommand, groups=GROUPS)
def doctor(**flags: Any) -> ExitCode:
    """Check that the worker can run here as it is set, without receiving anything.

    Reads question sets and policy, decodes a few tokens in a child process, loads the model,
    compares its memory with what is free and the policy with what answers here, and looks for AWS
    credentials, the queue and the topic when they are set. Exits with the code of the first thing
    that is wrong.
    """
    settings = read_settings(flags, usual_log_level="error")
    findings = asyncio.run(_examine(settings))
    print_findings(findings)
    errors = [finding.error for finding in findings if finding.error is not None]
    if not errors:
        click.echo("doctor: everything needed is there")
        return ExitCode.DONE
    click.echo(f"doctor: {len(errors)} of {len(findings)} checks failed")
    return errors[0].exit_code


async def _examine(settings: Settings) -> list[Finding]:
    free = available_bytes()
    rules = await examine_rules(settings)
    return [
        Finding("worker", f"{__version__}, Python {sys.version.split()[0]}"),
        Finding("cores", f"{usable_cores()} cores usable"),
        Finding("memory", f"{in_words(free)} {_FREE_BEFORE}"),
        *rules.findings,
        *await _examine_model(settings, free, rules),
        *await _examine_aws(settings),
    ]


async def _examine_model(settings: Settings, free: int, rules: Rules) -> list[Finding]:
    shown = str(settings.model) if settings.model else "not set"
    try:
        async with open_brain(without_rules(settings)) as brain:
            return [
                *_describe(brain, shown, free),
                *examine_binding(rules, brain.evaluator.provenance, settings),
            ]
    except WorkerError as error:
        return [Finding("model", shown, error)]


def _describe(brain: Brain, path: str, free: int) -> list[Finding]:
    provenance, size = brain.evaluator.provenance, brain.size
    model, runtime, memory = provenance.model, provenance.runtime, size.memory
    on_gpu = f", and {in_words(memory.gpu_bytes)} of a GPU" if memory.gpu_bytes else ""
    needed = f"{in_words(memory.host_bytes)} of {in_words(free)}{on_gpu}: {memory.parts()}"
    return [
        Finding("llama.cpp", f"{runtime.llama_cpp} (llama-cpp-python {runtime.llama_cpp_python})"),
        Finding("instructions", runtime.system_info),
        Finding("backend", f"{runtime.backend}, {runtime.gpu_layers} layers on a GPU"),
        Finding("model", f"{path} ({model.architecture}, {model.quantization})"),
        Finding("sha256", model.sha256),
        Finding("context", f"{size.options.context_tokens} tokens"),
        Finding("contexts", f"{size.contexts} × {size.options.threads} threads"),
        Finding("needs", needed),
        Finding("labels", f"{brain.evaluator.wording.labels} options can be labelled"),
        Finding("prompt", f"{provenance.prompt.name}-v{provenance.prompt.version}"),
    ]


async def _examine_aws(settings: Settings) -> list[Finding]:
    if settings.queue_url is None and settings.topic_arn is None:
        return [Finding("aws", "not needed: no queue and no topic is set")]
    findings: list[Finding] = []
    try:
        connection = aws_connection()
        findings = await _credentials(connection)
        if any(finding.error for finding in findings):
            return findings
        async with AsyncExitStack() as stack:
            inbox, _ = await open_queue(stack, settings, connection)
            dead = inbox.facts.dead_letter_url
            return [
                *findings,
                Finding("queue", f"{settings.queue_url}, visibility {inbox.visibility_seconds} s"),
                Finding("dead letters", dead or _WITHOUT_DEAD_LETTERS[settings.on_reject]),
                Finding("topic", str(settings.topic_arn)),
            ]
    except WorkerError as error:
        return [*findings, Finding("queue and topic", "cannot be used", error)]


async def _credentials(connection: Connection) -> list[Finding]:
    """Look for region, credentials and endpoint; the credentials themselves are not shown."""
    session = connection.session
    try:
        connection.check_region()
    except AwsUnusable as fault:
        return [Finding("region", "not set", fault)]
    findings = [Finding("region", session.region_name)]
    # Declared as boto3's, which does not wait; aioboto3's does.
    waiting = cast("Awaitable[Any]", session.get_credentials())
    credentials = await waiting
    if credentials is None:
        error = AwsUnusable("no credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID, or use a role")
        return [*findings, Finding("credentials", "not found", error)]
    with aws_errors("open a client", starting=True):
        async with connection.sqs(call_config(1)) as client:
            endpoint = client.meta.endpoint_url
    return [
        *findings,
        Finding("credentials", f"found by {credentials.method}"),
        Finding("endpoint", endpoint),
    ]
