"""Answer golden tickets here.

Timings, runtime and hardware are another everywhere, so their outcomes have fixed words in place.
"""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.golden.cases import Case
from tests.models import CHATML, Tiny
from tests.native import DECIDERS, decider
from tests.tiny_gguf import write_tiny_gguf
from worker.brain import open_brain
from worker.decision.outcome import Outcome, RuntimeProvenance, Timings
from worker.decision.policy_file import read_policy
from worker.decision.ticket import Ticket, parse_ticket
from worker.errors import Rejected
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.rulebook import policy_provenance
from worker.settings import load_settings

_WRITTEN_DECIMALS: Final = 7
_NOT_COMPARED: Final = "not compared"
_CHAT: Final = {"plain": None, "chat": CHATML}

# Nothing is rounded, and nothing depends on the machine: what remains is the order of additions.
_SETTINGS: Final[dict[str, Any]] = {
    "kv_type": "f32",
    "flash_attention": "off",
    "contexts": 1,
    "threads": 1,
    "context_tokens": 2048,
    "parked_mebibytes": 0,
    "prove_build": False,
    "model_name": "tiny",
}
_BOUND_TO: Final = {
    "model_sha256": "0" * 64,
    "prompt": {"name": "direct", "version": "1"},
    "runtime": {"llama_cpp": "any", "backend": "any", "cpu_variant": "any"},
}


async def outcome_of(case: Case) -> dict[str, Any]:
    """Answer a case's ticket here; return its outcome as the files have it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = _SETTINGS | case.tree.get("settings", {})
        flags |= {"model": _write_model(folder, case.tree["model"]), "cache_dir": folder}
        if sets := case.tree.get("question_sets"):
            flags["question_sets"] = _write_sets(folder / "sets", sets)
        async with open_brain(load_settings(flags)) as brain:
            outcome = await _answer(_decided_by(case, brain.evaluator), case.tree["ticket"])
    return _as_written(_comparable(outcome).as_dict())


async def _answer(evaluator: Evaluator, tree: dict[str, Any]) -> Outcome:
    body = json.dumps(tree)
    ticket: Ticket | None = None
    try:
        ticket = parse_ticket(body)
        return await evaluator.evaluate(ticket, Lane.BATCH)
    except Rejected as fault:
        return evaluator.reject(fault, ticket_id=tree["ticket_id"], body=body, ticket=ticket)


def _decided_by(case: Case, evaluator: Evaluator) -> Evaluator:
    """Let the case's policy decide, bound to nothing: a binding would differ by machine."""
    if (policy := case.tree.get("policy")) is None:
        return evaluator
    content = json.dumps({**policy, "bound_to": _BOUND_TO}).encode()
    profile = read_policy("policy.json", content).profile()
    told = evaluator.provenance.model_copy(update={"policy": policy_provenance(profile)})
    return replace(evaluator, policy=profile, provenance=told)


def _write_model(folder: Path, name: str) -> Path:
    tiny = decider(name) if name in DECIDERS else Tiny(chat_template=_CHAT[name])
    return write_tiny_gguf(
        folder / f"{name}.gguf",
        tiny.kind,
        tokenizer=tiny.tokenizer,
        chat_template=tiny.chat_template,
        metadata=dict(tiny.metadata),
    )


def _write_sets(folder: Path, sets: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    for number, one in enumerate(sets):
        (folder / f"{number}.json").write_text(json.dumps(one))
    return folder


def _comparable(outcome: Outcome) -> Outcome:
    """Put fixed words in the place of what is another on every machine."""
    runtime = RuntimeProvenance(
        worker=_NOT_COMPARED,
        llama_cpp_python=_NOT_COMPARED,
        llama_cpp=_NOT_COMPARED,
        system_info=_NOT_COMPARED,
        backend=_NOT_COMPARED,
        gpu_layers=0,
        batching=outcome.provenance.runtime.batching,
    )
    fixed = {"runtime": runtime, "hardware": _NOT_COMPARED, "instance_type": None}
    provenance = outcome.provenance.model_copy(update=fixed)
    timings = Timings(waiting_seconds=0.0, evaluation_seconds=0.0) if outcome.timings else None
    return outcome.model_copy(update={"provenance": provenance, "timings": timings})


def _as_written(tree: Any) -> Any:
    """Round numbers, so that a file written anew elsewhere is the same file."""
    match tree:
        case float():
            return round(tree, _WRITTEN_DECIMALS)
        case dict():
            return {name: _as_written(value) for name, value in tree.items()}
        case list():
            return list(map(_as_written, tree))
        case _:
            return tree
