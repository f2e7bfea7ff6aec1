"""On a float model, exact evaluation equals one plain evaluation of the full prompt."""

import random

import pytest

from tests.integration.evaluations import Lengths, make_evaluation
from tests.integration.pools import is_empty, open_pool
from tests.models import FLOAT_KINDS, FLOAT_OPTIONS, Tiny, TinyModels
from worker.decision.asked import Asked, View
from worker.decision.scores import Reading, Scores, score_views
from worker.engine.exact import TRUNK
from worker.engine.llama import Context, Model
from worker.ports import Branch, Evaluation, Lane

TOLERANCE = 2e-4
"""The most that a probability may differ."""

ACROSS_BORDERS = (
    Lengths(1, (2, 40)),
    Lengths(2, (1, 3)),
    Lengths(30, (1, 2, 33, 64)),
    Lengths(513, (1, 40)),
    Lengths(514, (2, 600)),
    Lengths(1100, (30, 5)),
)
"""Around the window of 32 tokens, the smallest trunk, the chunks of 512."""


@pytest.fixture(params=FLOAT_KINDS, ids=str)
def model(request: pytest.FixtureRequest, tiny_models: TinyModels) -> Model:
    return tiny_models.load(request.param)


def plain_reading(model: Model, branch: Branch) -> Reading:
    """Decode the full prompt on one sequence, in full calls from position 0."""
    tokens = model.encode(branch.prompt)
    most = FLOAT_OPTIONS.batch_tokens
    with Context(model, FLOAT_OPTIONS) as context:
        for start in range(0, len(tokens), most):
            call = tokens[start : start + most]
            context.decode(call, position=start, sequence=TRUNK, read=True)
        return context.read(branch.label_tokens)


def score_reading(reading: Reading) -> Scores:
    places = range(len(reading.label_logits))
    view = View((), tuple((place,) for place in places), tuple(places))
    return score_views(Asked((view,)), [reading])


def difference(one: Scores, other: Scores) -> float:
    pairs = zip(
        (*one.probabilities, one.label_mass), (*other.probabilities, other.label_mass), strict=True
    )
    return max(abs(a - b) for a, b in pairs)


async def check_same_as_fresh(model: Model, evaluation: Evaluation) -> None:
    fresh = [score_reading(plain_reading(model, branch)) for branch in evaluation.branches]
    with open_pool(model, contexts=2, options=FLOAT_OPTIONS) as pool:
        reply = await pool.score(evaluation, Lane.BATCH)
        assert is_empty(pool)
    for wanted, reading in zip(fresh, reply.readings, strict=True):
        assert difference(wanted, score_reading(reading)) <= TOLERANCE


@pytest.mark.parametrize("lengths", ACROSS_BORDERS, ids=str)
async def test_exact_equals_fresh(model: Model, lengths: Lengths) -> None:
    """A fork from a shared trunk reads what a fresh evaluation of the whole prompt reads."""
    await check_same_as_fresh(model, make_evaluation(model, lengths))


async def test_another_prompt_reads_clearly_differently(model: Model) -> None:
    """The tolerance means something: one word more moves the probabilities far beyond it."""
    one, other = make_evaluation(model, Lengths(30, (20, 21))).branches
    moved = difference(
        score_reading(plain_reading(model, one)), score_reading(plain_reading(model, other))
    )
    assert moved > 50 * TOLERANCE


@pytest.mark.parametrize("questions", [1, 64])
async def test_any_number_of_questions(model: Model, questions: int) -> None:
    """One question or 64 of them: each reads as if it were asked afresh."""
    draw = random.Random(questions)
    lengths = Lengths(40, tuple(draw.randint(1, 12) for _ in range(questions)))
    await check_same_as_fresh(model, make_evaluation(model, lengths))


@pytest.mark.parametrize("options", [2, 255])
async def test_any_number_of_options(options: int, tiny_models: TinyModels) -> None:
    """Two options or 255: each has the probability of a fresh evaluation."""
    model = tiny_models.load(Tiny())
    evaluation = make_evaluation(model, Lengths(40, (10,)))
    [branch] = evaluation.branches
    labels = tuple(range(model.vocabulary_size - options, model.vocabulary_size))
    wide = Evaluation(evaluation.probes, (Branch(branch.prompt, labels),))
    await check_same_as_fresh(model, wide)
