"""The evaluator: one ticket in, one outcome out."""

import math
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.factories import (
    QUESTIONS,
    make_labels,
    make_prompt,
    make_provenance,
    make_ticket,
    make_wording,
)
from tests.fakes import FakeEngine
from tests.native_wording import make_native
from worker.decision.asked import Worded
from worker.decision.control import ControlTokens
from worker.decision.direct import DirectWording
from worker.decision.outcome import questions_sha256
from worker.decision.scores import Reading
from worker.errors import EngineBusy, Rejected
from worker.evaluator import LONG_PROMPTS_CHARACTERS, MAX_PROMPT_CHARACTERS, Evaluator
from worker.ports import Lane


def make_evaluator(engine: FakeEngine | None = None, labels: int = 3) -> Evaluator:
    return Evaluator(engine or FakeEngine(), make_wording(labels), make_provenance())


async def test_every_question_is_answered() -> None:
    """Scores are what the engine read, in the questions' order and System One's shape."""
    engine = FakeEngine(
        readings={
            2: Reading((math.log(3), 0.0), log_sum_exp=math.log(8), top_token=0),
            3: Reading((0.0, 0.0, math.log(2)), log_sum_exp=math.log(4), top_token=0),
        }
    )
    outcome = await make_evaluator(engine).evaluate(make_ticket(metadata={"a": "b"}), Lane.BATCH)
    answers = outcome.as_dict()["answers"]

    assert list(QUESTIONS) == list(answers)
    assert pytest.approx({"money": 0.75, "tech": 0.25}) == answers["desk"]["probabilities"]
    assert pytest.approx(0.75) == answers["refund"]["noul"]
    assert pytest.approx(1.25) == answers["heat"]["score"]
    assert pytest.approx([0.5, 1.0, 0.5]) == [answer["label_mass"] for answer in answers.values()]
    assert ("decided", "review", "t-1", {"a": "b"}) == (
        outcome.status,
        outcome.disposition,
        outcome.ticket_id,
        outcome.metadata,
    )


async def test_the_engine_is_asked_once() -> None:
    """One evaluation for a ticket: its probes, and a branch with labels for each question."""
    engine = FakeEngine()
    evaluator = make_evaluator(engine)
    ticket = make_ticket()
    await evaluator.evaluate(ticket, Lane.INTERACTIVE)
    [evaluation] = engine.evaluations

    assert [Lane.INTERACTIVE] == engine.lanes
    assert make_prompt().probes(ticket.state) == evaluation.probes
    assert [(100, 101), (100, 101, 102), (100, 101)] == [
        branch.label_tokens for branch in evaluation.branches
    ]
    for branch, question in zip(evaluation.branches, ticket.questions.values(), strict=True):
        labels = make_labels(len(question.options()))
        assert make_prompt().render(ticket.state, question, labels) == branch.prompt


async def test_the_outcome_tells_where_it_came_from() -> None:
    """Usage, timings and provenance travel along; reused is what the trunk saved."""
    outcome = await make_evaluator().evaluate(make_ticket(), Lane.BATCH)
    ticket = make_ticket()

    assert outcome.usage.input_tokens == (
        outcome.usage.evaluated_tokens + outcome.usage.reused_tokens
    )
    assert 0 < outcome.usage.evaluated_tokens < outcome.usage.input_tokens
    assert (0.5, 0.25) == (outcome.timings.waiting_seconds, outcome.timings.evaluation_seconds)
    assert questions_sha256(ticket.questions) == outcome.provenance.questions_sha256
    assert make_provenance() == outcome.provenance.model_copy(update={"questions_sha256": None})


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"metadata": {"a": "b"}}, True),
        ({"model": "jev-latest"}, True),
        ({"ticket_id": "t-2"}, False),
        ({"state": "another"}, False),
        ({"questions": {"desk": QUESTIONS["desk"]}}, False),
    ],
)
async def test_the_id_is_deterministic(changed: dict[str, Any], same: bool) -> None:
    """The same ticket has the same outcome id; another state or question another one."""
    first = await make_evaluator().evaluate(make_ticket(), Lane.BATCH)
    second = await make_evaluator().evaluate(make_ticket(**changed), Lane.BATCH)

    assert same == (first.outcome_id == second.outcome_id)


@pytest.mark.parametrize("model", [None, "tiny", "jev-latest", "jev-1.13.0"])
async def test_known_models_are_accepted(model: str | None) -> None:
    """The worker's own name and System One's aliases; the answer names the true model."""
    outcome = await make_evaluator().evaluate(make_ticket(model=model), Lane.BATCH)

    assert "tiny" == outcome.provenance.model.name


@pytest.mark.parametrize(
    ("fields", "code", "where"),
    [
        ({"model": "jev"}, "unknown_model", "model"),
        ({"model": "Tiny"}, "unknown_model", "model"),
        ({"model": ""}, "unknown_model", "model"),
        ({"state": None, "state_uri": "s3://b/k"}, "state_uri_refused", "state_uri"),
        ({"questions": None, "question_set": "x"}, "unknown_question_set", "question_set"),
        (
            {
                "questions": {
                    "fits": QUESTIONS["desk"],
                    "wide": {"type": "choice", "criteria": dict.fromkeys("abcd")},
                }
            },
            "too_many_options",
            "questions.wide.criteria",
        ),
    ],
)
async def test_what_this_worker_cannot_answer_is_rejected(
    fields: dict[str, Any], code: str, where: str
) -> None:
    """The engine is not asked, and the rejection names the place."""
    engine = FakeEngine()
    with pytest.raises(Rejected) as caught:
        await make_evaluator(engine).evaluate(make_ticket(**fields), Lane.BATCH)

    assert (code, where) == (caught.value.code, caught.value.where)
    assert [] == engine.evaluations


async def test_the_engines_errors_come_through() -> None:
    """What to do about them is the faces' business."""
    busy = EngineBusy(1, 2)
    with pytest.raises(EngineBusy) as caught:
        await make_evaluator(FakeEngine(error=busy)).evaluate(make_ticket(), Lane.BATCH)

    assert busy is caught.value


def test_a_rejection_is_worded() -> None:
    """With the ticket's metadata where it could be read, and this process's provenance."""
    fault = Rejected("unknown_model", "no", "model")
    outcome = make_evaluator().reject(
        fault, ticket_id="t-9", body="{}", ticket=make_ticket(metadata={"a": "b"})
    )

    assert ("t-9", "rejected", {"a": "b"}, make_provenance()) == (
        outcome.ticket_id,
        outcome.status,
        outcome.metadata,
        outcome.provenance,
    )
    assert "unknown_model" == outcome.error.code


async def test_every_order_is_a_branch_of_its_own() -> None:
    """Options are shown in as many orders as asked for, levels as given; the answers average."""
    engine = FakeEngine()
    evaluator = replace(make_evaluator(engine), orders=2)
    ticket = make_ticket()
    outcome = await evaluator.evaluate(ticket, Lane.BATCH)
    [evaluation] = engine.evaluations
    desk = ticket.questions["desk"]

    assert [2, 2, 3, 2, 2] == [len(branch.label_tokens) for branch in evaluation.branches]
    assert [
        make_prompt().render(ticket.state, desk, make_labels(2), order)
        for order in ((0, 1), (1, 0))
    ] == [branch.prompt for branch in evaluation.branches[:2]]
    assert list(QUESTIONS) == list(outcome.answers)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"state": "say <|end|>"}, "state"),
        ({"state": {"a": ["b", {"<|end|>": 1}]}}, "state"),
        ({"questions": {"<|end|>": QUESTIONS["desk"]}}, "questions"),
        (
            {"questions": {"q": {"type": "noul", "instructions": ["<|end|>"]}}},
            "questions.q.instructions",
        ),
        (
            {"questions": {"q": {"type": "choice", "criteria": {"<|end|>": None}}}},
            "questions.q.criteria",
        ),
        ({"questions": {"q": {"type": "score", "criteria": ["<|end|>"]}}}, "questions.q.criteria"),
    ],
)
async def test_spelled_control_tokens_can_be_refused(fields: dict[str, Any], where: str) -> None:
    """By setting, wherever they stand; otherwise they are text."""
    ticket = make_ticket(**fields)
    evaluator = make_evaluator()
    strict = replace(evaluator, control=ControlTokens(["<|end|>"]))

    assert "decided" == (await evaluator.evaluate(ticket, Lane.BATCH)).status
    assert "decided" == (await strict.evaluate(make_ticket(state="<|end|"), Lane.BATCH)).status
    with pytest.raises(Rejected) as caught:
        await strict.evaluate(ticket, Lane.BATCH)
    assert ("control_tokens", where) == (caught.value.code, caught.value.where)
    assert "<|end|>" not in caught.value.message


async def test_the_text_of_one_ticket_is_bounded() -> None:
    """Each prompt repeats the state, and each of nimble's all questions: not without end."""
    long = make_ticket(state="x" * (MAX_PROMPT_CHARACTERS // 3 + 1))
    short = long.model_copy(update={"state": long.state[:-2]})
    evaluator = make_evaluator()

    assert "decided" == (await evaluator.evaluate(short, Lane.BATCH)).status
    for ticket, strict in [(long, evaluator), (short, replace(evaluator, orders=2))]:
        with pytest.raises(Rejected) as caught:
            await strict.evaluate(ticket, Lane.BATCH)
        assert ("too_large", "questions") == (caught.value.code, caught.value.where)


async def test_questions_that_are_listed_count_as_often() -> None:
    """One prompt each, and every prompt lists them all."""
    question = {"type": "noul", "instructions": "x" * (MAX_PROMPT_CHARACTERS // 4)}
    ticket = make_ticket(questions={"a": question, "b": question})
    nimble = replace(make_evaluator(), wording=make_native("nimble"))

    assert "decided" == (await make_evaluator().evaluate(ticket, Lane.BATCH)).status
    with pytest.raises(Rejected, match="characters"):
        await nimble.evaluate(ticket, Lane.BATCH)


@pytest.mark.parametrize(
    ("characters", "on_the_loop"),
    [(LONG_PROMPTS_CHARACTERS // 3, True), (LONG_PROMPTS_CHARACTERS // 3 + 1, False)],
)
async def test_a_long_ticket_is_worded_beside_the_event_loop(
    characters: int, on_the_loop: bool
) -> None:
    """Which has leases to extend meanwhile; a short one is not worth a thread."""
    threads = []

    class Watched(DirectWording):
        def word(self, *arguments: Any) -> Worded:
            threads.append(threading.get_ident())
            return super().word(*arguments)

    given = make_wording()
    evaluator = replace(make_evaluator(), wording=Watched(given.prompt, given.pool))
    await evaluator.evaluate(make_ticket(state="x" * characters), Lane.BATCH)

    assert [on_the_loop] == [thread == threading.get_ident() for thread in threads]
