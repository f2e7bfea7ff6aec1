import subprocess
import sys

import click
import pytest

from worker.cli import commands


def names() -> list[str]:
    return commands.list_commands(click.Context(commands))


@pytest.mark.parametrize("name", names())
def test_a_command_has_the_name_it_is_asked_for_by(name):
    command = commands.get_command(click.Context(commands), name)

    assert name == command.name
    assert command.short_help or command.help


def test_there_is_no_other_command():
    assert commands.get_command(click.Context(commands), "cli") is None


def test_no_command_waits_for_the_libraries_of_another():
    code = "import sys, worker.cli; print(*{'numpy', 'aiohttp', 'botocore'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""
