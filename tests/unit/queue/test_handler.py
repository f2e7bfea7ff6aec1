"""The handler: the failure table of README, "The life of a ticket", line by line."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
import structlog

from tests.factories import QUESTIONS, make_body
from tests.unit.queue.bench import Bench, beating, finished, make_bench, now
from tests.virtual_time import advance
from worker.errors import (
    AwsUnavailable,
    AwsUnusable,
    DecodeFailed,
    EngineBusy,
    EngineFailed,
    EntryRefused,
    ExitCode,
    Rejected,
)
from worker.ports import Lane
from worker.queue.settled import Settled

UNAVAILABLE = AwsUnavailable("throttled")
STEPS = ("publish", "dead_letter", "release", "delete")


def steps(bench: Bench) -> list[str]:
    """Return what was done about the delivery, in order."""
    return [operation for operation, *_ in bench.journal.named(*STEPS)]


def delay(bench: Bench) -> int:
    [(_, _, seconds)] = bench.journal.of("release")
    return int(seconds)


async def test_a_decided_ticket_is_published_then_deleted() -> None:
    """Publish before delete: a repeat can be dropped by its id, a loss cannot be repaired."""
    bench = make_bench()
    before = finished("decided")
    await bench.carry(make_body(), group_id="tenant-a")
    [published] = bench.publisher.published

    assert ["publish", "delete"] == steps(bench)
    assert not bench.inbox.messages
    assert ("t-1", "decided", list(QUESTIONS)) == (
        published.outcome["ticket_id"],
        published.outcome["status"],
        list(published.outcome["answers"]),
    )
    assert published.outcome["outcome_id"] == published.outcome_id
    assert "tenant-a" == published.group_id
    assert "decided" == published.attributes["status"].value
    assert [Lane.BATCH] == bench.engine.lanes
    assert before + 1 == finished("decided")


async def test_a_ticket_without_an_id_is_called_like_its_message() -> None:
    """The message's id stands in, so that the outcome can be traced back."""
    bench = make_bench()
    await bench.carry(make_body(ticket_id=...), message_id="m-42")

    assert "m-42" == bench.publisher.published[0].outcome["ticket_id"]


async def test_a_repeat_has_the_same_outcome_id() -> None:
    """A ticket that is delivered twice is published twice under one id."""
    bench = make_bench()
    bench.inbox.faults.once["delete"].append(UNAVAILABLE)
    await bench.carry(make_body())
    [again] = await bench.inbox.receive(1)
    await replace(bench.handler, settled=Settled()).carry(again)  # as another process would
    first, second = bench.publisher.published

    assert first.outcome_id == second.outcome_id
    assert ["publish", "delete", "release", "publish", "delete"] == steps(bench)


@pytest.mark.parametrize(
    "error",
    [
        UNAVAILABLE,
        EngineBusy(10, 20),
        DecodeFailed("llama.cpp refused the same work twice"),
    ],
)
@pytest.mark.parametrize("where", ["engine", "publisher"])
async def test_what_may_work_later_is_released(error: Exception, where: str) -> None:
    """Engine busy, publish throttled: nothing is deleted, the message comes back later."""
    bench = make_bench()
    before = finished("released")
    if where == "engine":
        bench.engine.error = error
    else:
        bench.publisher.faults.always["publish"] = error
    await bench.carry(make_body())

    assert ["release"] == [step for step in steps(bench) if step != "publish"]
    assert 1 <= delay(bench) <= 4
    assert ["m-1"] == list(bench.inbox.messages)
    assert not bench.lifecycle.stopping.is_set()
    assert before + 1 == finished("released")


@pytest.mark.parametrize(
    ("receive_count", "longest"), [(1, 4), (2, 8), (3, 16), (5, 60), (1000, 60)]
)
async def test_the_delay_grows_with_each_receipt(receive_count: int, longest: int) -> None:
    """Exponential backoff with full jitter, held to the setting however often it came."""
    bench = make_bench(max_backoff_seconds=60)
    bench.engine.error = EngineBusy(10, 20)
    delays = set()
    for _ in range(60):
        bench.inbox.messages.clear()
        bench.journal.entries.clear()
        bench.inbox.put(make_body(), message_id="m")
        bench.inbox.messages["m"].receive_count = receive_count - 1
        [delivery] = await bench.inbox.receive(1)
        await bench.handler.carry(delivery)
        delays.add(delay(bench))

    assert 1 <= min(delays)
    assert max(delays) <= longest
    assert max(delays) > longest / 2
    assert len(delays) > min(3, longest / 2)


BROKEN: list[tuple[str, str, str]] = [
    ("{", "invalid_ticket", ""),
    (make_body(state=...), "invalid_ticket", ""),
    (make_body(model="gpt"), "unknown_model", "model"),
    (make_body(questions=..., question_set="x"), "unknown_question_set", "question_set"),
    (make_body(state=..., state_uri="s3://b/k"), "state_uri_refused", "state_uri"),
    (
        make_body(questions={"q": {"type": "choice", "criteria": dict.fromkeys("abcdef")}}),
        "too_many_options",
        "questions.q.criteria",
    ),
    (make_body(state="x" * 100_000), "too_large", ""),
]


@pytest.mark.parametrize(("body", "code", "where"), BROKEN)
async def test_an_invalid_ticket_is_rejected(body: str, code: str, where: str) -> None:
    """Dead letter with the reason, a published rejection, then delete; counted once."""
    bench = make_bench()
    before = {result: finished(result) for result in ("rejected", "decided", "released", "failed")}
    await bench.carry(body)
    [(letter, reason)] = bench.inbox.dead_letters
    [published] = bench.publisher.published
    error = published.outcome["error"]

    assert ["dead_letter", "publish", "delete"] == steps(bench)
    assert not bench.inbox.messages
    assert body == letter
    assert error == dict(reason)
    assert (code, where) == (error["code"], error["where"])
    assert ("rejected", "rejected") == (
        published.outcome["status"],
        published.attributes["status"].value,
    )
    assert "disposition" not in published.attributes
    assert {**before, "rejected": before["rejected"] + 1} == {
        result: finished(result) for result in before
    }


async def test_a_rejection_is_named_like_its_ticket() -> None:
    """The ticket's id and metadata where they could be read, else the message's id."""
    bench = make_bench()
    await bench.carry(make_body(model="gpt", metadata={"tenant": "a"}))
    await bench.carry("{", message_id="m-2")

    assert [("t-1", {"tenant": "a"}), ("m-2", {})] == [
        (published.outcome["ticket_id"], published.outcome["metadata"])
        for published in bench.publisher.published
    ]


async def test_a_prompt_that_does_not_fit_is_rejected() -> None:
    """What the engine refuses for good ends like an invalid ticket."""
    bench = make_bench()
    bench.engine.error = Rejected("prompt_too_long", "has 9 tokens, 8 fit", "state")
    await bench.carry(make_body())

    assert ["dead_letter", "publish", "delete"] == steps(bench)
    assert "prompt_too_long" == bench.publisher.published[0].outcome["error"]["code"]


async def test_an_outcome_that_the_topic_refuses_is_rejected() -> None:
    """An outcome too large for the topic becomes a rejection, which fits."""
    bench = make_bench()
    bench.publisher.faults.once["publish"].append(Rejected("outcome_too_large", "has 9 bytes"))
    await bench.carry(make_body())

    assert ["publish", "dead_letter", "publish", "delete"] == steps(bench)
    assert "outcome_too_large" == bench.publisher.published[0].outcome["error"]["code"]


async def test_a_rejection_that_the_topic_refuses_is_dead_lettered_once() -> None:
    """16 large metadata entries make the rejection too large as well: that is still one end."""
    bench = make_bench()
    before = finished("failed")
    bench.publisher.faults.always["publish"] = Rejected("outcome_too_large", "has 9 bytes")
    await bench.carry(make_body())

    assert 1 == len(bench.inbox.dead_letters)
    assert not bench.inbox.messages
    assert before == finished("failed")


async def test_without_a_dead_letter_queue_a_rejected_ticket_is_kept() -> None:
    """on_reject keep: nothing is published, nothing deleted, the message comes back later."""
    bench = make_bench(has_dead_letter_queue=False, on_reject="keep")
    before = finished("kept")
    await bench.carry("{")

    assert ["release"] == steps(bench)
    assert 1 <= delay(bench) <= 4
    assert ["m-1"] == list(bench.inbox.messages)
    assert before + 1 == finished("kept")


async def test_without_a_dead_letter_queue_a_rejection_may_be_published() -> None:
    """on_reject publish: the rejection is published and the message deleted."""
    bench = make_bench(has_dead_letter_queue=False, on_reject="publish")
    await bench.carry("{")

    assert ["publish", "delete"] == steps(bench)
    assert not bench.inbox.messages


async def test_a_dead_letter_that_fails_is_tried_again() -> None:
    """A rejection is not published before the dead-letter queue has its copy."""
    bench = make_bench()
    bench.inbox.faults.once["dead_letter"].append(UNAVAILABLE)
    await bench.carry("{")

    assert ["dead_letter", "release"] == steps(bench)
    assert [] == bench.publisher.published


async def test_a_rejection_that_cannot_be_published_now_is_released() -> None:
    """Publish throttled: the message is not deleted."""
    bench = make_bench()
    bench.publisher.faults.once["publish"].append(UNAVAILABLE)
    await bench.carry("{")

    assert ["dead_letter", "publish", "release"] == steps(bench)
    assert ["m-1"] == list(bench.inbox.messages)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EngineFailed("a context cannot be rebuilt"), ExitCode.ENGINE_FAILED),
        (AwsUnusable("not allowed"), ExitCode.AWS_UNUSABLE),
    ],
)
async def test_what_is_broken_for_good_ends_the_process(error: Exception, code: ExitCode) -> None:
    """The delivery goes back at once for another worker, and this one drains."""
    bench = make_bench()
    bench.engine.error = error
    await bench.carry(make_body())

    assert error is bench.lifecycle.failure
    assert bench.lifecycle.stopping.is_set()
    assert code == bench.lifecycle.exit_code()
    assert [("release", "m-1", 0)] == bench.journal.named(*STEPS)


@pytest.mark.parametrize("where", ["engine", "publisher"])
async def test_a_lost_lease_touches_nothing(where: str) -> None:
    """Once the message is someone else's, nothing is published, released or deleted for it."""
    bench = make_bench()
    before = finished("lost")
    gate = asyncio.Event()
    if where == "engine":
        bench.engine.gate = gate
    else:
        bench.publisher.faults.gates["publish"] = gate
    await bench.carry(make_body())
    gate.set()

    assert pytest.approx(1030) == now()
    assert [] == bench.journal.named("release", "delete")
    assert [] == bench.publisher.published
    assert (where == "engine") == (bench.engine.cancelled == 1)
    assert before + 1 == finished("lost")


async def test_a_refused_delete_is_loud_and_releases_nothing() -> None:
    """The handle is no longer ours: a redelivery is deleted by its outcome, which is out."""
    bench = make_bench()
    before = finished("lost")
    bench.inbox.faults.once["delete"].append(EntryRefused("AWS says ReceiptHandleIsInvalid"))
    with structlog.testing.capture_logs() as logged:
        await bench.carry(make_body())
    await advance(31)
    [again] = await bench.inbox.receive(1)
    await bench.handler.carry(again)

    assert ["delete_refused"] == [one["event"] for one in logged if one["log_level"] == "error"]
    assert before + 1 == finished("lost")
    assert ["publish", "delete", "delete"] == steps(bench)
    assert not bench.inbox.messages


async def test_one_lost_lease_harms_no_other() -> None:
    """Its evaluation is cancelled, nothing is published or deleted for it; the others are."""
    bench = make_bench()
    bench.engine.gate = asyncio.Event()
    deliveries = [await bench.receive(make_body(ticket_id=f"t-{n}")) for n in (1, 2, 3)]
    bench.inbox.hand_to_another("m-2")
    async with beating(bench.leases), asyncio.TaskGroup() as carrying:
        for delivery in deliveries:
            carrying.create_task(bench.handler.carry(delivery))
        await advance(25)
        assert (1, 2) == (bench.engine.cancelled, bench.engine.at_work)
        bench.engine.gate.set()

    assert ["t-1", "t-3"] == sorted(p.outcome["ticket_id"] for p in bench.publisher.published)
    assert {("delete", "m-1"), ("delete", "m-3")} == set(bench.journal.named("delete", "release"))
    assert ["m-2"] == list(bench.inbox.messages)


async def test_a_lease_lost_between_publish_and_delete_deletes_nothing() -> None:
    """The outcome is out when the message turns out to be someone else's."""
    bench = make_bench()
    bench.publisher.faults.gates["publish"] = gate = asyncio.Event()
    delivery = await bench.receive(make_body())
    carrying = asyncio.create_task(bench.handler.carry(delivery))
    await bench.journal.until("publish")
    gate.set()  # the answer is there, and then nothing runs for a minute
    asyncio.get_running_loop().jump(60)  # type: ignore[attr-defined]
    await carrying

    assert 1 == len(bench.publisher.published)
    assert [] == bench.journal.named("delete", "release")


async def test_a_stolen_delivery_is_given_up_at_the_next_heartbeat() -> None:
    """A refused extension cancels the evaluation: nobody pays for an answer nobody may give."""
    bench = make_bench()
    bench.engine.gate = asyncio.Event()
    delivery = await bench.receive(make_body())
    bench.inbox.hand_to_another(delivery.message_id)
    async with beating(bench.leases):
        await bench.handler.carry(delivery)

    assert pytest.approx(1010) == now()
    assert 1 == bench.engine.cancelled
    assert [] == bench.journal.named(*STEPS)


async def test_a_long_evaluation_keeps_its_lease() -> None:
    """Heartbeats hold the delivery for as long as the evaluation takes."""
    bench = make_bench()
    bench.engine.gate = asyncio.Event()
    delivery = await bench.receive(make_body())
    async with beating(bench.leases):
        carrying = asyncio.create_task(bench.handler.carry(delivery))
        await advance(500)
        bench.engine.gate.set()
        await carrying

    assert ["publish", "delete"] == steps(bench)


async def test_a_bug_releases_the_delivery() -> None:
    """A fault nobody thought of is counted, and ends in the dead letters after some receipts."""
    bench = make_bench()
    before = finished("failed")
    bench.engine.error = ZeroDivisionError("a bug")
    await bench.carry(make_body())

    assert ["release"] == steps(bench)
    assert 1 <= delay(bench) <= 4
    assert not bench.lifecycle.stopping.is_set()
    assert before + 1 == finished("failed")


async def test_a_cancelled_delivery_is_released_at_once() -> None:
    """Work that is cut off by the drain's deadline goes back without delay; cancellation passes."""
    bench = make_bench()
    before = finished("released")
    bench.engine.gate = asyncio.Event()
    delivery = await bench.receive(make_body())
    carrying = asyncio.create_task(bench.handler.carry(delivery))
    await bench.journal.until("evaluate")
    carrying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await carrying

    assert [("release", "m-1", 0)] == bench.journal.named(*STEPS)
    assert 1 == bench.engine.cancelled
    assert before + 1 == finished("released")


@pytest.mark.parametrize("error", [UNAVAILABLE, AwsUnusable("not allowed")])
@pytest.mark.parametrize("engine_error", [EngineBusy(1, 1), EngineFailed("no"), KeyError("x")])
async def test_a_release_that_fails_is_no_fault(error: Exception, engine_error: Any) -> None:
    """The visibility runs out by itself, so a failed release costs time only."""
    bench = make_bench()
    bench.engine.error = engine_error
    bench.inbox.faults.always["release"] = error
    await bench.carry(make_body())
    [again] = await receive_again(bench)

    assert 2 == again.receive_count


async def receive_again(bench: Bench) -> Any:
    await advance(31)
    return await bench.inbox.receive(1)


async def test_no_text_of_a_ticket_is_published() -> None:
    """Neither outcomes nor rejections, nor their attributes, hold text of the state."""
    bench = make_bench()
    secret = "Jane Doe, IBAN DE02 1203"
    await bench.carry(make_body(state={secret: [secret]}))
    await bench.carry(make_body(state=secret, model=secret))
    await bench.carry('{"state": "' + secret + '", "state": 1}')

    assert 3 == len(bench.publisher.published)
    for published in bench.publisher.published:
        assert secret not in json.dumps(published.outcome)
        assert secret not in repr(published.attributes)
