"""The command line: turn arguments into calls, and errors into one line and an exit code."""

import errno
import os
import sys
from pathlib import Path

import click

from worker import __version__
from worker.cli.ask import ask
from worker.cli.calibrate import calibrate
from worker.cli.check import check
from worker.cli.collect import collect
from worker.cli.compare import compare
from worker.cli.demo import demo
from worker.cli.doctor import doctor
from worker.cli.evaluate import evaluate
from worker.cli.manifest import manifest
from worker.cli.package import package
from worker.cli.redrive import redrive
from worker.cli.replay import replay
from worker.cli.run import run, serve
from worker.cli.sample_model import sample_model
from worker.cli.schema import schema
from worker.cli.sets import sets
from worker.cli.submit import submit
from worker.cli.top import top
from worker.cli.tune import tune
from worker.errors import ExitCode, WorkerError
from worker.faults import fault_text


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="decision-worker")
def commands() -> None:
    """Answer typed questions about texts, from a queue or over HTTP, with exact probabilities.

    Every setting is a flag and an environment variable: --queue-url is WORKER_QUEUE_URL. AWS is
    reached as AWS's own variables say: AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL and so on.

    Exit codes: 0 done or drained, 1 a bug, 2 usage or settings, 3 this build or model cannot run
    here, 4 AWS cannot be used, 5 the engine failed, 6 drained with work unfinished, 7 fell short.
    """


_CANNOT_WRITE = (errno.ENOSPC, errno.EIO, errno.EBADF)

for _command in (
    demo,
    ask,
    run,
    serve,
    submit,
    collect,
    redrive,
    evaluate,
    calibrate,
    compare,
    doctor,
    tune,
    top,
    manifest,
    package,
    sets,
    check,
    replay,
    schema,
    sample_model,
):
    commands.add_command(_command)


def main() -> None:
    """Run the command line and exit."""
    _open_missing_streams()
    sys.exit(_run())


def _open_missing_streams() -> None:
    """Stand in for standard streams that the caller has closed, which Python sets to None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _run() -> int:
    try:
        code = commands.main(standalone_mode=False)
    except WorkerError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except click.Abort:
        return 130
    except OSError as error:
        if error.filename is not None or error.errno not in _CANNOT_WRITE:
            raise
        click.echo(f"error: cannot write the output: {error.strerror}", err=True)
        return ExitCode.USAGE
    except Exception as error:  # noqa: BLE001 - the last line of defence says what to report
        click.echo(fault_text(error), err=True, nl=False)
        click.echo("error: a bug in decision-worker; please report the lines above", err=True)
        return ExitCode.BUG
    return int(code or 0)
