"""Write the outcomes of all golden tickets anew: ``python -m tests.golden``; look at the diff."""

import asyncio

from tests.golden.answers import outcome_of
from tests.golden.cases import differences, read_cases, write_case


async def _write_all() -> None:
    for case in read_cases():
        outcome = await outcome_of(case)
        found = list(differences(case.outcome, outcome))
        if found:
            write_case(case, outcome)
        print(f"{case.path.name}: {'written' if found else 'unchanged'}")
        for line in found:
            print(f"  {line}")


asyncio.run(_write_all())
