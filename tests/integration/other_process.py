"""Evaluate in a process of its own: ``python -m tests.integration.other_process MODEL LENGTHS``.

LENGTHS is JSON: a list of ``[trunk, [branch, …], seed]``. Prints a line of hexadecimal floats for
each branch. Run by tests that ask for the same bits after a restart.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.integration.evaluations import Lengths, in_hex, make_evaluation
from tests.integration.pools import open_pool
from tests.models import QUANTISED_OPTIONS
from worker.engine.llama import Model
from worker.ports import Lane


def readings_of_another_process(model: Path, lengths: Sequence[Lengths]) -> list[str]:
    """Return what a new process reads, written down to the last bit."""
    argument = json.dumps([[one.trunk, one.branches, one.seed] for one in lengths])
    command = [sys.executable, "-m", "tests.integration.other_process", str(model), argument]
    root = Path(__file__).parents[2]
    child = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=root)
    assert (0, "") == (child.returncode, child.stderr)
    return child.stdout.splitlines()


async def main(path: str, argument: str) -> None:
    """Be that process."""
    lengths = [Lengths(trunk, tuple(rest), seed) for trunk, rest, seed in json.loads(argument)]
    with (
        Model.load(Path(path), QUANTISED_OPTIONS) as model,
        open_pool(model, contexts=2) as pool,
    ):
        replies = await asyncio.gather(
            *(pool.score(make_evaluation(model, one), Lane.BATCH) for one in lengths)
        )
    for reply in replies:
        print(*in_hex(reply.readings), sep="\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
