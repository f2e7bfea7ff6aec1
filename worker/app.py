"""Open every resource in order, wire the parts, close them in reverse; the only place that does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import psutil
import structlog

from worker import __version__, metrics
from worker.decision.labels import prove_labels
from worker.decision.outcome import (
    ModelProvenance,
    PromptProvenance,
    Provenance,
    RuntimeProvenance,
)
from worker.decision.prompt import Frame, PromptTemplate, chat_frame
from worker.engine.fingerprint import ModelFile, fingerprint_model, hardware
from worker.engine.memory import available_bytes
from worker.engine.options import FlashAttention, KvType, ModelOptions
from worker.engine.proof import check_file, prove_build
from worker.engine.sizing import Machine, ModelFacts, Size, choose_size
from worker.errors import UsageError
from worker.evaluator import Evaluator
from worker.lifecycle import Lifecycle
from worker.queue.aws import Connection
from worker.queue.consumer import Consumer
from worker.queue.handler import Handler
from worker.queue.lease import Leases
from worker.queue.sns import SnsPublisher, open_publisher
from worker.queue.sqs import SqsInbox, open_inbox
from worker.settings import HEARTBEATS_PER_VISIBILITY, Settings, heartbeat_faults
from worker.sidecar.server import Sidecar

PROMPT_NAME, PROMPT_VERSION = "direct", "1"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Brain:
    """The loaded model, ready to answer.

    Attributes:
        evaluator: answers tickets.
        size: contexts, threads and memory, as chosen.
    """

    evaluator: Evaluator
    size: Size


async def run_faces(settings: Settings, lifecycle: Lifecycle, aws: Connection | None) -> None:
    """Run the queue face and the sidecar, as far as they are configured, until the stop event.

    Args:
        settings: as checked.
        lifecycle: says when to stop, and is told what failed.
        aws: how AWS is reached; None runs the sidecar alone.

    Raises:
        WorkerError: a resource cannot be opened; nothing has been received.
    """
    check_model(settings)
    async with AsyncExitStack() as stack:
        sidecar: Sidecar | None = None
        if settings.port is not None:
            # Bound first: the platform asks for health while the model still loads.
            sidecar = Sidecar(
                lifecycle,
                max_body_bytes=settings.max_body_bytes,
                request_seconds=settings.request_seconds,
            )
            await sidecar.listen(settings.host, settings.port)
            stack.push_async_callback(sidecar.close)
        queue: tuple[SqsInbox, SnsPublisher] | None = None
        if aws is not None:  # before the model: what is wrong with it shows in a second
            queue = await open_queue(stack, settings, aws)
        brain = await stack.enter_async_context(open_brain(settings))
        if sidecar is not None:
            sidecar.answer_with(brain.evaluator)
        lifecycle.ready()
        if queue is not None:
            await _consumer(settings, lifecycle, brain.evaluator, *queue).run()
        await lifecycle.stopping.wait()
        if sidecar is not None:
            lifecycle.unfinished += await sidecar.drain(settings.drain_seconds)


@asynccontextmanager
async def open_brain(settings: Settings) -> AsyncIterator[Brain]:
    """Prove the build, load the model, start the engine.

    Raises:
        UsageError: no model is set.
        CannotRun: this build or this model cannot run here.
    """
    path = check_model(settings)
    if settings.prove_build:
        await asyncio.to_thread(prove_build, path, settings.gpu_layers)
    file = await asyncio.to_thread(fingerprint_model, path, settings.cache_dir)

    # Only now: importing llama.cpp's libraries is what may crash, and the child took that.
    from worker.engine.llama import Model, describe_build
    from worker.engine.pool import Pool

    model = await asyncio.to_thread(Model.load, path, model_options(settings))
    try:
        facts = ModelFacts(
            metadata=model.metadata,
            weights_bytes=file.size_bytes,
            vocabulary_size=model.vocabulary_size,
            training_context_tokens=model.training_context_tokens,
        )
        machine = Machine(cores=physical_cores(), memory_bytes=available_bytes())
        size = choose_size(model_options(settings), settings.contexts, facts, machine)
        prompt = _prompt(model.chat_template, model.bos_text(), model.eos_text(), settings)
        labels = prove_labels(model, prompt.cue(), chat=prompt.frame.chat)
        build = describe_build()
        provenance = Provenance(
            model=ModelProvenance(
                name=settings.model_name or _name(path),
                file=path.name,
                sha256=file.sha256,
                architecture=model.architecture,
                quantization=model.quantization,
                size_bytes=file.size_bytes,
            ),
            runtime=RuntimeProvenance(
                worker=__version__,
                llama_cpp_python=build.llama_cpp_python,
                llama_cpp=build.llama_cpp,
                system_info=build.system_info,
                backend="gpu" if settings.gpu_layers else "cpu",
                gpu_layers=settings.gpu_layers,
                batching="exact",
            ),
            hardware=hardware(),
            prompt=PromptProvenance(name=prompt.name, version=prompt.version, sha256=prompt.sha256),
        )
        pool = Pool(
            model,
            size.options,
            contexts=size.contexts,
            max_waiting_tokens=settings.max_waiting_tokens,
        )
        await asyncio.to_thread(pool.start)
        try:
            _announce(provenance, file, size, len(labels))
            yield Brain(Evaluator(pool, prompt, labels, provenance), size)
        finally:
            await asyncio.to_thread(pool.close)
    finally:
        model.close()


def check_model(settings: Settings) -> Path:
    """Return the model's path, after the checks that need no llama.cpp and no time.

    Raises:
        UsageError: no model is set.
        CannotRun: the file is missing, not GGUF, or larger than the free memory.
    """
    if settings.model is None:
        raise UsageError("no model: set --model or WORKER_MODEL to a GGUF file, or to `sample`")
    check_file(settings.model, available_bytes())
    return settings.model


def model_options(settings: Settings) -> ModelOptions:
    """Return the engine's options as far as the settings say; zero is chosen later."""
    return ModelOptions(
        context_tokens=settings.context_tokens,
        threads=settings.threads,
        gpu_layers=settings.gpu_layers,
        flash_attention=FlashAttention(settings.flash_attention),
        kv_type=KvType(settings.kv_type),
        load_mode=settings.load_mode,
    )


def physical_cores() -> int:
    """Return the physical cores that this process may use."""
    usable = len(psutil.Process().cpu_affinity())
    return max(1, min(usable, psutil.cpu_count(logical=False) or usable))


def bundled_prompt() -> str:
    """Return the Jinja source of the worker's own prompt."""
    name = f"{PROMPT_NAME}-v{PROMPT_VERSION}.jinja"
    return (resources.files("worker.decision") / "prompts" / name).read_text("utf-8")


async def open_queue(
    stack: AsyncExitStack, settings: Settings, aws: Connection
) -> tuple[SqsInbox, SnsPublisher]:
    """Open queue and topic on *stack*, and check the lease settings against the queue.

    Raises:
        UsageError: a setting is missing, or the heartbeat does not fit the queue's visibility.
        AwsUnusable: queue or topic cannot be used.
    """
    missing = [
        f"--{name}"
        for name, value in (("queue-url", settings.queue_url), ("topic-arn", settings.topic_arn))
        if not value
    ]
    if missing or settings.queue_url is None or settings.topic_arn is None:
        raise UsageError(f"the queue face needs {' and '.join(missing)}")
    inbox = await stack.enter_async_context(
        open_inbox(
            aws,
            settings.queue_url,
            wait_seconds=settings.wait_seconds,
            visibility_seconds=settings.visibility_seconds,
            connections=settings.max_in_hand + 4,
        )
    )
    publisher = await stack.enter_async_context(
        open_publisher(aws, settings.topic_arn, connections=settings.max_in_hand)
    )
    if settings.heartbeat_seconds is not None and (
        faults := heartbeat_faults(settings.heartbeat_seconds, inbox.visibility_seconds)
    ):
        raise UsageError("; ".join(faults))
    if inbox.facts.dead_letter_url is None:
        _log.warning("no_dead_letter_queue", on_reject=settings.on_reject)
    return inbox, publisher


def _consumer(
    settings: Settings,
    lifecycle: Lifecycle,
    evaluator: Evaluator,
    inbox: SqsInbox,
    publisher: SnsPublisher,
) -> Consumer:
    leases = Leases(
        inbox,
        visibility_seconds=inbox.visibility_seconds,
        heartbeat_seconds=settings.heartbeat_seconds
        or inbox.visibility_seconds / HEARTBEATS_PER_VISIBILITY,
    )
    handler = Handler(
        inbox=inbox,
        publisher=publisher,
        leases=leases,
        evaluator=evaluator,
        lifecycle=lifecycle,
        has_dead_letter_queue=inbox.facts.dead_letter_url is not None,
        on_reject=settings.on_reject,
        max_backoff_seconds=settings.max_backoff_seconds,
        max_body_bytes=settings.max_body_bytes,
    )
    return Consumer(
        inbox=inbox,
        handler=handler,
        leases=leases,
        lifecycle=lifecycle,
        max_in_hand=settings.max_in_hand,
        drain_seconds=settings.drain_seconds,
    )


def _prompt(template: str | None, bos: str, eos: str, settings: Settings) -> PromptTemplate:
    frame = Frame()
    if template and settings.chat_template == "auto":
        frame = chat_frame(template, bos=bos, eos=eos)
    return PromptTemplate(PROMPT_NAME, PROMPT_VERSION, bundled_prompt(), frame)


def _name(path: Path) -> str:
    return path.stem


def _announce(provenance: Provenance, file: ModelFile, size: Size, labels: int) -> None:
    metrics.MODEL.info(
        {
            "name": provenance.model.name,
            "sha256": file.sha256,
            "backend": provenance.runtime.backend,
        }
    )
    _log.info(
        "model_loaded",
        model=provenance.model.name,
        sha256=file.sha256,
        quantization=provenance.model.quantization,
        contexts=size.contexts,
        threads=size.options.threads,
        context_tokens=size.options.context_tokens,
        labels=labels,
    )
