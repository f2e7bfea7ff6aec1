"""Unwrapping: SNS envelopes and S3 pointers as other programs write them, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_body
from worker.errors import Rejected
from worker.queue.envelope import Unwrapped, pointer_body, unwrap
from worker.queue.locations import AllowList, Location, Prefix

CURRENT = "software.amazon.payloadoffloading.PayloadS3Pointer"
OLDER = "com.amazon.sqs.javamessaging.MessageS3Pointer"
PLACE = {"s3BucketName": "papers", "s3Key": "a/b"}


def make_envelope(message: str, **fields: Any) -> str:
    """Return what SNS puts around a message for a queue that did not ask for raw delivery."""
    tree = {
        "Type": "Notification",
        "MessageId": "6b6bd3a8-0000-0000-0000-000000000000",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:tickets",
        "Subject": "a ticket",
        "Message": message,
        "Timestamp": "2026-11-30T12:00:00.000Z",
        "SignatureVersion": "1",
        "Signature": "x",
        "SigningCertURL": "https://x",
        "UnsubscribeURL": "https://x",
    }
    return json.dumps({k: v for k, v in (tree | fields).items() if v is not ...})


def make_pointer(name: str = CURRENT, place: Any = None) -> str:
    return json.dumps([name, PLACE if place is None else place])


@pytest.mark.parametrize("body", [make_body(), "", "{", "[", "[]", "null", '["x", {}]', "[" * 9999])
def test_a_raw_body_stays_as_it_is(body: str) -> None:
    """What is neither envelope nor pointer is a ticket, or its parser says why not."""
    assert Unwrapped(body) == unwrap(body)


def test_an_envelope_is_taken_off() -> None:
    """The message is the ticket, however it is spelled; trace headers come along."""
    attributes = {
        "traceparent": {"Type": "String", "Value": "00-ab-cd-01"},
        "weight": {"Type": "Number", "Value": "3"},
        "blob": {"Type": "Binary", "Value": "AAAA"},
        "odd": "x",
    }
    body = make_body(state="über \U0001f600\n")
    found = unwrap(make_envelope(body, MessageAttributes=attributes), {"weight": "1", "own": "y"})

    assert body == found.body
    assert {"traceparent": "00-ab-cd-01", "weight": "3", "own": "y"} == found.attributes


@pytest.mark.parametrize(
    "fields",
    [
        {"Type": "SubscriptionConfirmation"},
        {"Type": ...},
        {"TopicArn": "x"},
        {"TopicArn": ...},
        {"MessageId": ...},
        {"Message": ...},
        {"Message": {"state": 1}},
        {"state": "x"},
        {"questions": {}},
    ],
)
def test_only_a_real_envelope_is_taken_off(fields: dict[str, Any]) -> None:
    """A ticket may have fields of any name, and they are not SNS's."""
    body = make_envelope(make_body(), **fields)

    assert Unwrapped(body) == unwrap(body)


def test_one_envelope_is_taken_off() -> None:
    """An envelope inside an envelope is somebody's text."""
    inner = make_envelope(make_body())

    assert inner == unwrap(make_envelope(inner)).body


@pytest.mark.parametrize("name", [CURRENT, OLDER])
@pytest.mark.parametrize("size_name", ["ExtendedPayloadSize", "SQSLargePayloadSize"])
def test_a_pointer_is_found_in_either_place(name: str, size_name: str) -> None:
    """Both class names, both size attributes, with and without an envelope."""
    attributes = {size_name: {"Type": "Number", "Value": "300000"}}
    raw = unwrap(make_pointer(name), {size_name: "300000"})
    wrapped = unwrap(make_envelope(make_pointer(name), MessageAttributes=attributes))

    assert raw == wrapped
    assert ("", Location("papers", "a/b"), 300_000) == (
        raw.body,
        raw.pointer,
        raw.declared_bytes(),
    )


@pytest.mark.parametrize("size", ["", "-1", "1e9", "many"])
def test_a_size_that_is_no_number_is_not_believed(size: str) -> None:
    """The read is bounded anyway."""
    assert unwrap(make_pointer(), {"ExtendedPayloadSize": size}).declared_bytes() is None


@pytest.mark.parametrize(
    "place",
    [
        {},
        [],
        "x",
        {"s3BucketName": "b"},
        {"s3BucketName": "b", "s3Key": 1},
        {"s3BucketName": "", "s3Key": "k"},
        {"s3BucketName": "b", "s3Key": "k" * 1025},
        {"s3BucketName": "b", "s3Key": "in/../out/k"},
        {"s3BucketName": "b", "s3Key": "../other-bucket/k"},
    ],
)
def test_a_pointer_to_nowhere_is_rejected(place: Any) -> None:
    """It is marked as a pointer, so it is no ticket either."""
    with pytest.raises(Rejected) as caught:
        unwrap(make_pointer(place=place))
    assert "invalid_ticket" == caught.value.code


@given(st.text(), st.text(st.characters(exclude_characters="."), min_size=1, max_size=200))
def test_our_pointers_are_read_by_ourselves(bucket: str, key: str) -> None:
    """What stands for a large outcome is what an extended client looks for."""
    body = pointer_body(Location(bucket or "b", key))

    assert json.loads(body)[0] == CURRENT
    assert Location(bucket or "b", key) == unwrap(body).pointer


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://b/k", Location("b", "k")),
        ("s3://b/a//b c%20?x#y", Location("b", "a//b c%20?x#y")),
        ("s3://b//k", Location("b", "/k")),
        ("s3://b/a..b/.k./...", Location("b", "a..b/.k./...")),
    ],
)
def test_a_uri_names_bucket_and_key(uri: str, expected: Location) -> None:
    """A key is taken as it stands: nothing in it is an escape or a path."""
    assert expected == Location.parse(uri, "state_uri")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "s3://",
        "s3://b",
        "s3://b/",
        "s3:///k",
        "S3://b/k",
        "http://b/k",
        "/etc/passwd",
        "s3://b/in/../k",
        "s3://b/./k",
        "s3://b/..",
    ],
)
def test_another_uri_is_rejected(uri: str) -> None:
    """Nothing but S3 is ever asked."""
    with pytest.raises(Rejected) as caught:
        Location.parse(uri, "state_uri")
    assert ("invalid_ticket", "state_uri") == (caught.value.code, caught.value.where)


@pytest.mark.parametrize(
    ("allowed", "key", "is_allowed"),
    [
        ("s3://b", "k", True),
        ("s3://b/", "a/k", True),
        ("s3://b/in", "in/k", True),
        ("s3://b/in/", "in/k", True),
        ("s3://b/in/k", "in/k", True),
        ("s3://b/in", "inside/k", False),
        ("s3://b/in/", "out/k", False),
        ("s3://b/in/", "in", False),
        ("s3://other/in/", "in/k", False),
        ("s3://B", "k", False),
    ],
)
def test_the_list_allows_what_it_names(allowed: str, key: str, is_allowed: bool) -> None:
    """A prefix is a folder: a neighbour whose name begins alike is not in it."""
    prefix = Prefix.parse(allowed)

    assert is_allowed == prefix.covers(Location("b", key))
    if not is_allowed:
        with pytest.raises(Rejected) as caught:
            AllowList((prefix,)).check(Location("b", key), "state_uri")
        assert "bucket_not_allowed" == caught.value.code
