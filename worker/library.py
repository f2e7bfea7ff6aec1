"""Open question sets and policy, wherever they lie: on this machine, or in S3."""

import asyncio
from pathlib import Path

from worker.decision.policy_file import Profile, read_policy
from worker.errors import UsageError
from worker.queue.aws import aws_connection
from worker.queue.s3_files import S3File, S3Folder, is_in_s3
from worker.settings import Settings
from worker.shelf import BookShelf, Folder


async def open_shelf(settings: Settings) -> BookShelf | None:
    """Read the question sets that are set.

    Raises:
        UsageError: everything that is wrong with them.
        AwsUnusable: S3 cannot be used.
    """
    place = settings.question_sets
    if place is None:
        return None
    in_s3 = is_in_s3(place)
    shelf = BookShelf(S3Folder(aws_connection(), place) if in_s3 else Folder(Path(place)))
    await shelf.load()
    return shelf


async def open_policy(settings: Settings) -> Profile | None:
    """Read the policy that is set, and choose the profile.

    Raises:
        UsageError: the file cannot be read or is wrong, or has no such profile.
        AwsUnusable: S3 cannot be used.
    """
    place = settings.policy
    if place is None:
        if settings.policy_profile is not None:
            raise UsageError("--policy-profile needs --policy")
        return None
    content = await _read_file(place)
    return read_policy(place, content).profile(settings.policy_profile)


async def _read_file(place: str) -> bytes:
    if is_in_s3(place):
        return await S3File(aws_connection(), place).read()
    try:
        return await asyncio.to_thread(Path(place).read_bytes)
    except OSError as error:
        raise UsageError(f"policy: {place}: {error.strerror}") from error
