"""Places in S3: how they are written, and which of them may be read."""

from dataclasses import dataclass, field
from typing import Self

from worker.errors import Rejected

_SCHEME = "s3://"
_LONGEST_KEY_BYTES = 1024  # as S3 has it
_DOTS = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class Location:
    """One object. Its key may hold customer data, so it is never shown.

    Attributes:
        bucket: the bucket's name.
        key: the object's key, as S3 knows it: nothing is decoded or normalised.
    """

    bucket: str
    key: str = field(repr=False)

    @classmethod
    def parse(cls, uri: str, where: str) -> Self:
        """Read ``s3://bucket/key``.

        Raises:
            Rejected: it is no such thing.
        """
        bucket, _, key = uri.removeprefix(_SCHEME).partition("/")
        if not uri.startswith(_SCHEME) or not bucket or not key:
            raise Rejected("invalid_ticket", "must be s3://bucket/key", where)
        return cls.checked(bucket, key, where)

    @classmethod
    def checked(cls, bucket: str, key: str, where: str) -> Self:
        """Return the location when S3 could have such an object, and it is named plainly.

        Raises:
            Rejected: it could not.
        """
        is_key = 0 < len(key.encode("utf-8", "replace")) <= _LONGEST_KEY_BYTES
        # S3 takes dots as they stand, but a client or proxy on the way may resolve them, and then
        # what is fetched is not what was allowed.
        has_dots = not _DOTS.isdisjoint(key.split("/"))
        if not bucket or not is_key or has_dots:
            raise Rejected("invalid_ticket", "is not a place in S3", where)
        return cls(bucket, key)


@dataclass(frozen=True, slots=True)
class Prefix:
    """A bucket, or the part of it whose keys begin so."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``s3://bucket`` or ``s3://bucket/prefix``.

        Raises:
            ValueError: it is no such thing.
        """
        bucket, _, prefix = text.removeprefix(_SCHEME).partition("/")
        if not text.startswith(_SCHEME) or not bucket:
            raise ValueError("must be s3://bucket or s3://bucket/prefix")
        return cls(bucket, prefix)

    def covers(self, location: Location) -> bool:
        """Say whether *location* lies here; a prefix ends at a slash, whether written or not."""
        if self.bucket != location.bucket:
            return False
        folder = self.prefix if self.prefix.endswith("/") or not self.prefix else f"{self.prefix}/"
        return location.key.startswith(folder) or location.key == self.prefix

    def key(self, name: str) -> str:
        """Return the key of the object *name* here."""
        return f"{self.prefix.rstrip('/')}/{name}" if self.prefix.strip("/") else name


@dataclass(frozen=True, slots=True)
class AllowList:
    """Where documents may be read from; a sender names the place, so it must be one of these."""

    prefixes: tuple[Prefix, ...]

    def check(self, location: Location, where: str) -> None:
        """Check that *location* may be read.

        Raises:
            Rejected: it may not.
        """
        if not any(prefix.covers(location) for prefix in self.prefixes):
            raise Rejected(
                "bucket_not_allowed",
                "lies in no bucket or prefix that this worker may read (--allow-bucket)",
                where,
            )
