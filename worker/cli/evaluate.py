"""``decision-worker evaluate``: ask about labelled cases, and measure the answers."""

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click

from worker import __version__
from worker.brain import open_brain
from worker.cli.options import SAMPLE, SettingsCommand, read_settings
from worker.cli.progress import progress_bar
from worker.cli.question_set import find_question_set
from worker.decision.outcome import QuestionSetProvenance
from worker.decision.question_set import QuestionSet
from worker.errors import ExitCode, UsageError
from worker.lifecycle import Lifecycle
from worker.local.sample_tickets import LABELLED_CASES
from worker.outputs import check_output, write_output
from worker.quality.asking import Target
from worker.quality.cases import Case, load_cases
from worker.quality.evaluation import Evaluation
from worker.quality.extra import check_extra
from worker.quality.gates import Requirement, read_requirement
from worker.quality.in_process import InProcess, fit_policy
from worker.quality.remote import open_remote
from worker.quality.run_file import (
    FORMAT,
    AskedQuestion,
    CasesSource,
    Header,
    Probe,
    Result,
    Source,
    open_run,
    read_run,
)
from worker.records import count_records, has_records
from worker.settings import Settings

_SUFFIX = ".run.jsonl"
_ASKED_MODEL = "jev-latest"

_EXAMPLES = """\b
Examples:
  decision-worker evaluate --cases sample --question-set sample --model sample
  decision-worker evaluate --cases cases.jsonl --question-set triage.yaml --model model.gguf
  decision-worker evaluate --cases cases.csv --column text --question-set triage.yaml \\
    --url http://localhost:8080 --probe all --require 'accuracy>=0.8' --require 'refund.ece<=0.1'
"""


@dataclass(frozen=True, slots=True)
class _Server:
    """A server to ask instead of this process's engine."""

    url: str
    model: str
    key_file: Path | None
    by_name: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is asked of whom."""

    path: Path
    cases: list[Case]
    question_set: QuestionSet
    probes: tuple[Probe, ...]
    run: Path
    at_once: int | None
    server: _Server | None


@click.command(
    cls=SettingsCommand, epilog=_EXAMPLES, groups=("Model", "Engine", "Decisions", "Process")
)
@click.option(
    "--cases",
    type=click.Path(path_type=Path),
    help="JSONL, CSV or TSV file of states and right answers, or sample; without it --run is"
    " measured again",
)
@click.option(
    "--question-set", help="what is asked: a YAML file, NAME[@VERSION] of a folder, or sample"
)
@click.option("--column", default="state", help="field or column with the state [state]")
@click.option("--url", help="ask a System One server there, not the model here")
@click.option("--ask-model", default=_ASKED_MODEL, help=f"model to ask --url for [{_ASKED_MODEL}]")
@click.option("--key-file", type=click.Path(path_type=Path), help="file of a bearer key for --url")
@click.option("--by-name", is_flag=True, help="name the set to --url, which has it, too")
@click.option(
    "--probe",
    multiple=True,
    type=click.Choice(["order", "injection", "all"]),
    help="ask again with options reversed, or with an instruction at the end of the state",
)
@click.option("--run", type=click.Path(path_type=Path), help="file of the run [CASES.run.jsonl]")
@click.option("--at-once", type=click.IntRange(1, 256), help="cases at once [contexts; --url: 1]")
@click.option("--require", multiple=True, metavar="NAME>=X", help="else exit with 7; repeatable")
@click.option("--resamples", default=500, type=click.IntRange(10), help="for intervals [500]")
@click.option("--seed", default=0, help="of everything that is drawn [0]")
@click.option(
    "--report", type=click.Path(path_type=Path), help="write pictures and measures as one HTML page"
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def evaluate(
    cases: Path | None,
    run: Path | None,
    require: tuple[str, ...],
    resamples: int,
    seed: int,
    report: Path | None,
    as_json: bool,
    **flags: Any,
) -> ExitCode:
    """Ask about cases whose right answers are known, and measure the answers.

    A JSONL line holds a "state", "answers" by question and perhaps an "id"; a table has a column
    for each question. Every answer goes to the file of the run with its whole distribution; the
    same command goes on after an interruption.

    \b
    Names for --require: accuracy, all_right, log_loss, ece, aurc, order_flips, injection_flips,
    label_mass, near_ties, accepted, seconds_p95 …; of one question refund.accuracy; the ends of
    its interval refund.accuracy.low and .high.

    Exit codes: 6 when interrupted, 7 when a requirement is not met.
    """  # noqa: D301 - click reads the backspace
    requirements = [read_requirement(text) for text in require]
    check_extra()
    own = ("question_set", "column", "url", "ask_model", "key_file", "by_name", "probe", "at_once")
    options = {name: flags.pop(name) for name in own}
    settings = read_settings(flags, usual_log_level="warning")
    if run is None:
        if cases is None:
            raise UsageError("evaluate needs --cases, or a --run to measure again")
        run = cases.with_suffix(_SUFFIX)
    if cases == SAMPLE and not SAMPLE.exists():
        cases = LABELLED_CASES
    inputs = [run] if cases is None else [cases, run]
    if report is not None:
        check_output(report, inputs)  # the answers may take hours
    if cases is not None and not asyncio.run(_ask(_plan(cases, run, options, settings), settings)):
        click.echo("evaluate: interrupted; the same command goes on", err=True)
        return ExitCode.DRAINED_UNFINISHED
    page, code = _tell(
        run, requirements, resamples, seed, as_json=as_json, paged=report is not None
    )
    if report is not None:
        write_output(report, page.encode(), inputs)
    return code


def _plan(cases: Path, run: Path, options: dict[str, Any], settings: Settings) -> _Plan:
    if options["question_set"] is None:
        raise UsageError("evaluate needs --question-set")
    question_set = find_question_set(options["question_set"], settings)
    probes = _probes(options["probe"])
    server = None
    if options["url"] is not None:
        names = ("url", "ask_model", "key_file", "by_name")
        server = _Server(*(options[name] for name in names))
        _check_server(server, question_set, probes)
    total = count_records(cases) if cases.is_file() and has_records(cases) else 0
    with progress_bar("Reading", total) as on_step:
        found = load_cases(cases, question_set.questions, column=options["column"], on_step=on_step)
    return _Plan(cases, found, question_set, probes, run, options["at_once"], server)


def _probes(asked: Sequence[str]) -> tuple[Probe, ...]:
    names = ("order", "injection")
    return tuple(cast("Probe", name) for name in names if name in asked or "all" in asked)


def _check_server(server: _Server, question_set: QuestionSet, probes: Sequence[Probe]) -> None:
    if server.by_name and "order" in probes:
        raise UsageError("--by-name cannot reverse the options of the set that the server has")
    if not server.by_name and (question_set.defaults.orders or 1) > 1:
        click.echo(
            f"evaluate: {question_set.key} wants {question_set.defaults.orders} orders, which"
            " questions sent to --url cannot say; --by-name names the set instead",
            err=True,
        )


async def _ask(plan: _Plan, settings: Settings) -> bool:
    """Ask about all cases that have no result yet; return whether all have one now."""
    lifecycle = Lifecycle()
    with lifecycle.signals():
        async with _open_target(plan, settings) as (target, at_once):
            header = _header(plan, await target.source())
            with (
                open_run(plan.run, header) as run,
                progress_bar("Cases", len(plan.cases)) as on_step,
            ):
                evaluation = Evaluation(
                    target,
                    plan.question_set,
                    plan.probes,
                    run,
                    at_once,
                    on_step,
                    lifecycle.stopping,
                )
                await evaluation.ask_all(plan.cases)
                return all(case.case_id in run.known for case in plan.cases)


@asynccontextmanager
async def _open_target(plan: _Plan, settings: Settings) -> AsyncIterator[tuple[Target, int]]:
    """Open who is asked; yield it with the number of cases to ask about at once."""
    if plan.server is None:
        async with open_brain(settings) as brain:
            evaluator = fit_policy(brain.evaluator, plan.question_set, settings)
            yield InProcess(evaluator), plan.at_once or brain.size.contexts
        return
    server = plan.server
    key = None if server.key_file is None else _key(server.key_file)
    async with open_remote(
        server.url, plan.question_set, model=server.model, key=key, by_name=server.by_name
    ) as remote:
        yield remote, plan.at_once or 1


def _key(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--key-file {path} cannot be read") from error


def _header(plan: _Plan, source: Source) -> Header:
    one = plan.question_set
    return Header(
        format=FORMAT,
        worker=__version__,
        cases=CasesSource(
            file=plan.path.name,
            sha256=hashlib.sha256(plan.path.read_bytes()).hexdigest(),
            count=len(plan.cases),
        ),
        question_set=QuestionSetProvenance(name=one.name, version=one.version, sha256=one.sha256()),
        questions={
            key: AskedQuestion(
                type=question.type, options=tuple(option.key for option in question.options())
            )
            for key, question in one.questions.items()
        },
        probes=plan.probes,
        source=source,
    )


def _tell(
    path: Path,
    requirements: Sequence[Requirement],
    resamples: int,
    seed: int,
    *,
    as_json: bool,
    paged: bool,
) -> tuple[str, ExitCode]:
    """Print what a run says; return its page, if that is wanted, and whether it will do."""
    # Only now: the libraries take seconds to import.
    from worker.cli.measures import print_summary
    from worker.quality.bootstrap import Draw
    from worker.quality.page import write_page
    from worker.quality.summary import summarize

    header, results = read_run(path)
    summary = summarize(header, results, Draw(seed, resamples))
    page = write_page(header, results, summary, resamples) if paged else ""
    measured = summary.flat()
    unmet = [told for one in requirements if (told := one.unmet(measured)) is not None]
    if not any(result.answers for result in results):
        unmet.append(_nothing_answered(results))
    if as_json:
        tree = {
            "run": str(path),
            "header": header.model_dump(mode="json", exclude_none=True),
            "summary": summary.as_dict(),
            "unmet": unmet,
        }
        click.echo(json.dumps(tree, ensure_ascii=False, indent=2))
    else:
        print_summary(header, summary, is_terminal=sys.stdout.isatty())
        click.echo(f"evaluate: {summary.cases} cases; run {path}")
    for told in unmet:
        click.echo(f"evaluate: {told}", err=True)
    return page, ExitCode.FELL_SHORT if unmet else ExitCode.DONE


def _nothing_answered(results: Sequence[Result]) -> str:
    codes = sorted({one.failure.code for one in results if one.failure is not None})
    return f"not one case was answered: {', '.join(codes) or 'the run has none'}"
