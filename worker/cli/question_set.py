"""The question set that a command is about: a file, or one of a folder by name."""

import asyncio
from pathlib import Path

from worker.cli.options import SAMPLE
from worker.decision.question_set import QuestionSet, is_question_set_file
from worker.decision.strict_file import read_document
from worker.errors import Rejected, UsageError
from worker.library import open_shelf
from worker.local.sample_tickets import SUPPORT_DESK
from worker.settings import Settings


def find_question_set(asked: str, settings: Settings) -> QuestionSet:
    """Return a question set.

    Args:
        asked: a YAML or JSON file, ``NAME`` or ``NAME@VERSION`` of ``--question-sets``, or, where
            there are none, ``sample``.
        settings: that name the folder.

    Raises:
        UsageError: there is no such set, or it is wrong.
    """
    is_sample = asked == str(SAMPLE) and settings.question_sets is None
    path = SUPPORT_DESK if is_sample else Path(asked)
    if is_question_set_file(path.name):
        try:
            return read_document(QuestionSet, str(path), path.read_bytes())
        except OSError as error:
            raise UsageError(f"{asked}: {error.strerror}") from error
    shelf = asyncio.run(open_shelf(settings))
    if shelf is None:
        raise UsageError(f"--question-set {asked}: name a .yaml file, or set --question-sets")
    try:
        return shelf.find(asked)
    except Rejected as fault:
        raise UsageError(f"--question-set {asked}: {fault.message}") from None
