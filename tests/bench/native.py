"""Whole System One requests, answered by us and by llama.cpp's own server.

The same requests on the same file, which is marked as an openjev decision model, so that both make
the same prompts. The server is `xllamacpp`'s, in this process, whose kernels are built for AVX2;
and, when ``LLAMA_SERVER`` names a binary, that one, to compare with an equal instruction set.
"""

import asyncio
import json
import os
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import xllamacpp
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from worker.brain import open_brain
from worker.decision.ticket import validate_ticket
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.settings import Settings

SLOTS = 8
CONTEXT_TOKENS = 16_384
_STARTS_WITHIN_SECONDS = 120
_WORDS = [
    "invoice",
    "seat",
    "refund",
    "export",
    "login",
    "slow",
    "team",
    "plan",
    "crash",
    "mail",
    "again",
    "today",
    "never",
    "please",
]
_TEMPLATE = """<bos><start_of_turn>user
State:
{{ state }}

Question: {{ instructions }}
{% for option in options %}
[{{ 'ABCDEFGHIJ'[loop.index0] }}] {{ option.key }}: {{ option.description }}
{% endfor %}

Reply with the letter only.<end_of_turn>
<start_of_turn>model
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One kind of request.

    Attributes:
        words: of the state.
        questions: how many.
    """

    words: int
    questions: int

    def __str__(self) -> str:
        return f"{self.words} words × {self.questions}"


def body(request: Request, number: int) -> dict[str, Any]:
    """Return a System One body that shares no words' order with those of other numbers."""
    draw = random.Random(number)
    state = " ".join([str(number), *draw.choices(_WORDS, k=request.words)])
    questions = {
        f"q{index}": {
            "type": "choice",
            "instructions": " ".join(draw.choices(_WORDS, k=10)) + "?",
            "criteria": {name: " ".join(draw.choices(_WORDS, k=3)) for name in ("a", "b", "c")},
        }
        for index in range(request.questions)
    }
    return {"state": state, "questions": questions}


def mark_as_openjev(source: Path, target: Path) -> Path:
    """Copy a GGUF, marked as a decision model whose prompt this module has."""
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        element = field.types[-1] if kind is GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=element)
    writer.add_string(f"{architecture}.decision.type", "openjev")
    writer.add_array("tokenizer.chat_templates", ["systemone"])
    writer.add_string("tokenizer.chat_template.systemone", _TEMPLATE)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


class InProcess:
    """`xllamacpp`'s server.

    Args:
        model: a decision model.
        cores: threads that evaluate.
    """

    name = "native, in process"

    def __init__(self, model: Path, cores: int) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(model)
        parameters.n_ctx = CONTEXT_TOKENS
        parameters.n_parallel = SLOTS
        parameters.cpuparams.n_threads = cores
        parameters.verbosity = 0
        self._server: Any = xllamacpp.Server(parameters)

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._server.handle_systemone(request)
        return answer


class Binary:
    """A ``llama-server``; use it in a ``with`` statement.

    Args:
        program: the binary.
        model: a decision model.
        cores: threads that evaluate.
    """

    name = "native, LLAMA_SERVER"

    def __init__(self, program: str, model: Path, cores: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._address = f"http://127.0.0.1:{port}"
        self._command = [
            program, "-m", str(model), "--host", "127.0.0.1", "--port", str(port),
            "-c", str(CONTEXT_TOKENS), "-np", str(SLOTS), "-t", str(cores),
        ]  # fmt: skip

    def __enter__(self) -> Self:
        silence = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdout=silence, stderr=silence)
        end = time.monotonic() + _STARTS_WITHIN_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise RuntimeError(f"{self._command[0]} does not start")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        posted = urllib.request.Request(
            f"{self._address}/v1/systemone",
            json.dumps(request).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(posted) as answer:
            read: dict[str, Any] = json.load(answer)
        return read

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._address}/health") as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False


Timed = Callable[[Sequence[dict[str, Any]]], float]
"""Answers requests at once; returns seconds."""


def _timed_server(ask: Callable[[dict[str, Any]], dict[str, Any]]) -> Timed:
    def timed(requests: Sequence[dict[str, Any]]) -> float:
        with ThreadPoolExecutor(len(requests)) as threads:
            started_at = time.perf_counter()
            answers = list(threads.map(ask, requests))
            seconds = time.perf_counter() - started_at
        if not all("answers" in answer for answer in answers):
            raise RuntimeError("the native server refused a request")
        return seconds

    return timed


def _timed_worker(runner: asyncio.Runner, evaluator: Evaluator) -> Timed:
    async def answer(requests: Sequence[dict[str, Any]]) -> None:
        tickets = map(validate_ticket, requests)
        await asyncio.gather(*(evaluator.evaluate(one, Lane.INTERACTIVE) for one in tickets))

    def timed(requests: Sequence[dict[str, Any]]) -> float:
        started_at = time.perf_counter()
        runner.run(answer(requests))
        return time.perf_counter() - started_at

    return timed


@contextmanager
def contestants(model: Path, cores: int) -> Iterator[dict[str, Timed]]:
    """Start the worker and the native servers on a decision model."""
    settings = Settings(model=model, context_tokens=CONTEXT_TOKENS // 2, parked_mebibytes=0)
    with ExitStack() as handles:
        runner = handles.enter_context(asyncio.Runner())
        brain = open_brain(settings)
        evaluator = runner.run(brain.__aenter__()).evaluator
        handles.callback(lambda: runner.run(brain.__aexit__(None, None, None)))
        found = {"worker": _timed_worker(runner, evaluator)}
        found[InProcess.name] = _timed_server(InProcess(model, cores))
        if program := os.environ.get("LLAMA_SERVER"):
            found[Binary.name] = _timed_server(handles.enter_context(Binary(program, model, cores)))
        yield found
