"""Run a few lines in a process that may die, or be short of memory."""

import subprocess
import sys
import textwrap
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def in_a_child(code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python code in a new process and wait for its end."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=_ROOT)
