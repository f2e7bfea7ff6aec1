"""``decision-worker ask``: one state, some questions, a local model."""

import asyncio
import json
import sys
from typing import Any

import click
from rich.console import Console

from worker.brain import open_brain
from worker.cli.given import STANDARD_INPUT, parse_text, read_state, read_text
from worker.cli.options import SettingsCommand, read_settings
from worker.cli.tables import answer_table
from worker.decision.outcome import Outcome
from worker.decision.ticket import Ticket, parse_ticket
from worker.errors import Rejected, UsageError
from worker.ports import Lane
from worker.settings import Settings
from worker.sidecar.systemone import write_answer


@click.command(cls=SettingsCommand, groups=("Model", "Engine", "Process"))
@click.option(
    "--state",
    required=True,
    metavar="TEXT|@FILE|-",
    help="what the questions are about: text, a file (.json is parsed), or standard input",
)
@click.option("--questions", metavar="FILE", help="System One questions by id, as JSON; - is stdin")
@click.option(
    "--choice", multiple=True, metavar="ID=INSTRUCTIONS:A|B|…", help="ask for one of some options"
)
@click.option(
    "--score", multiple=True, metavar="ID=INSTRUCTIONS:LOW|…|HIGH", help="ask for a level"
)
@click.option("--noul", multiple=True, metavar="ID=INSTRUCTIONS", help="ask for true or false")
@click.option("--json", "as_json", is_flag=True, help="print JSON also on a terminal")
def ask(
    state: str,
    questions: str | None,
    choice: tuple[str, ...],
    score: tuple[str, ...],
    noul: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> None:
    """Ask a local model questions about one state.

    Prints a System One response as JSON, or bars on a terminal:

    \b
      decision-worker ask --model sample --state 'My card was charged twice!' \\
        --choice 'team=Who handles this?:billing|tech|none' --noul 'refund=Is a refund wanted?'
    """  # noqa: D301 - click reads the backspace
    if state == questions == STANDARD_INPUT:
        raise UsageError("--state and --questions cannot both read standard input")
    asked = _from_file(questions) if questions else {}
    for text in choice:
        _add(asked, _choice(text))
    for text in score:
        _add(asked, _score(text))
    for text in noul:
        _add(asked, _noul(text))
    ticket = _ticket(read_state(state), asked, questions)
    settings = read_settings(flags, usual_log_level="warning")
    outcome = asyncio.run(_answer(settings, ticket))
    if as_json or not sys.stdout.isatty():
        click.echo(json.dumps(write_answer(outcome), ensure_ascii=False, indent=2))
    else:
        Console().print(answer_table(outcome))


async def _answer(settings: Settings, ticket: Ticket) -> Outcome:
    async with open_brain(settings) as brain:
        try:
            return await brain.evaluator.evaluate(ticket, Lane.INTERACTIVE)
        except Rejected as fault:
            raise UsageError(str(fault)) from None


def _ticket(state: Any, asked: dict[str, Any], source: str | None) -> Ticket:
    if not asked and source is None:
        raise UsageError("no question: give --questions, --choice, --score or --noul")
    try:
        # Arguments may hold bytes that are not UTF-8, which only the strict parser notices.
        body = json.dumps({"ticket_id": "ask", "state": state, "questions": asked})
        return parse_ticket(body)
    except Rejected as fault:
        raise UsageError(f"{source}: {fault}" if source else str(fault)) from None


def _from_file(name: str) -> dict[str, Any]:
    tree = parse_text(read_text(name), name)
    if not isinstance(tree, dict):
        raise UsageError(f"{name}: questions must be a JSON object of questions by id")
    return tree


def _add(asked: dict[str, Any], question: tuple[str, Any]) -> None:
    key, body = question
    if key in asked:
        raise UsageError(f"question {key} is asked twice")
    asked[key] = body


def _choice(text: str) -> tuple[str, Any]:
    key, instructions, options = _with_options(text, "--choice")
    if len(set(options)) < len(options):
        raise UsageError(f"--choice {key}: an option is given twice")
    return key, {"type": "choice", "instructions": instructions, "criteria": dict.fromkeys(options)}


def _score(text: str) -> tuple[str, Any]:
    key, instructions, levels = _with_options(text, "--score")
    return key, {"type": "score", "instructions": instructions, "criteria": levels}


def _noul(text: str) -> tuple[str, Any]:
    key, equals, instructions = text.partition("=")
    if not equals:
        raise UsageError("--noul: write it as ID=INSTRUCTIONS")
    return key.strip(), {"type": "noul", "instructions": instructions.strip()}


def _with_options(text: str, flag: str) -> tuple[str, str, list[str]]:
    key, equals, rest = text.partition("=")
    instructions, colon, options = rest.rpartition(":")
    if not equals or not colon:
        raise UsageError(f"{flag}: write it as ID=INSTRUCTIONS:ONE|TWO")
    return key.strip(), instructions.strip(), [option.strip() for option in options.split("|")]
