"""Runs on a real decision model: the engine here, our sidecar and llama.cpp's server agree."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tests.factories import make_provenance
from tests.integration.pools import open_pool
from tests.models import FLOAT_OPTIONS, TinyModels
from tests.native import NativeServer, decider
from tests.unit.quality.bench import SET, make_header, open_server
from tests.unit.sidecar.bench import open_bench
from worker.brain import open_wording
from worker.evaluator import Evaluator
from worker.quality.asking import Target
from worker.quality.bootstrap import Draw
from worker.quality.cases import load_cases
from worker.quality.comparison import compare
from worker.quality.evaluation import Evaluation
from worker.quality.in_process import InProcess
from worker.quality.remote import open_remote
from worker.quality.run_file import open_run, read_run
from worker.settings import Settings

TOLERANCE: Final = 2e-4
CASES: Final = 8


@asynccontextmanager
async def open_sidecar(evaluator: Evaluator) -> AsyncIterator[str]:
    async with open_bench(ready=False) as bench:
        bench.sidecar.answer_with(evaluator, contexts=1, spells_control=lambda _: False)
        bench.lifecycle.ready()
        yield bench.url


async def run(path: Path, cases: Path, target: Target) -> Any:
    header = make_header(source=await target.source(), probes=("order", "injection"))
    with open_run(path, header) as file:
        evaluation = Evaluation(target, SET, header.probes, file, at_once=2)
        await evaluation.ask_all(load_cases(cases, SET.questions))
    return read_run(path)


async def test_all_ways_to_a_model_give_the_same_answers(
    tiny_models: TinyModels, tmp_path: Path
) -> None:
    """In process and through our sidecar to the last bit, llama.cpp's server within 2e-4."""
    cases = tmp_path / "cases.jsonl"
    lines = [
        {"id": f"c{n}", "state": f"Seat {n}: please undo it. " * n, "answers": {"desk": "tech"}}
        for n in range(1, CASES + 1)
    ]
    cases.write_text("\n".join(map(json.dumps, lines)))
    tiny = decider("openjev")
    model = tiny_models.load(tiny)
    with (
        NativeServer(tiny_models.path(tiny)) as native,
        open_pool(model, options=FLOAT_OPTIONS) as pool,
    ):

        async def answer(request: web.Request) -> web.Response:
            body = await request.json()
            return web.json_response(await asyncio.to_thread(native.answer, body))

        evaluator = Evaluator(pool, open_wording(model, Settings()), make_provenance())
        async with AsyncExitStack() as stack:
            far = await stack.enter_async_context(open_server(answer))
            near = await stack.enter_async_context(open_sidecar(evaluator))
            targets = {
                "here": InProcess(evaluator),
                "sidecar": await stack.enter_async_context(open_remote(near, SET, model="jev-x")),
                "native": await stack.enter_async_context(open_remote(far, SET, model="jev-x")),
            }
            runs = {
                name: await run(tmp_path / f"{name}.jsonl", cases, target)
                for name, target in targets.items()
            }

    draw = Draw(resamples=10)
    sidecar = compare(runs["here"], runs["sidecar"], draw)
    server = compare(runs["sidecar"], runs["native"], draw)
    assert (CASES, 0, 0.0) == (sidecar.cases, sidecar.all.flips, sidecar.all.max_shift)
    assert (CASES, 3 * CASES) == (server.cases, server.all.answers)
    assert server.all.max_shift <= TOLERANCE
    for ours, theirs in zip(runs["here"][1], runs["native"][1], strict=True):
        assert ours.input_tokens == theirs.input_tokens
        assert list(ours.probes) == list(theirs.probes) == ["order", "injection"]
