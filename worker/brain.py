"""Open the model: prove the build, load it, size its contexts, make it answer."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from worker import __version__, metrics
from worker.decision.canonical import canonical_sha256
from worker.decision.direct import DirectWording
from worker.decision.labels import prove_labels
from worker.decision.native.wording import open_wording as native_wording
from worker.decision.outcome import (
    ModelProvenance,
    PromptProvenance,
    Provenance,
    RuntimeProvenance,
)
from worker.decision.prompt import Frame, PromptTemplate, chat_frame
from worker.decision.prompt_file import read_prompt
from worker.decision.question_set import NO_SETS
from worker.decision.wording import Wording
from worker.drift import Drift
from worker.engine.cores import usable_cores
from worker.engine.estimate import gpu_share
from worker.engine.fingerprint import (
    ModelFile,
    backend_in_use,
    cpu_variant,
    fingerprint_model,
    hardware,
    instance_type,
)
from worker.engine.memory import available_bytes
from worker.engine.model_files import check_files
from worker.engine.options import Batching, FlashAttention, KvType, ModelOptions
from worker.engine.plan import CHUNK_TOKENS
from worker.engine.proof import prove_build
from worker.engine.sizing import AUTO, Machine, ModelFacts, Size, choose_size
from worker.engine.spill import Spill
from worker.errors import UsageError
from worker.evaluator import Evaluator
from worker.library import open_policy, open_shelf
from worker.overrides import Overrides
from worker.package.contents import open_package
from worker.rulebook import bind_policy, policy_provenance
from worker.settings import Settings
from worker.shelf import BookShelf
from worker.windowing import open_overflow

if TYPE_CHECKING:  # importing llama.cpp's libraries may crash: see open_brain
    from worker.engine.llama import Model

PROMPT_NAME, PROMPT_VERSION = "direct", "1"

_log = structlog.get_logger()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Brain:
    """The loaded model, ready to answer.

    Attributes:
        evaluator: answers tickets.
        size: contexts, threads and memory, as chosen.
        spells_control: whether a text holds the spelling of a control token of the model.
        shelf: the question sets; None: no folder is set.
    """

    evaluator: Evaluator
    size: Size
    spells_control: Callable[[str], bool]
    shelf: BookShelf | None = None


@asynccontextmanager
async def open_brain(settings: Settings) -> AsyncIterator[Brain]:
    """Prove the build, load the model, start the engine; close them in reverse.

    Raises:
        UsageError: no model is set, or a question set or the policy is wrong.
        CannotRun: this build or this model cannot run here.
    """
    path = check_model(settings)
    package = open_package(path.parent)
    if package is not None:
        package.check_files()
    shelf = await open_shelf(settings)
    profile = await open_policy(settings)
    free_bytes = available_bytes()
    if settings.prove_build:
        await _in_thread(prove_build, path, settings.gpu_layers)
    file = await _in_thread(fingerprint_model, path, settings.cache_dir)
    if package is not None:
        package.check_model(path, file.sha256)

    # Only now: importing llama.cpp's libraries is what may crash, and the child took that.
    from worker.engine.llama import Model
    from worker.engine.pool import Pool

    model = await _in_thread(Model.load, path, model_options(settings))
    with model:
        size = _size(model, file, settings, free_bytes)
        overflow = open_overflow(settings, size.options.context_tokens)
        wording = open_wording(model, settings)
        provenance = _provenance(model, file, wording, settings)
        policy = bind_policy(profile, provenance, settings, shelf.sets if shelf else NO_SETS)
        if shelf is not None and profile is not None and policy is profile:
            shelf.pin(profile.policy.bound_to.question_sets)
        provenance = provenance.model_copy(update={"policy": policy_provenance(profile)})
        pool = Pool(
            model,
            size.options,
            contexts=size.contexts,
            batching=Batching(settings.batching),
            max_waiting_tokens=settings.max_waiting_tokens,
            max_parked_bytes=settings.parked_mebibytes * 2**20,
            spill=_spill(provenance, settings),
        )
        try:
            await _in_thread(lambda _: pool.start())
            metrics.ENGINE_STALLED.set_function(pool.stalled_seconds)
            metrics.ENGINE_RESIDENT_TOKENS.set_function(pool.resident_tokens)
            metrics.ENGINE_CAPACITY_TOKENS.set(size.contexts * size.options.context_tokens)
            _announce(provenance, size, wording.labels)
            control = model.tokenizer.control if settings.control_tokens == "reject" else None
            evaluator = Evaluator(
                pool,
                wording,
                provenance,
                settings.orders,
                control,
                shelf=shelf or NO_SETS,
                policy=policy,
                overflow=overflow,
                overrides=Overrides(lambda: _question_ids(shelf)),
                drift=Drift(profile.policy.reference if profile is not None else {}),
            )
            yield Brain(evaluator, size, model.tokenizer.spells_control, shelf)
        finally:
            await _in_thread(lambda _: pool.close())


def _question_ids(shelf: BookShelf | None) -> frozenset[str]:
    return frozenset(key for one in (shelf.sets if shelf else ()) for key in one.questions)


async def _in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Run ``function(*arguments, given_up)`` in a thread.

    A cancellation sets *given_up* and waits: what the thread uses must not be freed under it.
    """
    given_up = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments, given_up))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.wait({running})
        raise


def check_model(settings: Settings) -> Path:
    """Return the model's path, after the checks that need no llama.cpp and no time.

    Raises:
        UsageError: no model is set.
        CannotRun: the file is missing, not GGUF, or larger than the free memory.
    """
    if settings.model is None:
        raise UsageError("no model: set --model or WORKER_MODEL to a GGUF file, or to `sample`")
    # Weights that go to a GPU are its memory's business.
    check_files(settings.model, None if settings.gpu_layers else available_bytes())
    return settings.model


def model_options(settings: Settings) -> ModelOptions:
    """Return the engine's options as far as the settings say; zero is chosen later."""
    packed = Batching(settings.batching) is Batching.PACKED
    shares = settings.tensor_split.split(",") if settings.tensor_split else ()
    return ModelOptions(
        context_tokens=settings.context_tokens,
        threads=settings.threads,
        batch_tokens=settings.batch_tokens if packed else CHUNK_TOKENS,
        ubatch_tokens=settings.ubatch_tokens,
        sequences=settings.sequences if packed else 2,
        gpu_layers=settings.gpu_layers,
        main_gpu=settings.main_gpu,
        tensor_split=tuple(map(float, shares)),
        flash_attention=FlashAttention(settings.flash_attention),
        kv_type=KvType(settings.kv_type),
        load_mode=settings.load_mode,
    )


def bundled_prompt() -> str:
    """Return the Jinja source of the worker's own prompt."""
    name = f"{PROMPT_NAME}-v{PROMPT_VERSION}.jinja"
    return (resources.files("worker.decision") / "prompts" / name).read_text("utf-8")


def _size(model: "Model", file: ModelFile, settings: Settings, free_bytes: int) -> Size:
    facts = ModelFacts(
        metadata=model.metadata,
        weights_bytes=file.size_bytes,
        vocabulary_size=model.vocabulary_size,
        training_context_tokens=model.training_context_tokens,
    )
    # Mapped weights still count as free memory, yet must stay; parked trunks will come.
    weights_bytes = file.size_bytes * (1 - gpu_share(model.metadata, settings.gpu_layers))
    reserved_bytes = int(weights_bytes) + settings.parked_mebibytes * 2**20
    machine = Machine(cores=usable_cores(), memory_bytes=free_bytes - reserved_bytes)
    # One context with all threads: what shares its calls needs no second one.
    contexts = settings.contexts or (1 if Batching(settings.batching) is Batching.PACKED else AUTO)
    has_callers = settings.queue_url is not None and settings.port is not None
    return choose_size(model_options(settings), contexts, facts, machine, has_callers=has_callers)


def open_wording(model: "Model", settings: Settings) -> Wording:
    """Return the way to put tickets to a model: its own, the worker's, or the operator's.

    Raises:
        CannotRun: the model cannot be asked, or not that way.
        UsageError: the operator's prompt cannot be used.
    """
    if model.decision_type is not None:
        if settings.prompt_file is not None:
            raise UsageError(
                f"a model of type {model.decision_type} is asked in its own words only"
            )
        return native_wording(model.architecture, model.metadata, model, model.tokenizer.control)
    frame = Frame()
    template = model.chat_template
    if template and settings.chat_template == "auto":
        frame = chat_frame(template, bos=model.bos_text(), eos=model.eos_text())
    prompt = _prompt(settings.prompt_file, frame)
    return DirectWording(prompt, prove_labels(model, prompt.cue(), chat=frame.chat))


def _prompt(path: Path | None, frame: Frame) -> PromptTemplate:
    if path is None:
        return PromptTemplate(PROMPT_NAME, PROMPT_VERSION, bundled_prompt(), frame)
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"prompt file {path} cannot be read: {error}") from error
    return read_prompt(path.stem, source, frame)


def _provenance(
    model: "Model", file: ModelFile, wording: Wording, settings: Settings
) -> Provenance:
    from worker.engine.llama import describe_build  # see open_brain

    build = describe_build()
    return Provenance(
        model=ModelProvenance(
            name=settings.model_name or file.path.stem,
            file=file.path.name,
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
            backend=backend_in_use(build.backends, settings.gpu_layers),
            gpu_layers=settings.gpu_layers,
            batching=settings.batching,
            backends=build.backends,
            cpu_variant=cpu_variant(build.system_info),
            libraries_sha256=build.libraries_sha256,
            kv_type=settings.kv_type,
            flash_attention=settings.flash_attention,
            ubatch_tokens=settings.ubatch_tokens,
        ),
        image_digest=settings.image_digest,
        hardware=hardware(build.gpus if settings.gpu_layers else ()),
        instance_type=settings.instance_type or instance_type(),
        prompt=PromptProvenance(
            name=wording.name,
            version=wording.version,
            sha256=wording.sha256,
            orders=settings.orders,
        ),
    )


def _spill(provenance: Provenance, settings: Settings) -> Spill | None:
    """Return the folder for trunks, bound to everything that their bits depend on."""
    if settings.spill_dir is None:
        return None
    fingerprint = canonical_sha256(
        [
            provenance.model.sha256,
            provenance.runtime.model_dump(),
            provenance.hardware,
            settings.kv_type,
            settings.flash_attention,
            settings.ubatch_tokens,
        ]
    )
    return Spill(settings.spill_dir, fingerprint, settings.spill_mebibytes * 2**20)


def _announce(provenance: Provenance, size: Size, labels: int) -> None:
    model = provenance.model
    backend = provenance.runtime.backend
    runtime = provenance.runtime
    metrics.BUILD.info({"version": runtime.worker, "llama_cpp": runtime.llama_cpp})
    metrics.MODEL.info({"name": model.name, "sha256": model.sha256, "backend": backend})
    _log.info(
        "model_loaded",
        model=model.name,
        sha256=model.sha256,
        quantization=model.quantization,
        contexts=size.contexts,
        threads=size.options.threads,
        context_tokens=size.options.context_tokens,
        labels=labels,
    )
