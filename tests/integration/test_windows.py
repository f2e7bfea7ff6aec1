"""Long states on a real context: every window fits, every answer keeps its bits."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from tests.factories import make_provenance
from tests.integration.pools import is_empty, open_pool
from tests.models import CHATML, FLOAT_OPTIONS, Q8_0, QUANTISED_OPTIONS, Tiny, TinyModels
from tests.native import decider
from tests.tiny_gguf import WORDS, Kind
from worker.brain import open_wording
from worker.decision.aggregation import aggregate
from worker.decision.answer import NoulAnswer
from worker.decision.outcome import Outcome
from worker.decision.question import Question, Text
from worker.decision.scores import Scores
from worker.decision.text import Piece
from worker.decision.ticket import Ticket, validate_ticket
from worker.engine.options import ModelOptions
from worker.engine.pool import Pool
from worker.errors import Rejected
from worker.evaluator import Evaluator
from worker.ports import Lane
from worker.settings import Settings
from worker.windowing import Windows, open_overflow

CONTEXT_TOKENS: Final = 512
QUESTION_TOKENS: Final = 100
FLOAT: Final = Tiny()
QUANTISED: Final = Tiny(weights=Q8_0)

QUESTIONS: Final[dict[str, Any]] = {
    "team": {"type": "choice", "instructions": "team", "criteria": {"bike": None, "money": "back"}},
    "calm": {"type": "score", "instructions": "calm", "criteria": ["not", "can", "very"]},
    "refund": {"type": "noul", "instructions": "refund"},
}


def prose(paragraphs: int, seed: int = 1) -> str:
    """Return paragraphs of three sentences, some 30 tokens each."""
    draw = random.Random(seed)
    return "\n\n".join(
        " ".join(f"{' '.join(draw.choices(WORDS, k=draw.randint(4, 12)))}." for _ in range(3))
        for _ in range(paragraphs)
    )


LONG: Final = prose(60)
"""Some four times the context."""

SHORTER: Final = prose(18)
"""Two windows."""


@dataclass(frozen=True)
class Reader:
    """An evaluator over a pool whose context is small."""

    evaluator: Evaluator
    pool: Pool

    async def ask(self, state: Any, questions: dict[str, Any] = QUESTIONS) -> Outcome:
        ticket = validate_ticket({"ticket_id": "t", "state": state, "questions": questions})
        return await self.evaluator.evaluate(ticket, Lane.BATCH)

    async def tokens(self, *states: Text) -> list[int]:
        """Return the tokens of the longest short question about each state."""
        word = self.evaluator.wording.probes
        questions = asked().questions or {}
        return [max(await self.pool.measure(word(state, questions))) for state in states]

    async def windows(self, state: Text) -> list[Text]:
        windows = Windows(self.pool, self.evaluator.wording, self.evaluator.overflow)
        return list(await windows.over(state, asked().questions or {}) or ())


def asked() -> Ticket:
    return validate_ticket({"state": "", "questions": QUESTIONS})


@contextmanager
def open_reader(
    models: TinyModels,
    tiny: Tiny = FLOAT,
    options: ModelOptions = FLOAT_OPTIONS,
    shape: tuple[int, int] = (1, 1),
    **settings: Any,
) -> Iterator[Reader]:
    model = models.load(tiny)
    small = replace(options, context_tokens=CONTEXT_TOKENS)
    usual = {"overflow": "window", "window_question_tokens": QUESTION_TOKENS} | settings
    overflow = open_overflow(Settings(**usual), CONTEXT_TOKENS)
    with open_pool(model, contexts=shape[0], threads=shape[1], options=small) as pool:
        wording = open_wording(model, Settings())
        yield Reader(Evaluator(pool, wording, make_provenance(), overflow=overflow), pool)
        assert is_empty(pool)


@pytest.mark.parametrize(
    "tiny",
    [
        Tiny(),
        Tiny(tokenizer="bpe", chat_template=CHATML),
        decider("openjev"),
        decider("lev"),
        decider("nimble"),
    ],
    ids=["spm", "bpe-chat", "openjev", "lev", "nimble"],
)
async def test_windows_fit_for_real(tiny_models: TinyModels, tiny: Tiny) -> None:
    """Whatever the vocabulary and template: whole paragraphs, and well filled."""
    with open_reader(tiny_models, tiny) as reader:
        windows = await reader.windows(LONG)
        tokens = await reader.tokens(*windows)
        outcome = await reader.ask(LONG)

    assert len(windows) >= 6
    assert max(tokens) <= CONTEXT_TOKENS - QUESTION_TOKENS
    assert min(tokens[:-1]) >= 0.8 * (CONTEXT_TOKENS - QUESTION_TOKENS)
    assert set(LONG.split("\n\n")) == {one for text in windows for one in text.split("\n\n")}
    assert outcome.provenance.windows is not None
    assert len(windows) == outcome.provenance.windows.count


async def test_a_long_state_is_rejected_unless_windows_are_asked_for(
    tiny_models: TinyModels,
) -> None:
    """With the counts."""
    with (
        open_reader(tiny_models, overflow="reject") as reader,
        pytest.raises(Rejected, match="tokens, the context holds 512") as caught,
    ):
        await reader.ask(LONG)
    assert ("prompt_too_long", "state") == (caught.value.code, caught.value.where)


@pytest.mark.parametrize("aggregation", ["max", "mean"])
async def test_windows_read_as_tickets_of_their_own(
    tiny_models: TinyModels, aggregation: Any
) -> None:
    """Each window has the bits it has as a whole state; the outcome puts them together."""
    noul = "noisy_or" if aggregation == "mean" else "max"
    settings = {"aggregation": aggregation, "noul_aggregation": noul}
    with open_reader(tiny_models, QUANTISED, QUANTISED_OPTIONS, **settings) as reader:
        together = await reader.ask(LONG)
        windows = await reader.windows(LONG)
    with open_reader(tiny_models, QUANTISED, QUANTISED_OPTIONS, overflow="reject") as reader:
        apart = [await reader.ask(window) for window in windows]

    questions = asked().questions or {}
    assert together.answers is not None
    for key, question in questions.items():
        scores = [scores_of(question, outcome, key) for outcome in apart]
        expected = aggregate(question, scores, aggregation, noul)
        found = scores_of(question, together, key)
        # An outcome has one number for a noul; the other is rounded.
        assert pytest.approx(expected.probabilities, abs=1e-15) == found.probabilities
        assert (expected.label_mass, expected.top_is_label, expected.window) == (
            found.label_mass,
            found.top_is_label,
            together.answers[key].window,
        )
    assert together.usage is not None
    assert together.usage.input_tokens == sum(
        one.usage.input_tokens for one in apart if one.usage is not None
    )
    assert len(windows) > 2 * len(QUESTIONS) - 1


@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.LFM2])
async def test_a_question_alone_has_the_same_bits(tiny_models: TinyModels, kind: Kind) -> None:
    """As beside others, and beside itself on another pool, on quantised weights."""
    tiny = Tiny(kind, Q8_0)
    long = {"type": "noul", "instructions": "refund money back " * 20}
    with open_reader(tiny_models, tiny, QUANTISED_OPTIONS) as reader:
        alone = [await reader.ask(SHORTER, {key: one}) for key, one in QUESTIONS.items()]
    with open_reader(tiny_models, tiny, QUANTISED_OPTIONS, (2, 1)) as reader:
        beside = await reader.ask(SHORTER, {"long": long, **QUESTIONS})

    assert beside.provenance.windows is not None
    assert beside.provenance.windows.count > 1
    for outcome in alone:
        [(key, answer)] = (outcome.answers or {}).items()
        assert answer == (beside.answers or {})[key]


async def test_an_array_is_read_in_windows(tiny_models: TinyModels) -> None:
    """Each an array, of whole elements."""
    events = [{"system": word, "text": [word] * 9} for word in WORDS[:40]]
    with open_reader(tiny_models) as reader:
        windows = await reader.windows(events)
        outcome = await reader.ask(events)

    assert outcome.provenance.windows is not None
    assert len(windows) == outcome.provenance.windows.count > 1
    assert all(isinstance(window, list) for window in windows)
    assert {word for window in windows for word in (one["system"] for one in window)} == set(
        WORDS[:40]
    )


async def test_a_long_question_rejects_the_ticket(tiny_models: TinyModels) -> None:
    """When it does not fit beside a window: said with the counts, and where."""
    long = {"type": "noul", "instructions": "refund money back " * 60}
    with (
        open_reader(tiny_models) as reader,
        pytest.raises(Rejected, match="the context holds 512") as caught,
    ):
        await reader.ask(LONG, QUESTIONS | {"long": long})
    assert ("prompt_too_long", "questions") == (caught.value.code, caught.value.where)


async def test_text_without_borders_is_read_too(tiny_models: TinyModels) -> None:
    """One word of 3,000 letters, and characters that are several tokens each."""
    with open_reader(tiny_models) as reader:
        for state in ("x" * 3000, "\N{WINKING FACE}" * 700, " " * 3000):
            windows = await reader.windows(state)
            assert state.startswith(windows[0])
            assert max(await reader.tokens(*windows)) <= CONTEXT_TOKENS - QUESTION_TOKENS


async def test_tokens_are_counted_as_they_are_evaluated(tiny_models: TinyModels) -> None:
    """One by one, in order, whatever their number; what is too deep for the stack is refused."""
    tiny = Tiny(tokenizer="bpe")
    model = tiny_models.load(tiny)
    with open_reader(tiny_models, tiny) as reader:
        measure = reader.pool.measure
        prompts = [(Piece(prose(size), trusted=False),) for size in (0, 9, 300, 1, 900, 2)]

        assert [len(model.encode(prompt)) for prompt in prompts] == await measure(prompts)
        assert [] == await measure([])
        with pytest.raises(Rejected, match="at most 1048576 are read"):
            await measure([*prompts, (Piece("a" * (1 << 20) + "b", trusted=False),)])


def scores_of(question: Question, outcome: Outcome, key: str) -> Scores:
    """Return the scores that an answer was worded from."""
    answer = (outcome.answers or {})[key]
    if isinstance(answer, NoulAnswer):
        probabilities = (answer.noul, 1.0 - answer.noul)
    else:
        probabilities = tuple(answer.probabilities.values())
    assert len(question.options()) == len(probabilities)
    return Scores(probabilities, answer.label_mass, answer.top_is_label)
