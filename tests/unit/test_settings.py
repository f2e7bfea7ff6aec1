"""Settings: one field, one flag, one environment variable; checked as a whole."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from worker.errors import UsageError
from worker.settings import Settings, load_settings


def refusal(**flags: Any) -> str:
    with pytest.raises(UsageError) as caught:
        load_settings(flags)
    return str(caught.value)


def test_the_defaults_are_valid() -> None:
    """Nothing needs to be set for the settings to be read."""
    settings = load_settings({})

    assert (None, None, 0, 16, "keep") == (
        settings.queue_url,
        settings.port,
        settings.contexts,
        settings.max_in_hand,
        settings.on_reject,
    )


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Field queue_url is WORKER_QUEUE_URL, and text becomes the field's type."""
    monkeypatch.setenv("WORKER_QUEUE_URL", "https://sqs/q")
    monkeypatch.setenv("WORKER_MAX_IN_HAND", "5")
    monkeypatch.setenv("WORKER_PROVE_BUILD", "false")
    settings = load_settings({})

    assert ("https://sqs/q", 5, False) == (
        settings.queue_url,
        settings.max_in_hand,
        settings.prove_build,
    )


def test_a_flag_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line has the last word, field by field."""
    monkeypatch.setenv("WORKER_MAX_IN_HAND", "5")
    monkeypatch.setenv("WORKER_WAIT_SECONDS", "3")
    settings = load_settings({"max_in_hand": 7})

    assert (7, 3) == (settings.max_in_hand, settings.wait_seconds)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("WORKER_QUEUE_URI", "WORKER_QUEUE_URL"),
        ("WORKER_MAX_INHAND", "WORKER_MAX_IN_HAND"),
        ("WORKER_VISIBILITY", "WORKER_VISIBILITY_SECONDS"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(
    monkeypatch: pytest.MonkeyPatch, name: str, nearest: str
) -> None:
    """A misspelled setting is an error, never ignored in silence."""
    monkeypatch.setenv(name, "x")

    assert f"settings: {name} is not a setting; the nearest is {nearest}" == refusal()


def test_other_programs_variables_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only names that begin with our prefix are ours."""
    monkeypatch.setenv("QUEUE_URL", "x")
    monkeypatch.setenv("MY_WORKER_MODEL", "x")

    assert load_settings({}).queue_url is None


def test_everything_wrong_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One start, one line, all faults: unknown names, wrong values, flags by their own name."""
    monkeypatch.setenv("WORKER_QUEUE", "x")
    monkeypatch.setenv("WORKER_PORT", "http")
    monkeypatch.setenv("WORKER_MAX_IN_HAND", "")
    message = refusal(wait_seconds=21, log_level="loud")

    assert message.startswith("settings: WORKER_QUEUE is not a setting; ")
    assert "WORKER_PORT: input should be a valid integer" in message
    assert "WORKER_MAX_IN_HAND: input should be a valid integer" in message
    assert "--wait-seconds: input should be less than or equal to 20" in message
    assert "--log-level: input should be 'debug', 'info', 'warning' or 'error'" in message
    assert "\n" not in message


def test_a_wrong_value_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that was put into the wrong variable does not reach the log."""
    monkeypatch.setenv("WORKER_PORT", "hunter2")

    assert "hunter2" not in refusal(log_level="hunter2")


def test_an_unknown_flag_is_refused() -> None:
    """A flag that no field knows is wrong usage, not a crash."""
    assert "--queue: extra inputs are not permitted" in refusal(queue="x")


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("contexts", 0, 64),
        ("gpu_layers", -1, None),
        ("max_in_hand", 1, 1000),
        ("wait_seconds", 1, 20),
        ("visibility_seconds", 3, 43_200),
        ("max_backoff_seconds", 1, 43_200),
        ("max_body_bytes", 1024, None),
        ("port", 0, 65_535),
        ("max_waiting_tokens", 1, None),
    ],
)
def test_limits_are_those_of_sqs_and_sense(name: str, least: int, most: int | None) -> None:
    """A number out of its range is refused at start, not by AWS in the night."""
    others = {} if name == "wait_seconds" else {"wait_seconds": 1}
    others |= {"stop_window_seconds": 1000} if name == "wait_seconds" else {}
    for value in (least, most):
        if value is not None:
            assert value == getattr(load_settings({name: value, **others}), name)
    assert f"--{name.replace('_', '-')}: " in refusal(**{name: least - 1}, **others)
    if most is not None:
        assert f"--{name.replace('_', '-')}: " in refusal(**{name: most + 1}, **others)


def test_three_heartbeats_fit_one_visibility() -> None:
    """Two beats may fail before a lease is lost."""
    load_settings({"heartbeat_seconds": 10, "visibility_seconds": 30})
    message = refusal(heartbeat_seconds=10.5, visibility_seconds=30)

    assert (
        "settings: heartbeat_seconds (10.5) must fit 3 times into the visibility (30 s)" == message
    )


def test_the_queues_own_visibility_is_checked_later() -> None:
    """Where the queue's own visibility counts, it is known only once the queue was looked at."""
    settings = load_settings({"heartbeat_seconds": 1000})

    assert [] == settings.lease_faults(3000)
    assert 2 == len(settings.lease_faults(30))


def test_a_poll_is_shorter_than_the_visibility() -> None:
    """A message that comes late in a long poll must not arrive with its lease used up."""
    refusal(visibility_seconds=6, wait_seconds=20, stop_window_seconds=60)


def test_poll_and_drain_fit_the_stop_window() -> None:
    """A stop waits for the poll, then drains: both end before the platform kills."""
    queue = {"queue_url": "https://queue.example/1/tickets", "stop_window_seconds": 30}
    load_settings({"wait_seconds": 5, "drain_seconds": 23, **queue})
    load_settings({"wait_seconds": 20, "drain_seconds": 28, "stop_window_seconds": 30})
    message = refusal(wait_seconds=5, drain_seconds=23.5, **queue)

    assert (
        "settings: wait_seconds + drain_seconds + 2 is 30.5, more than stop_window_seconds (30)"
        == message
    )


def test_what_does_not_fit_together_is_told_at_once() -> None:
    """Both rules are checked, and both faults told in one line."""
    message = refusal(heartbeat_seconds=20, visibility_seconds=30, drain_seconds=100)

    assert "heartbeat_seconds (20)" in message
    assert "stop_window_seconds (30)" in message
    assert "\n" not in message


def test_the_cache_may_be_in_the_home() -> None:
    """A shell expands ~ for a flag, nobody does in an environment file: so we do."""
    assert Path("~/.cache/decision-worker").expanduser() == load_settings({}).cache_dir
    assert Path.home() / "x" == load_settings({"cache_dir": "~/x"}).cache_dir


def test_settings_cannot_be_changed() -> None:
    """Read once: whoever holds them can rely on them."""
    with pytest.raises(ValidationError, match="frozen"):
        load_settings({}).port = 1


def test_every_setting_is_described() -> None:
    """Each field says what it is for and where it belongs, for --help and the manual."""
    for field in Settings.model_fields.values():
        assert field.description
        assert isinstance(field.json_schema_extra, dict)
        assert field.json_schema_extra["group"]


def test_buckets_are_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several values: a flag is repeated, a variable separates them by spaces or commas."""
    monkeypatch.setenv("WORKER_ALLOW_BUCKET", "s3://one, s3://two/a")

    assert ("s3://one", "s3://two/a") == load_settings({}).allow_bucket
    assert ("s3://bkt/p q",) == load_settings({"allow_bucket": ("s3://bkt/p q",)}).allow_bucket


@pytest.mark.parametrize("place", ["bucket", "s3://", "s3://B", "s3://b/", "https://s3/b"])
def test_a_bucket_is_named_by_its_uri(place: str) -> None:
    """A slip shows at start, not with the first ticket."""
    assert "settings: --allow-bucket: value error, must be s3://bucket or s3://bucket/prefix" == (
        refusal(allow_bucket=(place,))
    )


def test_sagemakers_port_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """SageMaker calls no other port, and from outside; only a flag is stronger."""
    monkeypatch.setenv("SAGEMAKER_BIND_TO_PORT", "9001")
    monkeypatch.setenv("WORKER_PORT", "8080")

    assert (9001, "0.0.0.0") == (load_settings({}).port, load_settings({}).host)
    assert 9002 == load_settings({"port": "9002"}).port


def test_a_batch_transform_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine of its ten minutes, unless ours is set."""
    monkeypatch.setenv("SAGEMAKER_BATCH", "true")
    batch = load_settings({}).request_seconds
    monkeypatch.setenv("WORKER_REQUEST_SECONDS", "30")

    assert (540, 30) == (batch, load_settings({}).request_seconds)


def test_a_wrong_port_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is to be changed, not a setting that nobody made."""
    monkeypatch.setenv("SAGEMAKER_BIND_TO_PORT", "http")

    assert "SAGEMAKER_BIND_TO_PORT: " in refusal()


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_whether_others_can_reach_it(host: str, is_local: bool) -> None:
    """Only loopback addresses are this machine's own."""
    assert is_local == Settings(host=host).is_local()
