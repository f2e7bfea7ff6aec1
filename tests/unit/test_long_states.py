"""Tickets whose state is too long for one prompt: rejected, or read in windows."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.factories import QUESTIONS, make_provenance, make_ticket, make_wording
from tests.fakes import FakeEngine
from worker.decision.overflow import Overflow
from worker.decision.question_set import QuestionSets, load_question_sets
from worker.errors import Rejected
from worker.evaluator import Evaluator
from worker.ports import Lane

WINDOW = Overflow(rule="window", window_tokens=700, question_tokens=100, overlap_tokens=60)
"""For an engine whose tokens are characters."""

LONG = "\n\n".join(f"Paragraph {number} says something about {number}." for number in range(40))


def make_evaluator(
    overflow: Overflow = WINDOW, engine: FakeEngine | None = None, **fields: Any
) -> Evaluator:
    return Evaluator(
        engine or FakeEngine(), make_wording(), make_provenance(), overflow=overflow, **fields
    )


async def answers_to(state: Any, overflow: Overflow = WINDOW, **fields: Any) -> dict[str, Any]:
    evaluator = make_evaluator(overflow)
    ticket = make_ticket(**{"state": state} | fields)
    answers: dict[str, Any] = (await evaluator.evaluate(ticket, Lane.BATCH)).as_dict()["answers"]
    return answers


def states_of(engine: FakeEngine) -> list[str]:
    """Return the states that the engine has evaluated."""
    texts = ["".join(piece.text for piece in one.probes[0]) for one in engine.evaluations]
    return [text.removeprefix("State:\n").partition("\n\nQuestion:")[0] for text in texts]


def make_sets(**defaults: Any) -> QuestionSets:
    tree = {"name": "desk", "version": 1, "questions": QUESTIONS, "defaults": defaults}
    return load_question_sets([("desk.json", json.dumps(tree).encode())])


@pytest.mark.parametrize("how", ["max", "mean"])
async def test_answers_come_of_those_of_the_windows(how: Any) -> None:
    """Each window is asked as a ticket of its own would be; the outcome puts them together."""
    engine = FakeEngine()
    overflow = replace(WINDOW, aggregation=how, noul_aggregation=how)
    outcome = await make_evaluator(overflow, engine).evaluate(make_ticket(state=LONG), Lane.BATCH)
    assert outcome.provenance.windows is not None
    count = outcome.provenance.windows.count
    pieces = states_of(engine)
    apart = [await answers_to(piece) for piece in pieces]

    assert count == len(engine.evaluations) == len(pieces) > 2
    desk = outcome.as_dict()["answers"]["desk"]
    nouls = [one["refund"]["noul"] for one in apart]
    if how == "mean":
        money = sum(one["desk"]["probabilities"]["money"] for one in apart) / count
        assert pytest.approx(money) == desk["probabilities"]["money"]
        assert pytest.approx(sum(nouls) / count) == outcome.answers["refund"].noul
        assert "window" not in desk
    else:
        surest = max(range(count), key=lambda place: apart[place]["desk"]["confidence"])
        assert apart[surest]["desk"] | {"window": surest} == desk
        assert max(nouls) == outcome.answers["refund"].noul
        assert nouls.index(max(nouls)) == outcome.answers["refund"].window


async def test_a_long_state_is_rejected_unless_something_else_is_said() -> None:
    """The engine says so; nothing is cut."""
    engine = FakeEngine()
    await make_evaluator(Overflow(), engine).evaluate(make_ticket(state=LONG), Lane.BATCH)

    assert 1 == len(engine.evaluations)
    assert [LONG] == states_of(engine)


async def test_a_short_state_is_read_as_ever() -> None:
    """Its outcome is the same to the letter, id included, whatever becomes of long ones."""
    ticket = make_ticket()
    outcomes = [
        (await make_evaluator(overflow).evaluate(ticket, Lane.BATCH)).as_dict()
        for overflow in (Overflow(), WINDOW)
    ]

    assert outcomes[0] == outcomes[1]
    assert "windows" not in outcomes[0]["provenance"]


async def test_the_outcome_tells_how_it_was_read() -> None:
    """Number and sizes of the windows, both aggregations; the tokens of all windows count."""
    engine = FakeEngine()
    outcome = await make_evaluator(engine=engine).evaluate(make_ticket(state=LONG), Lane.BATCH)
    prompts = [branch.prompt for one in engine.evaluations for branch in one.branches]

    assert {
        "version": 1,
        "count": len(engine.evaluations),
        "window_tokens": 700,
        "question_tokens": 100,
        "overlap_tokens": 60,
        "aggregation": "mean",
        "noul_aggregation": "max",
    } == outcome.as_dict()["provenance"]["windows"]
    assert sum(len(piece.text) for prompt in prompts for piece in prompt) == (
        outcome.usage.input_tokens
    )
    assert outcome.usage.input_tokens == (
        outcome.usage.evaluated_tokens + outcome.usage.reused_tokens
    )
    assert (0.5, 0.25) == (outcome.timings.waiting_seconds, outcome.timings.evaluation_seconds)
    assert "Paragraph" not in outcome.as_json()


@pytest.mark.parametrize(
    "changed",
    [
        {"aggregation": "max"},
        {"noul_aggregation": "noisy_or"},
        {"overlap_tokens": 50},
        {"window_tokens": 701},
    ],
)
async def test_another_way_to_read_it_is_another_outcome(changed: dict[str, Any]) -> None:
    """With another id, so that no subscriber takes it for a repeat."""
    ticket = make_ticket(state=LONG)
    first = await make_evaluator().evaluate(ticket, Lane.BATCH)
    again = await make_evaluator().evaluate(ticket, Lane.BATCH)
    other = await make_evaluator(replace(WINDOW, **changed)).evaluate(ticket, Lane.BATCH)

    assert first.outcome_id == again.outcome_id != other.outcome_id


@pytest.mark.parametrize("key", list(QUESTIONS))
async def test_a_question_alone_has_the_same_answer(key: str) -> None:
    """To the last bit: neither the questions beside it nor their length move a window."""
    long = {"type": "noul", "instructions": "Is it so? " * 60}
    alone = await answers_to(LONG, questions={key: QUESTIONS[key]})
    beside = await answers_to(LONG, questions={"long": long} | QUESTIONS)

    assert alone[key] == beside[key]


async def test_a_set_says_how_its_long_states_are_read() -> None:
    """Whatever the worker is set to; what it leaves out is as the worker is set."""
    ticket = make_ticket(state=LONG, questions=None, question_set="desk")

    async def windows_of(usual: Overflow, **defaults: Any) -> tuple[Any, ...] | None:
        evaluator = make_evaluator(usual, shelf=make_sets(**defaults))
        windows = (await evaluator.evaluate(ticket, Lane.BATCH)).provenance.windows
        return windows and (windows.aggregation, windows.noul_aggregation)

    reject = replace(WINDOW, rule="reject")
    assert await windows_of(reject) is None
    assert await windows_of(WINDOW, overflow="reject") is None
    assert ("mean", "max") == await windows_of(reject, overflow="window")
    assert ("max", "max") == await windows_of(reject, overflow="window", aggregation="max")
    assert ("mean", "noisy_or") == await windows_of(WINDOW, noul_aggregation="noisy_or")


@pytest.mark.parametrize(
    "defaults",
    [{"overflow": "cut"}, {"aggregation": "noisy_or"}, {"noul_aggregation": "min"}],
)
def test_a_set_cannot_say_something_else(defaults: dict[str, Any]) -> None:
    """A noisy or is for nouls only."""
    with pytest.raises(Exception, match=f"defaults.{next(iter(defaults))}"):
        make_sets(**defaults)


async def test_too_many_windows_are_rejected_before_any_is_evaluated() -> None:
    """With the numbers."""
    engine = FakeEngine()
    evaluator = make_evaluator(replace(WINDOW, max_windows=2), engine)
    with pytest.raises(Rejected, match="at most 2 windows") as caught:
        await evaluator.evaluate(make_ticket(state=LONG), Lane.BATCH)

    assert ("prompt_too_long", "state") == (caught.value.code, caught.value.where)
    assert [] == engine.evaluations
