"""What an answer was read from."""

import hashlib
import math

import pytest

from tests.factories import make_ticket, make_wording
from worker.decision.asked import Asked, View, Worded
from worker.decision.evidence import Witness
from worker.decision.scores import Reading, score_views
from worker.decision.text import Piece

PROMPT = (Piece("<turn>", trusted=True), Piece("help\n", trusted=False))
OTHER = (Piece("another", trusted=False),)


def seen_by(asked: Asked, *readings: Reading) -> Witness:
    witness = Witness()
    worded = Worded((PROMPT, PROMPT), (asked,))
    witness.see(worded, readings, tuple(range(10, 10 + len(readings))), trunk_tokens=7)
    return witness


def test_logits_are_in_the_requests_order() -> None:
    """Whatever the order in which options were shown; of several spellings the likeliest counts."""
    view = View(PROMPT, ((5,), (6, 7), (8,)), (2, 0, 1))
    [evidence] = seen_by(Asked((view,)), Reading((0.5, -1.0, 3.0, 2.0), 9.0, top_token=4)).seen

    assert (3.0, 2.0, 0.5) == evidence.option_logits
    assert (7, 8, 5) == evidence.option_tokens
    assert (4, 10) == (evidence.top_token, evidence.prompt_tokens)
    assert hashlib.sha256(b"<turn>help\n").hexdigest() == evidence.prompt_sha256


def test_logits_and_probabilities_belong_together() -> None:
    """In one view the softmax of the logits over the temperature are the probabilities."""
    asked = Asked((View(PROMPT, ((1,), (2,)), (1, 0)),), temperature=2.0)
    reading = Reading((1.0, 3.0), 9.0, 1)
    [evidence] = seen_by(asked, reading).seen
    weights = [math.exp(logit / 2.0) for logit in evidence.option_logits]

    assert pytest.approx(score_views(asked, [reading]).probabilities) == [
        weight / sum(weights) for weight in weights
    ]


def test_several_views_are_averaged() -> None:
    """Logits are means, tokens add up, and the hash is of all prompts."""
    views = (View(PROMPT, ((1,), (2,)), (0, 1)), View(OTHER, ((1,), (2,)), (1, 0)))
    witness = seen_by(Asked(views), Reading((1.0, 2.0), 9.0, 1), Reading((3.0, 5.0), 9.0, 2))
    [evidence] = witness.seen

    assert (3.0, 2.5) == evidence.option_logits
    assert ((1, 2), 1, 21, 7) == (
        evidence.option_tokens,
        evidence.top_token,
        evidence.prompt_tokens,
        witness.trunk_tokens,
    )
    assert hashlib.sha256(b"<turn>help\nanother").hexdigest() == evidence.prompt_sha256


def test_every_question_has_its_own() -> None:
    """One for each question, in their order; a rating is not an option, and spoils nothing."""
    worded = make_wording().word("help", make_ticket().questions)
    rating = Asked((View(OTHER, ((1,), (2,), (3,)), ()),), rates=True)
    worded = Worded(worded.probes, (*worded.questions, rating))
    labels = [len(view.label_tokens) for asked in worded.questions for view in asked.views]
    readings = [Reading(tuple(map(float, range(count))), 9.0, 0) for count in labels]
    witness = Witness()
    witness.see(worded, readings, [5] * len(labels), 2)

    assert [2, 3, 2, 3] == [len(evidence.option_logits) for evidence in witness.seen]
