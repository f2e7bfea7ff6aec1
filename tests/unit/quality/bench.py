"""What tests of runs share: a set of three questions, results as made to order, an odd server."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from aiohttp import web

from tests.factories import QUESTIONS
from worker.decision.outcome import QuestionSetProvenance
from worker.decision.question_set import QuestionSet
from worker.quality.run_file import (
    FORMAT,
    AskedQuestion,
    CasesSource,
    Given,
    Header,
    Result,
    Source,
)

SET = QuestionSet.model_validate({"name": "desk", "version": 3, "questions": QUESTIONS})


def make_header(question_set: QuestionSet = SET, **fields: Any) -> Header:
    values: dict[str, Any] = {
        "format": FORMAT,
        "worker": "0.1.0",
        "cases": CasesSource(file="cases.jsonl", sha256="ab" * 32, count=3),
        "question_set": QuestionSetProvenance(
            name=question_set.name, version=question_set.version, sha256=question_set.sha256()
        ),
        "questions": {
            key: AskedQuestion(
                type=question.type, options=tuple(option.key for option in question.options())
            )
            for key, question in question_set.questions.items()
        },
        "probes": (),
        "source": Source(target="local", model="tiny", provenance_sha256="cd" * 32),
    }
    return Header(**values | fields)


def make_result(
    case: str, answers: dict[str, Sequence[float]], expected: dict[str, int], **fields: Any
) -> Result:
    given = {key: Given(probabilities=tuple(p)) for key, p in answers.items()}
    values = {"answers": given, "state_sha256": f"sha of {case}"}
    return Result(case=case, expected=expected, **values | fields)


def draw_results(
    rng: np.random.Generator, count: int, temperature: float = 1.0, options: int = 3
) -> list[Result]:
    """Return cases of one question ``q`` that a model is too sure about by a known factor.

    Right options are drawn from distributions whose logits, times *temperature*, the model gives.
    """
    logits = rng.normal(scale=1.5, size=(count, options))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (true.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1)
    given = np.exp(logits * temperature)
    given /= given.sum(axis=1, keepdims=True)
    return [
        make_result(f"c{number:06d}", {"q": row.tolist()}, {"q": int(right)})
        for number, (row, right) in enumerate(zip(given, truth, strict=True))
    ]


@asynccontextmanager
async def open_server(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[str]:
    """Serve every path with *answer* on a free port; yield the URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
