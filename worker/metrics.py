"""Every metric, declared once; names stay."""

from prometheus_client import (
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

disable_created_metrics()  # type: ignore[no-untyped-call]  # as many series again, for no use here

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300)

DELIVERIES_RECEIVED = Counter(
    "decision_deliveries_received_total", "Deliveries received from the queue"
)
DELIVERIES_IN_HAND = Gauge("decision_deliveries_in_hand", "Deliveries held now")
DELIVERIES_FINISHED = Counter(
    "decision_deliveries_finished_total",
    "Deliveries by how they ended: decided, rejected, kept, released, lost or failed",
    ["result"],
)
REJECTIONS = Counter(
    "decision_rejections_total", "Deliveries whose ticket can never be answered, by code", ["code"]
)
RELEASES = Counter(
    "decision_releases_total",
    "Deliveries given back to come again later, by the type of error; bug: any that is not ours",
    ["reason"],
)
STAGE_SECONDS = Histogram(
    "decision_stage_seconds",
    "A delivery's stages: open, evaluate, publish and delete",
    ["stage"],
    buckets=_SECONDS,
)
OLDEST_HELD = Gauge(
    "decision_oldest_held_seconds", "Since the oldest delivery that is held was asked for"
)
AWS_CALLS = Counter(
    "decision_aws_calls_total",
    "Calls to SQS and SNS, by operation and result: done, unavailable or unusable",
    ["operation", "result"],
)
AWS_ENTRY_FAILURES = Counter(
    "decision_aws_entry_failures_total",
    "Entries of batch calls that failed although the call was done, by operation",
    ["operation"],
)
LEASE_EXTENSIONS = Counter(
    "decision_lease_extensions_total", "Extensions of leases, by result", ["result"]
)
LAST_POLL = Gauge(
    "decision_last_successful_poll_timestamp_seconds", "When the last poll succeeded, Unix time"
)
POLL_FAILURES = Counter("decision_poll_failures_total", "Polls that failed")
QUEUE_WAIT_SECONDS = Histogram(
    "decision_queue_wait_seconds",
    "From the producer's send to our receive",
    buckets=(*_SECONDS, 900, 3600, 14400, 86400),
)
TICKET_SECONDS = Histogram(
    "decision_ticket_seconds", "From receive to delete, by face", ["face"], buckets=_SECONDS
)
DOCUMENTS = Counter(
    "decision_documents_total",
    "Objects in S3, by result: read, written, gone, refused, too_large, denied or unavailable",
    ["result"],
)
DECISIONS = Counter(
    "decision_decisions_total",
    "Questions answered, by type and disposition",
    ["type", "disposition"],
)
LABEL_MASS = Histogram(
    "decision_label_mass_ratio",
    "Share of the model's distribution that fell on an answer's labels, by type",
    ["type"],
    buckets=(0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1),
)
NEAR_TIES = Counter(
    "decision_near_ties_total",
    "Answers whose two likeliest options are within 0.05 of each other, by type",
    ["type"],
)
FEEDBACK = Counter(
    "decision_feedback_total",
    "What people decided about answers, by question (other: in no configured set), the answer's"
    " disposition and result: upheld, overturned, or unknown when nobody knows the answer",
    ["question", "disposition", "result"],
)
FEEDBACK_MESSAGES = Counter(
    "decision_feedback_messages_total",
    "Messages of the feedback queue, by result: taken, malformed or failed",
    ["result"],
)
DRIFT = Gauge(
    "decision_drift_psi",
    "Population stability index of the last 1,000 answers against the policy's calibration, by set,"
    " question and what: answers, confidence or label_mass; NaN until 200 are known",
    ["question_set", "question", "what"],
)
POLICY_MISMATCHED = Gauge(
    "decision_policy_mismatched",
    "1 while the policy was made for something else and every answer is for review",
)
EVALUATED_TOKENS = Counter(
    "decision_evaluated_tokens_total",
    "Tokens decoded, by kind: trunk, branch, or whole for a prompt that shares no trunk",
    ["kind"],
)
REUSED_TOKENS = Counter(
    "decision_reused_trunk_tokens_total",
    "Tokens of trunks not decoded again, by kind: shared by a ticket's prompts, parked in memory,"
    " or spilled to disk",
    ["kind"],
)
TRUNK_LOOKUPS = Counter(
    "decision_trunk_lookups_total",
    "Looks for a parked trunk, by result: hit when it covered a beginning, or miss",
    ["result"],
)
TRUNK_EVICTIONS = Counter(
    "decision_trunk_evictions_total", "Parked trunks that memory had no room for any more"
)
PARKED_BYTES = Gauge("decision_parked_bytes", "Host memory that parked trunks take")
ENGINE_WAITING_TOKENS = Gauge(
    "decision_engine_waiting_tokens", "Tokens that wait at the engine's door"
)
ENGINE_ADMISSIONS = Counter(
    "decision_engine_admissions_total", "Evaluations let in at the engine's door, by lane", ["lane"]
)
ENGINE_REFUSALS = Counter(
    "decision_engine_refusals_total",
    "Evaluations refused at the engine's door, by lane and reason: busy when too many tokens wait,"
    " late when the answer would come after its deadline, long when a prompt fits no context",
    ["lane", "reason"],
)
ENGINE_RESIDENT_TOKENS = Gauge(
    "decision_engine_resident_tokens", "Tokens that all contexts together hold between two calls"
)
ENGINE_CAPACITY_TOKENS = Gauge(
    "decision_engine_capacity_tokens", "Tokens that all contexts together can hold"
)
ENGINE_TOKENS_PER_SECOND = Gauge(
    "decision_engine_tokens_per_second",
    "Tokens that all contexts together evaluate in a second while any of them is busy",
)
ENGINE_SECONDS = Histogram(
    "decision_engine_seconds", "An evaluation, by phase", ["phase"], buckets=_SECONDS
)
DECODE_SECONDS = Histogram(
    "decision_decode_seconds",
    "One call of llama.cpp",
    buckets=(0.001, 0.0025, 0.005, *_SECONDS),
)
BATCH_FILL = Histogram(
    "decision_batch_fill_ratio",
    "Tokens of one call of llama.cpp, as a share of the most that fit",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1),
)
ENGINE_STALLED = Gauge(
    "decision_engine_stalled_seconds", "The longest time that a context has been inside one call"
)
DECODE_FAILURES = Counter("decision_decode_failures_total", "Calls that llama.cpp refused")
HTTP_REQUESTS = Counter(
    "decision_http_requests_total", "Requests, by route and status code", ["route", "code"]
)
HTTP_REFUSED = Counter(
    "decision_http_refused_total", "Requests that got no answer, by the kind of reason", ["kind"]
)
HTTP_IN_PROGRESS = Gauge("decision_http_in_progress", "Requests that hold a place now")
QUESTION_SETS = Gauge("decision_question_sets", "Question sets that may be asked")
QUESTION_SET_RELOADS = Counter(
    "decision_question_set_reloads_total",
    "Reloads of the question sets, by result: loaded, or refused because a file is wrong",
    ["result"],
)
SPANS = Counter("decision_spans_total", "Spans that ended, to be sent to the collector")
SPANS_SENT = Counter(
    "decision_spans_sent_total",
    "Spans that were sent, by result: sent, or lost because the collector did not take them",
    ["result"],
)
MODEL = Info("decision_model", "The model that answers")
BUILD = Info("decision_build", "Versions of the worker and of llama.cpp")

CONTENT_TYPE = CONTENT_TYPE_LATEST


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    return generate_latest(REGISTRY)


def last_poll() -> float | None:
    """Return when the last poll succeeded, in Unix time; None when none has."""
    return REGISTRY.get_sample_value("decision_last_successful_poll_timestamp_seconds") or None
