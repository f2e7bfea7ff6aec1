"""``decision-worker calibrate``: a policy file out of a run on labelled cases."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import ValidationError
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.decision.policy_file import Binding
from worker.decision.strict_json import parse_json
from worker.errors import Rejected, UsageError
from worker.outputs import write_output
from worker.quality.extra import check_extra
from worker.quality.run_file import Header, read_run
from worker.rulebook import binding_of

if TYPE_CHECKING:  # importing the libraries takes seconds
    from worker.quality.calibration import Calibration, Fitted, Goal
    from worker.quality.thresholds import Tested

_PLAIN_WIDTH = 1000

_EXAMPLES = """\b
Examples:
  decision-worker calibrate --run cases.run.jsonl --max-error 0.02 --output policy.yaml
  decision-worker run --policy policy.yaml …
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--run", required=True, type=click.Path(path_type=Path), help="file of a run of `evaluate`"
)
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), help="policy to write, YAML or JSON"
)
@click.option(
    "--max-error",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="accept as much as this part wrong allows",
)
@click.option(
    "--min-coverage",
    type=click.FloatRange(0, 1, min_open=True),
    help="accept at least this part, the surest",
)
@click.option(
    "--abstain-error",
    default=0.5,
    type=click.FloatRange(0, 1, min_open=True),
    help="abstain where at least this part is wrong [0.5]",
)
@click.option(
    "--delta",
    default=0.05,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="chance that a promise does not hold [0.05]",
)
@click.option(
    "--fit-share",
    default=0.3,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="part of the cases for temperatures; the rest tests thresholds [0.3]",
)
@click.option("--seed", default=0, help="of the parting [0]")
@click.option("--name", help="of the policy [the set's name and version]")
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    help="what `manifest --json` printed where a server answered that does not say what it is",
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def calibrate(
    run: Path, output: Path, name: str | None, manifest: Path | None, as_json: bool, **goal: Any
) -> None:
    """Fit temperatures and thresholds to labelled cases, and write them as a policy.

    A temperature for each question makes probabilities of the model's preferences. The thresholds
    are then tested on cases that it was not fitted on: with a chance of 1 - delta, for each
    question, what they promise holds for new cases like these. Where no threshold can promise it,
    nothing is accepted. The policy is bound to what answered in the run: model file, prompt,
    build and question set.
    """
    if (goal["max_error"] is None) == (goal["min_coverage"] is None):
        raise UsageError("calibrate needs one of --max-error and --min-coverage")
    check_extra()
    # Only now: the libraries take seconds to import.
    from worker.quality.calibration import Goal
    from worker.quality.calibration import calibrate as fit
    from worker.quality.fitted_policy import policy_of, write_policy

    header, results = read_run(run)
    bound_to = _bound_to(header, manifest)
    told = Goal(**goal)
    calibration = fit(header, results, told)
    one = header.question_set
    policy = policy_of(
        calibration,
        header,
        bound_to,
        name or f"{one.name}-{one.version}",
        _description(header, told),
        results,
    )
    content = write_policy(policy, output.name)
    write_output(output, content, [run, *([] if manifest is None else [manifest])])
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(calibration), ensure_ascii=False, indent=2))
        return
    # For a program, each question is one whole line.
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    console.print(_table(calibration, told))
    click.echo(f"calibrate: wrote {output}; {policy.description}")


def _bound_to(header: Header, manifest: Path | None) -> Binding:
    if header.source.provenance is not None:
        return binding_of(header.source.provenance)
    if manifest is None:
        raise UsageError(
            f"{header.source.target} does not say which model file and build answered; give"
            " --manifest FILE with what `decision-worker manifest --json` prints there"
        )
    try:
        tree = parse_json(manifest.read_bytes())
        return Binding.model_validate(tree["bound_to"])
    except OSError as error:
        raise UsageError(f"--manifest {manifest}: {error.strerror}") from error
    except (Rejected, ValidationError, KeyError, TypeError):
        raise UsageError(f"--manifest {manifest}: has no part bound_to of a manifest") from None


def _description(header: Header, goal: "Goal") -> str:
    cases = header.cases
    if goal.max_error is not None:
        promise = f"at most {goal.max_error:g} of the accepted answers wrong"
    else:
        promise = f"at least {goal.min_coverage:g} of all answers accepted"
    return (
        f"Fitted to {cases.count} cases of {cases.file} (sha256 {cases.sha256}), seed {goal.seed}:"
        f" {promise}, for each question but for a chance of {goal.delta:g}."
    )


def _table(calibration: "Calibration", goal: "Goal") -> Table:
    promised = "errors at most" if goal.max_error is not None else "coverage at least"
    columns = (
        *("question", "temperature", "fitted on", "log loss", "ece", "ece of chance"),
        *("accept from", "accepts", promised, "abstain under"),
    )
    table = Table(*columns, box=box.SIMPLE, pad_edge=False, header_style="bold")
    for key, fitted in calibration.questions.items():
        table.add_row(Text(key), *_row(fitted, goal))
    return table


def _row(fitted: "Fitted", goal: "Goal") -> tuple[str, ...]:
    before, after = fitted.before, fitted.after
    checks = (
        ("", "", "")
        if before is None or after is None
        else (
            f"{before.log_loss:.3f} → {after.log_loss:.3f}",
            f"{before.ece:.3f} → {after.ece:.3f}",
            f"{after.ece_noise_floor:.3f}",
        )
    )
    return (
        f"{fitted.temperature:.3f}",
        f"{fitted.fitted_on} ({fitted.fit_cases} + {fitted.check_cases} cases)",
        *checks,
        *_accept(fitted, goal),
        "never" if fitted.abstain is None else f"{fitted.abstain.threshold:.3f}",
    )


def _accept(fitted: "Fitted", goal: "Goal") -> tuple[str, str, str]:
    from worker.quality.thresholds import least_accepted

    accept: Tested | None = fitted.accept
    if accept is not None:
        return f"{accept.threshold:.3f}", f"{accept.share:.0%}", f"{accept.bound:.4f}"
    if goal.max_error is None or not fitted.tried:
        return "nowhere", "0%", ""
    least = least_accepted(goal.max_error, fitted.tried, goal.delta)
    return "nowhere", "0%", f"(takes {least} accepted cases)"
