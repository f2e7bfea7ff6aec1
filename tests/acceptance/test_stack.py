"""`infra/messaging.yaml` deployed into an emulator, and a worker that knows its outputs only."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.acceptance.conftest import CREDENTIALS, PATIENCE_SECONDS, REGION, Start

pytestmark = pytest.mark.emulators

TEMPLATE = Path(__file__).parents[2] / "infra" / "messaging.yaml"
QUESTIONS = {"refund": {"type": "noul", "instructions": "Is money wanted back?"}}


@dataclass
class Stack:
    """A deployed stack."""

    outputs: dict[str, str]
    sqs: Any
    s3: Any

    def attributes(self, output: str) -> dict[str, str]:
        answer = self.sqs.get_queue_attributes(
            QueueUrl=self.outputs[output], AttributeNames=["All"]
        )
        return answer["Attributes"]

    def send(self, body: dict[str, Any], group: str | None) -> None:
        order = {"MessageGroupId": group, "MessageDeduplicationId": body["ticket_id"]}
        self.sqs.send_message(
            QueueUrl=self.outputs["TicketQueueUrl"],
            MessageBody=json.dumps(body),
            **(order if group else {}),
        )

    def take(self, output: str, count: int) -> list[dict[str, Any]]:
        """Receive and delete *count* messages, and any that are there beyond them."""
        found: list[dict[str, Any]] = []
        for _ in range(int(PATIENCE_SECONDS)):
            answer = self.sqs.receive_message(
                QueueUrl=self.outputs[output], MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            messages = answer.get("Messages", [])
            if not messages and len(found) >= count:
                return found
            for message in messages:
                found.append(json.loads(message["Body"]))
                self.sqs.delete_message(
                    QueueUrl=self.outputs[output], ReceiptHandle=message["ReceiptHandle"]
                )
        raise AssertionError(f"{output}: {len(found)} of {count} messages came")


@pytest.fixture(scope="session")
def emulator_url(ministack_url: str) -> str:
    return ministack_url


@pytest.fixture(scope="module", params=["standard", "fifo"])
def stack(emulator_url: str, request: pytest.FixtureRequest) -> Iterator[Stack]:
    session = boto3.Session(region_name=REGION, **CREDENTIALS)
    formation, sqs, s3 = (
        session.client(name, endpoint_url=emulator_url) for name in ("cloudformation", "sqs", "s3")
    )
    name = f"desk-{request.param}"
    formation.create_stack(
        StackName=name,
        TemplateBody=TEMPLATE.read_text(),
        Parameters=[
            {"ParameterKey": "Name", "ParameterValue": name},
            {"ParameterKey": "Order", "ParameterValue": request.param},
        ],
    )
    formation.get_waiter("stack_create_complete").wait(
        StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    made = formation.describe_stacks(StackName=name)["Stacks"][0]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in made["Outputs"]}
    yield Stack(outputs, sqs, s3)
    for client in (formation, sqs, s3):
        client.close()


def test_worker_needs_nothing_but_the_outputs(
    stack: Stack, start: Start, tiny_model: Path, emulator_url: str
) -> None:
    """Tickets reach the subscribers whose filter policy they match; rejections, theirs only."""
    outputs = stack.outputs
    is_fifo = outputs["TicketQueueUrl"].endswith(".fifo")
    place = outputs["DocumentPlace"]
    bucket, prefix = place.removeprefix("s3://").split("/", 1)
    stack.s3.put_object(Bucket=bucket, Key=f"{prefix}/letter.txt", Body=b"please help me")
    for number in range(3):
        body = {"ticket_id": f"text-{number}", "state": "help me", "questions": QUESTIONS}
        stack.send(body, "mail" if is_fifo else None)
    stack.send(
        {"ticket_id": "document", "state_uri": f"{place}/letter.txt", "questions": QUESTIONS},
        "documents" if is_fifo else None,
    )
    stack.send(
        {"ticket_id": "unasked", "state": "help me", "question_set": "none"},
        "unasked" if is_fifo else None,
    )

    worker = start(
        "run",
        "--model",
        str(tiny_model),
        "--wait-seconds",
        "1",
        WORKER_QUEUE_URL=outputs["TicketQueueUrl"],
        WORKER_TOPIC_ARN=outputs["OutcomeTopicArn"],
        WORKER_ALLOW_BUCKET=place,
        WORKER_OUTCOME_BUCKET=outputs["OutcomePlace"],
    )
    everything = stack.take("OutcomeQueueUrl", 5)
    review = stack.take("ReviewQueueUrl", 4)
    rejected = stack.take("RejectedQueueUrl", 1)
    code = worker.stop()

    texts = ["text-0", "text-1", "text-2"]
    assert sorted(["document", "unasked", *texts]) == sorted(o["ticket_id"] for o in everything)
    assert sorted(["document", *texts]) == sorted(o["ticket_id"] for o in review)
    assert ["unasked"] == [outcome["ticket_id"] for outcome in rejected]
    assert ["unasked"] == [t["ticket_id"] for t in stack.take("TicketDeadLettersUrl", 1)]
    if is_fifo:
        in_turn = [o["ticket_id"] for o in review if o["ticket_id"] in texts]
        assert texts == in_turn
    assert 0 == code


def test_queues_are_what_the_worker_relies_on(stack: Stack) -> None:
    """Dead letters outlive tickets and come from one queue; every queue is encrypted by the key."""
    tickets, dead = stack.attributes("TicketQueueUrl"), stack.attributes("TicketDeadLettersUrl")
    redrive, allowed = json.loads(tickets["RedrivePolicy"]), json.loads(dead["RedriveAllowPolicy"])

    assert stack.outputs["TicketDeadLettersArn"] == redrive["deadLetterTargetArn"]
    assert [stack.outputs["TicketQueueArn"]] == allowed["sourceQueueArns"]
    assert int(tickets["MessageRetentionPeriod"]) < int(dead["MessageRetentionPeriod"])
    assert tickets.get("FifoQueue") == dead.get("FifoQueue")
    keys = {
        stack.attributes(output)["KmsMasterKeyId"]
        for output in stack.outputs
        if output.endswith("Url")
    }
    assert {stack.outputs["KeyArn"]} == keys
