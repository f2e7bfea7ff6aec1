"""Media types of bodies and answers."""

import pytest

from worker.sidecar.media import Media, answered_as, media_of
from worker.sidecar.refusal import Refused

BOTH = (Media.JSON, Media.LINES)


@pytest.mark.parametrize(
    ("content_type", "media"),
    [
        (None, Media.JSON),
        ("", Media.JSON),
        ("application/json", Media.JSON),
        ("Application/JSON; charset=utf-8", Media.JSON),
        ("application/vnd.api+json", Media.JSON),
        ("application/jsonlines", Media.LINES),
        ("application/x-ndjson", Media.LINES),
    ],
)
def test_what_a_body_is(content_type: str | None, media: Media) -> None:
    """Told by its media type, whatever the case and the parameters."""
    assert media is media_of(content_type, allowed=BOTH)


@pytest.mark.parametrize(
    "content_type", ["text/csv", "application/x-www-form-urlencoded", "json", "multipart/form-data"]
)
def test_other_bodies_are_refused(content_type: str) -> None:
    """415 names what is taken."""
    with pytest.raises(Refused, match="application/json or application/jsonlines") as caught:
        media_of(content_type, allowed=BOTH)

    assert 415 == caught.value.refusal.status


@pytest.mark.parametrize(
    ("accept", "media", "name"),
    [
        (None, Media.JSON, "application/json"),
        ("", Media.LINES, "application/jsonlines"),
        ("*/*", Media.JSON, "application/json"),
        ("text/html, application/*;q=0.1", Media.JSON, "application/json"),
        ("text/json", Media.JSON, "text/json"),
        ("application/x-ndjson", Media.LINES, "application/x-ndjson"),
        ("application/json;q=0.5, */*;q=0", Media.JSON, "application/json"),
    ],
)
def test_accept_is_honoured(accept: str | None, media: Media, name: str) -> None:
    """The answer goes out under a name that the caller accepts."""
    assert name == answered_as(accept, media)


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("text/csv", Media.JSON),
        ("application/json", Media.LINES),
        ("*/*;q=0", Media.JSON),
        ("application/json;q=x", Media.JSON),
    ],
)
def test_what_nobody_accepts_is_not_made(accept: str, media: Media) -> None:
    """406, and no work is done."""
    with pytest.raises(Refused) as caught:
        answered_as(accept, media)

    assert 406 == caught.value.refusal.status
