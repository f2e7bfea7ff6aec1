"""Which option of a question a written answer means."""

from typing import Any

from worker.decision.question import Noul, Question, Score

_TRUE = frozenset({"true", "yes"})
_FALSE = frozenset({"false", "no"})


class NoOption(ValueError):
    """A written answer means none of the options; the message says what would, never the text."""


def option_index(question: Question, value: Any) -> int | None:
    """Return the index of the option that an answer means; None: no answer is given.

    Args:
        question: that was asked.
        value: a choice's option; a score's level by number or by its text; true, false, yes or no
            for a noul. Text may have spaces around it. None and empty text are no answer.

    Raises:
        NoOption: it means none of the options.
    """
    text = value.strip() if isinstance(value, str) else value
    if text is None or text == "":
        return None
    if isinstance(question, Noul):
        return _truth(text)
    if isinstance(question, Score):
        return _level(question, text)
    keys = [option.key for option in question.options()]
    name = str(text) if isinstance(text, int) and not isinstance(text, bool) else text
    if name in keys:
        return keys.index(name)
    raise NoOption(f"is none of the {len(keys)} options")


def _truth(text: Any) -> int:
    if isinstance(text, bool):
        return 0 if text else 1
    word = text.lower() if isinstance(text, str) else ""
    if word in _TRUE | _FALSE:
        return 0 if word in _TRUE else 1
    raise NoOption("must be true, false, yes or no")


def _level(question: Score, text: Any) -> int:
    levels = question.criteria
    if text in levels and not isinstance(text, int):
        return levels.index(text)
    number = int(text) if isinstance(text, str) and text.isdecimal() else text
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(levels):
        return number
    raise NoOption(f"must be a level from 0 to {len(levels) - 1}, or a level's text")
