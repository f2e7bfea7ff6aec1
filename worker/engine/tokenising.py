"""Tokenise prompts beside the event loop, on threads with deep stacks."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain

from worker.decision.text import PromptText
from worker.engine.cores import usable_cores
from worker.engine.plan import Plan, plan
from worker.errors import Rejected
from worker.ports import Evaluation

MAX_CHARACTERS = 1 << 20
STACK_BYTES_PER_CHARACTER = 512  # measured: 260
_TURN_CHARACTERS = 1 << 18
"""Prompts that are only counted give way to others after so many."""
_SHARE_CHARACTERS = 1 << 14
"""What is worth a thread of its own; about 10 ms."""
_stack_size_lock = threading.Lock()

Prepared = tuple[Plan, list[list[int]], list[tuple[int, ...]]]
"""A plan, the tokens of each branch's full prompt, the label tokens of each branch."""


class Tokenising:
    """The tokenising threads of an engine.

    Args:
        encode: returns the tokens of a prompt, on any thread; must work until :meth:`close`
            returns.
        context_tokens: the longest prompt.
    """

    def __init__(self, encode: Callable[[PromptText], list[int]], context_tokens: int) -> None:
        self._encode = encode
        self._context_tokens = context_tokens
        # Our own, so that closing can wait for it: it uses the model.
        self._executor = _deep_executor(thread_count())

    async def prepare(self, evaluation: Evaluation) -> Prepared:
        """Plan an evaluation.

        Raises:
            Rejected: a prompt does not fit the context, or is too deep for the stack.
        """
        loop = asyncio.get_running_loop()
        prompts = (*evaluation.probes, *(branch.prompt for branch in evaluation.branches))
        _check_depth(prompts)
        shares = await asyncio.gather(
            *(
                loop.run_in_executor(self._executor, self._encode_all, share)
                for share in _turns(prompts, _SHARE_CHARACTERS)
            )
        )
        first, second, *tokens = chain.from_iterable(shares)
        return self._plan(evaluation, (first, second), tokens)

    async def measure(self, prompts: Sequence[PromptText]) -> list[int]:
        """Return the tokens of each prompt.

        Raises:
            Rejected: a prompt is too deep for the stack.
        """
        loop = asyncio.get_running_loop()
        counts: list[int] = []
        _check_depth(prompts)
        for some in _turns(prompts, _TURN_CHARACTERS):
            tokens = await loop.run_in_executor(self._executor, self._encode_all, some)
            counts += map(len, tokens)
        return counts

    def close(self) -> None:
        """Wait for what is tokenised now."""
        self._executor.shutdown(wait=True)

    def _encode_all(self, prompts: Sequence[PromptText]) -> list[list[int]]:
        return [self._encode(prompt) for prompt in prompts]

    def _plan(
        self, evaluation: Evaluation, probes: tuple[list[int], list[int]], prompts: list[list[int]]
    ) -> Prepared:
        planned = plan(probes, prompts)
        limit, holds = self._context_tokens, "the context holds"
        if evaluation.max_prompt_tokens is not None and evaluation.max_prompt_tokens < limit:
            limit, holds = evaluation.max_prompt_tokens, "in this request it may have"
        if planned.cells > limit:
            raise Rejected(
                "prompt_too_long",
                f"the longest prompt has {planned.cells} tokens, {holds} {limit}",
                "state" if min(map(len, probes)) > limit else "questions",
            )
        return planned, prompts, [branch.label_tokens for branch in evaluation.branches]


def thread_count() -> int:
    """Return how many threads tokenise: one for each core, but no more than four."""
    return min(4, usable_cores())


def _turns(prompts: Sequence[PromptText], turn_characters: int) -> Iterator[Sequence[PromptText]]:
    turn: list[PromptText] = []
    characters = 0
    for prompt in prompts:
        turn.append(prompt)
        characters += _characters(prompt)
        if characters > turn_characters:
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
    longest = max(map(_characters, prompts), default=0)
    if longest > MAX_CHARACTERS:
        raise Rejected(
            "prompt_too_long",
            f"the longest prompt has {longest} characters, at most {MAX_CHARACTERS} are read",
        )


def _deep_executor(threads: int) -> ThreadPoolExecutor:
    """Return an executor of threads with deep stacks.

    llama.cpp splits the text of some vocabularies with a regular expression that recurses once
    for each character of a run of letters, spaces or digits. On an ordinary stack 32,000 of them
    crash the process.
    """
    executor = ThreadPoolExecutor(threads, thread_name_prefix="tokenising")
    all_started = threading.Barrier(threads)
    with _stack_size_lock:
        ordinary = threading.stack_size(MAX_CHARACTERS * STACK_BYTES_PER_CHARACTER)
        try:
            started = [executor.submit(all_started.wait) for _ in range(threads)]
            wait(started)  # the threads stay
        except RuntimeError:  # one cannot be started; the others shall not wait for it
            all_started.abort()
            raise
        finally:
            threading.stack_size(ordinary)
    return executor
