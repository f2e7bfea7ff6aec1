"""The command line: turn arguments into calls, and errors into one line and an exit code."""

import errno
import os
import sys
import typing
from importlib import import_module
from pathlib import Path

import click

from worker import __version__
from worker.errors import ExitCode, WorkerError
from worker.faults import fault_text

# The module of each command, which has a function of the command's name.
_MODULES = {
    "ask": "ask",
    "calibrate": "calibrate",
    "check": "check",
    "collect": "collect",
    "compare": "compare",
    "demo": "demo",
    "doctor": "doctor",
    "evaluate": "evaluate",
    "manifest": "manifest",
    "package": "package",
    "redrive": "redrive",
    "replay": "replay",
    "run": "run",
    "sample-model": "sample_model",
    "schema": "schema",
    "serve": "run",
    "sets": "sets",
    "submit": "submit",
    "top": "top",
    "tune": "tune",
}


class _Commands(click.Group):
    """Commands that are imported when they are asked for: none waits for another's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"worker.cli.{_MODULES[cmd_name]}")
        return typing.cast("click.Command", getattr(module, cmd_name.replace("-", "_")))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="decision-worker")
def commands() -> None:
    """Answer typed questions about texts, from a queue or over HTTP, with exact probabilities.

    Every setting is a flag and an environment variable: --queue-url is WORKER_QUEUE_URL. AWS is
    reached as AWS's own variables say: AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL and so on.

    Exit codes: 0 done or drained, 1 a bug, 2 usage or settings, 3 this build or model cannot run
    here, 4 AWS cannot be used, 5 the engine failed, 6 drained with work unfinished, 7 fell short.
    """


_CANNOT_WRITE = (errno.ENOSPC, errno.EIO, errno.EBADF)


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
