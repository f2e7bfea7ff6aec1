"""Read what the command line names: a state, questions, text from files or standard input."""

import sys
from pathlib import Path
from typing import Any

from worker.decision.strict_file import parse_file
from worker.decision.strict_json import parse_json
from worker.errors import Rejected, UsageError

STANDARD_INPUT = "-"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_state(argument: str) -> Any:
    """Return the state that an argument is or names: text, ``@file`` (.json is parsed), or ``-``.

    Raises:
        UsageError: the file cannot be read; text of it is never shown.
    """
    if argument == STANDARD_INPUT:
        return read_text(argument)
    if not argument.startswith("@"):
        return argument
    name = argument[1:]
    text = read_text(name)
    return parse_text(text, name) if name.endswith(".json") else text


def read_questions(path: Path) -> Any:
    """Return the questions in a JSON or YAML file, alone or under the key ``questions``.

    Raises:
        UsageError: naming the file, the place and the reason.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    tree = parse_file(str(path), content.removeprefix(_BYTE_ORDER_MARK))
    if isinstance(tree, dict) and isinstance(tree.get("questions"), dict):
        # A question may be called "questions", and has a type then.
        return tree if "type" in tree["questions"] else tree["questions"]
    return tree


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input for ``-``.

    Raises:
        UsageError: it cannot be read, or is not UTF-8.
    """
    source = "standard input" if name == STANDARD_INPUT else name
    try:
        content = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
        return content.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{source}: not UTF-8 at byte {error.start}") from error


def parse_text(text: str, source: str) -> Any:
    """Parse JSON text that came from *source*.

    Raises:
        UsageError: naming the source and the place.
    """
    try:
        return parse_json(text)
    except Rejected as fault:
        raise UsageError(f"{source}: {fault}") from None
