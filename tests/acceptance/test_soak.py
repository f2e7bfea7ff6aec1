"""The short form of `make soak`: one of everything that goes wrong, and every ticket counted."""

from collections import Counter
from pathlib import Path

from tests.soak.faults import Fault
from tests.soak.soak import Plan, Soak
from tests.soak.tickets import End, Kind

ONE_OF_EACH = (
    ("ReceiveMessage", Fault.DROP_ANSWER),
    ("ReceiveMessage", Fault.SLOW),
    ("PublishBatch", Fault.PARTIAL),
    ("PublishBatch", Fault.THROTTLE),
    ("DeleteMessageBatch", Fault.PARTIAL),
    ("DeleteMessageBatch", Fault.ERROR),
    ("ChangeMessageVisibilityBatch", Fault.DROP_CALL),
)


async def test_one_kill_and_one_fault_of_each_kind_lose_nothing(
    emulator_url: str, tiny_model: Path, tmp_path: Path
) -> None:
    """40 tickets: each ends once, as its kind should, and none is deleted unpublished."""
    plan = Plan(
        model=tiny_model,
        seed=1,
        workers=2,
        seconds=0,
        first={Kind.SLOW: 1, Kind.GOOD: 33, Kind.MALFORMED: 3, Kind.OVERSIZE: 3},
        strike_seconds=(0, 0),
        most_strikes=1,
        fault_share=0,
        script=ONE_OF_EACH,
        max_receive_count=10,
        visibility_seconds=4,
        patience_seconds=80,
    )
    report = await Soak(plan).run(emulator_url, tmp_path)

    assert {} == report.account.faults()
    assert [] == report.fleet.faults
    assert 0 == report.fleet.events["delivery_failed"]
    assert report.emptied
    assert Counter({End.DECIDED: 34, End.REJECTED: 6}) == report.account.ends
    assert set(Fault) == set(report.faults.met)
    assert report.faults.is_used_up
    assert 1 == sum(report.fleet.strikes.values())
