"""Media types: what a body is, and what the caller accepts. Pure."""

from enum import Enum

from worker.sidecar.refusal import Refused


class Media(Enum):
    """What a body may be, and its answer with it; the first name is the one we use."""

    JSON = ("application/json", "text/json")
    LINES = (
        "application/jsonlines",
        "application/x-jsonlines",
        "application/jsonl",
        "application/x-ndjson",
    )


def media_of(content_type: str | None, *, allowed: tuple[Media, ...]) -> Media:
    """Return what a body is; without a type it is JSON.

    Raises:
        Refused: it is of none of the allowed types.
    """
    name = (content_type or "").partition(";")[0].strip().lower()
    if not name or (name.startswith("application/") and name.endswith("+json")):
        return Media.JSON
    for media in allowed:
        if name in media.value:
            return media
    names = " or ".join(media.value[0] for media in allowed)
    raise Refused(415, "unsupported_media_type", f"Content-Type must be {names}")


def answered_as(accept: str | None, media: Media) -> str:
    """Return the name under which an answer of *media* goes out.

    Raises:
        Refused: the caller does not accept it.
    """
    if not (accept or "").strip():
        return str(media.value[0])
    ranges = [_range(part) for part in str(accept).split(",")]
    for name in media.value:
        quality = _quality(name, ranges)
        if quality > 0:
            return str(name)
    raise Refused(406, "not_acceptable", f"the answer is {media.value[0]}, which Accept rules out")


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    return name, quality


def _quality(name: str, ranges: list[tuple[str, float]]) -> float:
    """Return how welcome *name* is: the most specific range that covers it decides."""
    for covering in (name, name.partition("/")[0] + "/*", "*/*"):
        for other, quality in ranges:
            if other == covering:
                return quality
    return 0.0
