"""How a setting is declared."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")
"""A bucket, and a prefix or a key in it."""


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("the home directory is not known") from None


def _here_or_in_s3(value: Any) -> Any:
    """Return a place as text: a path of this machine, or a URI of S3."""
    place = str(value)
    if not place.startswith("s3:"):
        return str(_at_home(Path(place)))
    if not BUCKET.fullmatch(place):
        raise ValueError("must be a path, s3://bucket or s3://bucket/prefix")
    return place


Folder = Annotated[Path, AfterValidator(_at_home)]
"""A path, in which ``~`` is the user's home."""

Place = Annotated[str, BeforeValidator(_here_or_in_s3)]
"""A path of this machine, or a URI of S3."""


def words(value: Any) -> Any:
    """Cut text at spaces and commas: an environment variable holds several values that way."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def setting_of(group: str) -> Callable[..., Any]:
    """Return what declares the settings of a group, under which `--help` lists them.

    It takes a default, a description, and pydantic's limits.
    """

    def setting(default: Any = ..., description: str = "", **limits: Any) -> Any:
        return Field(default, description=description, json_schema_extra={"group": group}, **limits)

    return setting
