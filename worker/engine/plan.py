"""Decide which tokens are decoded, on which sequence, in which call. Pure.

Exactness rests on this plan being a function of template, state and question alone:

* the trunk is cut at fixed borders counted from position 0, a branch at fixed borders counted
  from where it leaves the trunk;
* no call holds exactly one token. llama.cpp splits the work of such a call by the number of
  threads, and the bits move. So the trunk leaves its last token to the branches, and a chunk of
  one token is avoided by taking one from the chunk before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

CHUNK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens ``start`` to ``stop`` (exclusive) of one prompt, decoded in one call."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Plan:
    """How one ticket is evaluated.

    Attributes:
        whole: indices of branches that do not begin with the trunk; evaluated from position 0,
            each with nothing else in the context.
        trunk_tokens: tokens of the trunk that are decoded once; 0 when no branch forks from it.
        forked: indices of branches that begin with the trunk.
        input_tokens: tokens of all full prompts together.
        evaluated_tokens: tokens that are decoded.
        cells: the most cells that are filled at any time.
    """

    whole: tuple[int, ...]
    trunk_tokens: int
    forked: tuple[int, ...]
    input_tokens: int
    evaluated_tokens: int
    cells: int


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many leading tokens *first* and *second* share."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def spans(start: int, stop: int, chunk: int = CHUNK_TOKENS) -> tuple[Span, ...]:
    """Cut ``start`` to ``stop`` into calls of *chunk* tokens, the last one shorter.

    No call holds exactly one token, unless that is all there is.
    """
    borders = [*range(start, stop, chunk), stop]
    if len(borders) > 2 and borders[-1] - borders[-2] == 1:
        borders[-2] -= 1
    return tuple(Span(a, b) for a, b in pairwise(borders))


def plan(probes: tuple[Sequence[int], Sequence[int]], prompts: Sequence[Sequence[int]]) -> Plan:
    """Plan the evaluation of one ticket.

    Args:
        probes: the tokens of the two probe prompts.
        prompts: the tokens of each branch's full prompt.
    """
    shared = common_prefix(*probes)
    trunk = probes[0][:shared]
    kept = shared - 1  # the branches decode the trunk's last token
    begins = [kept >= 2 and len(prompt) > shared and prompt[:shared] == trunk for prompt in prompts]
    forked = tuple(index for index, fork in enumerate(begins) if fork)
    whole = tuple(index for index, fork in enumerate(begins) if not fork)
    trunk_tokens = kept if forked else 0
    lengths = [len(prompt) for prompt in prompts]
    return Plan(
        whole=whole,
        trunk_tokens=trunk_tokens,
        forked=forked,
        input_tokens=sum(lengths),
        evaluated_tokens=sum(lengths) - trunk_tokens * max(0, len(forked) - 1),
        cells=max(lengths),
    )
