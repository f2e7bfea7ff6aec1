"""A prompt of the operator's own: named by its file, checked before it is used."""

import re
from collections.abc import Mapping

import jinja2

from worker.decision.labels import Label
from worker.decision.prompt import Frame, PromptTemplate, shown
from worker.decision.question import Choice, Noul, Question, Score
from worker.errors import UsageError

_NAME = re.compile(r"(?P<name>.+?)-v(?P<version>[\w.]+)")
_STATE = "\N{WHITE SQUARE}the state\N{WHITE SQUARE}"
_LABELS = tuple(
    Label(f"\N{WHITE SQUARE}label {place}\N{WHITE SQUARE}", place) for place in range(3)
)
_QUESTIONS: Mapping[str, Question] = {
    "choice": Choice(type="choice", instructions="Which?", criteria={"one": "1", "two": None}),
    "score": Score(type="score", instructions="How much?", criteria=["low", ["mid"], "high"]),
    "noul": Noul(type="noul", instructions={"ask": "Is it?"}, criteria={"true": "it is"}),
}


def read_prompt(stem: str, source: str, frame: Frame) -> PromptTemplate:
    """Make a prompt template from a file.

    Args:
        stem: the file's name without its suffix: ``NAME-vVERSION``, else a name.
        source: Jinja, given state, type, instructions, chat and options, each with label, key and
            description. It writes no control tokens; the chat template around it does.
        frame: what the model's chat template puts around it.

    Raises:
        UsageError: it cannot be rendered, or leaves out the state or a label.
    """
    match = _NAME.fullmatch(stem)
    name, version = (match["name"], match["version"]) if match else (stem, "unversioned")
    try:
        prompt = PromptTemplate(name, version, source, frame)
    except jinja2.TemplateSyntaxError as error:
        raise UsageError(f"prompt file {stem}, line {error.lineno}: {error.message}") from error
    for kind, question in _QUESTIONS.items():
        _check(prompt, stem, kind, question)
    return prompt


def _check(prompt: PromptTemplate, stem: str, kind: str, question: Question) -> None:
    labels = _LABELS[: len(question.options())]
    try:
        pieces = prompt.render(shown(_STATE), question, labels)
    except Exception as error:  # the template may raise anything
        raise UsageError(f"prompt file {stem} cannot render a {kind}: {error}") from error
    text = "".join(piece.text for piece in pieces)
    missing = [what for what, mark in _marks(labels) if mark not in text]
    if missing:
        raise UsageError(f"prompt file {stem} leaves out {missing[0]} of a {kind}")


def _marks(labels: tuple[Label, ...]) -> list[tuple[str, str]]:
    return [("the state", _STATE), *((f"label {n + 1}", one.shown) for n, one in enumerate(labels))]
