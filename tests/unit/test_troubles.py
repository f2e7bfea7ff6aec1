"""What those who watch a worker are told of its log."""

from worker.troubles import last_troubles, note_trouble


def test_the_last_warnings_and_errors_are_kept_by_name_only() -> None:
    """Ten of them, without what they say; what is no trouble is not kept."""
    for number in range(12):
        event = {"event": f"went_wrong_{number}", "level": "warning", "error": "secret",
                 "timestamp": "2026-01-01T00:00:00.123Z"}  # fmt: skip
        assert event == note_trouble(None, "warning", event)
    note_trouble(None, "info", {"event": "fine", "level": "info", "timestamp": ""})

    wanted = [
        {"event": f"went_wrong_{number}", "level": "warning", "at": "2026-01-01T00:00:00"}
        for number in range(2, 12)
    ]
    assert wanted == last_troubles()
