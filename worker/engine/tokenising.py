"""Tokenise prompts beside the event loop, on one thread with a deep stack."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from worker.decision.text import PromptText
from worker.engine.plan import Plan, plan
from worker.errors import Rejected
from worker.ports import Evaluation

MAX_CHARACTERS = 1 << 20
STACK_BYTES_PER_CHARACTER = 512  # measured: 260
_TURN_CHARACTERS = 1 << 18
"""Prompts that are only counted give way to others after so many."""
_stack_size_lock = threading.Lock()

Prepared = tuple[Plan, list[list[int]], list[tuple[int, ...]]]
"""A plan, the tokens of each branch's full prompt, the label tokens of each branch."""


class Tokenising:
    """The tokenising thread of an engine.

    Args:
        encode: returns the tokens of a prompt; must work until :meth:`close` returns.
        context_tokens: the longest prompt.
    """

    def __init__(self, encode: Callable[[PromptText], list[int]], context_tokens: int) -> None:
        self._encode = encode
        self._context_tokens = context_tokens
        # Our own, so that closing can wait for it: it uses the model.
        self._executor = _deep_executor()

    async def prepare(self, evaluation: Evaluation) -> Prepared:
        """Plan an evaluation.

        Raises:
            Rejected: a prompt does not fit the context, or is too deep for the stack.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._prepare, evaluation)

    async def measure(self, prompts: Sequence[PromptText]) -> list[int]:
        """Return the tokens of each prompt.

        Raises:
            Rejected: a prompt is too deep for the stack.
        """
        loop = asyncio.get_running_loop()
        counts: list[int] = []
        for some in _turns(prompts):
            counts += await loop.run_in_executor(self._executor, self._count, some)
        return counts

    def close(self) -> None:
        """Wait for what is tokenised now."""
        self._executor.shutdown(wait=True)

    def _count(self, prompts: Sequence[PromptText]) -> list[int]:
        _check_depth(prompts)
        return [len(self._encode(prompt)) for prompt in prompts]

    def _prepare(self, evaluation: Evaluation) -> Prepared:
        encode = self._encode
        _check_depth((*evaluation.probes, *(branch.prompt for branch in evaluation.branches)))
        prompts = [encode(branch.prompt) for branch in evaluation.branches]
        first, second = (encode(probe) for probe in evaluation.probes)
        planned = plan((first, second), prompts)
        limit, holds = self._context_tokens, "the context holds"
        if evaluation.max_prompt_tokens is not None and evaluation.max_prompt_tokens < limit:
            limit, holds = evaluation.max_prompt_tokens, "in this request it may have"
        if planned.cells > limit:
            raise Rejected(
                "prompt_too_long",
                f"the longest prompt has {planned.cells} tokens, {holds} {limit}",
                "state" if min(len(first), len(second)) > limit else "questions",
            )
        return planned, prompts, [branch.label_tokens for branch in evaluation.branches]


def _turns(prompts: Sequence[PromptText]) -> Iterator[Sequence[PromptText]]:
    turn: list[PromptText] = []
    characters = 0
    for prompt in prompts:
        turn.append(prompt)
        characters += _characters(prompt)
        if characters > _TURN_CHARACTERS:
            yield turn
            turn, characters = [], 0
    if turn:
        yield turn


def _characters(prompt: PromptText) -> int:
    return sum(len(piece.text) for piece in prompt)


def _check_depth(prompts: Sequence[PromptText]) -> None:
    """Refuse a prompt whose text could overflow the stack of the tokenising thread.

    Raises:
        Rejected: with the counts.
    """
    longest = max(map(_characters, prompts))
    if longest > MAX_CHARACTERS:
        raise Rejected(
            "prompt_too_long",
            f"the longest prompt has {longest} characters, at most {MAX_CHARACTERS} are read",
        )


def _deep_executor() -> ThreadPoolExecutor:
    """Return an executor of one thread with a deep stack.

    llama.cpp splits the text of some vocabularies with a regular expression that recurses once
    for each character of a run of letters, spaces or digits. On an ordinary stack 32,000 of them
    crash the process.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix="tokenising")
    with _stack_size_lock:
        ordinary = threading.stack_size(MAX_CHARACTERS * STACK_BYTES_PER_CHARACTER)
        try:
            executor.submit(lambda: None).result()  # starts the thread, which stays
        finally:
            threading.stack_size(ordinary)
    return executor
