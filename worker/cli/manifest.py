"""``decision-worker manifest``: say what exactly would answer here."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from worker.brain import open_brain
from worker.cli.options import SettingsCommand, read_settings
from worker.decision.question_set import NO_SETS, describe
from worker.rulebook import binding_of
from worker.settings import Settings


@click.command(cls=SettingsCommand, groups=("Model", "Engine", "Decisions", "Process"))
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def manifest(as_json: bool, **flags: Any) -> None:
    """Print the provenance that outcomes would carry: model, build, prompt, sets, policy.

    The part `bound_to` is what the policy file of this model and build must say.
    """
    settings = read_settings(flags, usual_log_level="warning")
    told = asyncio.run(_describe(settings))
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False, indent=2))
        return
    lines = list(_lines(told))
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        click.echo(f"{name:<{width}}  {text}")


async def _describe(settings: Settings) -> dict[str, Any]:
    async with open_brain(settings) as brain:
        provenance = brain.evaluator.provenance
        sets = brain.shelf.sets if brain.shelf else NO_SETS
        return {
            **provenance.model_dump(mode="json", exclude_none=True),
            "question_sets": {one.key: describe(one)["sha256"] for one in sets},
            "bound_to": binding_of(provenance).model_dump(mode="json"),
        }


def _lines(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _lines(value, f"{above}{name}.")
        else:
            shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{above}{name}", shown
