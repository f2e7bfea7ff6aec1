"""One process of `make bench-queue`: the worker with an instant engine, or a bare loop.

Both write a line with ``"event": "delivery_finished"`` and a timestamp to standard error for each
message, which is what the worker does anyway.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import aioboto3

from tests.factories import make_outcome, make_provenance, make_wording
from worker.brain import Brain
from worker.cli.options import read_settings
from worker.cli.run import run_process
from worker.decision.attributes import outcome_attributes
from worker.decision.scores import Reading
from worker.decision.text import PromptText
from worker.engine.sizing import Size
from worker.evaluator import Evaluator
from worker.ports import Evaluation, Lane, Reply
from worker.queue.aws import aws_connection, call_config, poll_config
from worker.settings import Settings

BATCH = 10


class InstantEngine:
    """Answers at once: the first option is the likeliest."""

    waiting_tokens = 0

    async def score(
        self, evaluation: Evaluation, lane: Lane, deadline: float | None = None
    ) -> Reply:
        readings = tuple(
            Reading(tuple(-float(place) for place in range(len(branch.label_tokens))), 1.0, 0)
            for branch in evaluation.branches
        )
        return Reply(
            readings=readings,
            prompt_tokens=(1,) * len(readings),
            trunk_tokens=1,
            evaluated_tokens=1,
            waiting_seconds=0.0,
            evaluation_seconds=0.0,
        )

    async def score_all(
        self, evaluations: Sequence[Evaluation], lane: Lane, deadline: float | None = None
    ) -> tuple[Reply, ...]:
        return tuple([await self.score(evaluation, lane) for evaluation in evaluations])

    async def measure(self, prompts: Sequence[PromptText]) -> Sequence[int]:
        return [1 for _ in prompts]

    def check_room(self, lane: Lane, deadline: float | None = None) -> None:
        return

    def stalled_seconds(self) -> float:
        return 0.0


@asynccontextmanager
async def open_instant_brain(_: Settings) -> AsyncIterator[Brain]:
    evaluator = Evaluator(InstantEngine(), make_wording(), make_provenance())
    no_size = cast("Size", None)  # which only the sidecar asks for
    yield Brain(evaluator, no_size, lambda _: False)


async def bare_loop(settings: Settings) -> None:
    """Receive, publish and delete by tens, as many at once as the worker holds; never ends."""
    session = aioboto3.Session()
    places = asyncio.Semaphore(settings.max_in_hand // BATCH)
    outcome = make_outcome()
    entry = {
        "Message": outcome.as_json(),
        "MessageAttributes": {
            name: {"DataType": attribute.type, "StringValue": attribute.value}
            for name, attribute in outcome_attributes(outcome).items()
        },
    }
    queue: Any = {"QueueUrl": settings.queue_url}
    under_way = set()
    async with (
        session.client("sqs", config=poll_config(1)) as polls,
        session.client("sqs", config=call_config(settings.max_in_hand)) as calls,
        session.client("sns", config=call_config(settings.max_in_hand)) as sns,
    ):

        async def settle(messages: list[Any]) -> None:
            entries = [{"Id": str(place), **entry} for place in range(len(messages))]
            await sns.publish_batch(
                TopicArn=settings.topic_arn, PublishBatchRequestEntries=cast("Any", entries)
            )
            done = [
                {"Id": str(place), "ReceiptHandle": one["ReceiptHandle"]}
                for place, one in enumerate(messages)
            ]
            await calls.delete_message_batch(**queue, Entries=cast("Any", done))
            line = {"event": "delivery_finished", "timestamp": datetime.now(UTC).isoformat()}
            sys.stderr.write(len(messages) * (json.dumps(line) + "\n"))
            places.release()

        while True:
            await places.acquire()
            answer = await polls.receive_message(**queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            task = asyncio.create_task(settle(cast("Any", answer.get("Messages", []))))
            under_way.add(task)
            task.add_done_callback(under_way.discard)


def main() -> None:
    """Run until killed."""
    settings = read_settings({})
    if os.environ["BENCH_WAY"] == "bare":
        asyncio.run(bare_loop(settings))
    asyncio.run(run_process(settings, aws_connection(), open_instant_brain))


if __name__ == "__main__":
    main()
