"""Every event that is logged, by name: what has happened, in the past tense.

Only `listening` and `ready` say what the process is now: whoever starts it waits for them.
The name stands in the code where it is logged; a test holds that it stands here as well, and that
none is here that is not logged.
"""

from collections.abc import Mapping
from types import MappingProxyType

EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "container_variables_ignored": "another container's variables mean nothing here",
        "context_thread_failed": "a context's thread met a bug; the engine is finished",
        "dead_letter_queue_not_found": "the queue names no dead-letter queue",
        "dead_letter_refused": "a rejected delivery could not be copied to the dead-letter queue",
        "decode_failed": "llama.cpp refused a call",
        "delete_refused": "the queue refused to delete a delivery whose outcome is out",
        "delivery_failed": "a delivery met a bug, and was released",
        "delivery_finished": "a delivery ended: decided, rejected, kept, released, lost or failed",
        "delivery_released": "a delivery was given back to the queue, to come again later",
        "document_denied": "S3 does not let the role read or write there",
        "document_failed": "S3 could not be read or written now",
        "drain_deadline_passed": "time to finish ran out, and work was left",
        "drain_started": "a signal or a failure ended receiving",
        "exit_forced": "a second signal ended the process at once",
        "extension_failed": "leases could not be extended this time",
        "failed": "the process ends because something cannot go on",
        "feedback_counted": "what a person decided about an answer was counted",
        "feedback_kept": "a feedback message could not be settled now, and comes again",
        "feedback_refused": "a feedback message is none, and was moved or given back",
        "hangup_ignored": "SIGHUP came, and there is nothing to read again",
        "join_failed": "a context that read branches of another's ticket met a bug",
        "keys_not_reloaded": "the file of keys is wrong; the keys stayed as they were",
        "keys_read": "callers need one of so many keys, or none",
        "keys_reloaded": "the file of keys was read again",
        "lease_lost": "a delivery became someone else's, and its work was given up",
        "listening": "the sidecar's socket was bound",
        "metrics_port_opened": "monitors are answered on a port of their own",
        "model_loaded": "the model was loaded and its contexts were made",
        "outcome_offloaded": "an outcome too large for the topic went to S3",
        "policy_mismatched": "the policy was made for something else; every answer is for review",
        "policy_names_missed": "the policy names sets, questions or options that are not here",
        "poll_failed": "a poll failed and is tried again after a pause",
        "question_sets_kept": "a file of question sets is wrong; the sets stayed as they were",
        "question_sets_loaded": "the question sets were read",
        "ready": "answers can be had",
        "receive_started": "polling began",
        "rejection_refused": "a rejection could not be published",
        "request_failed": "a request met a bug",
        "request_finished": "a request was answered, one way or another",
        "spans_abandoned": "time to stop ran out while spans were sent; the rest is lost",
        "spans_accepted": "the collector takes spans again",
        "spans_lost": "the collector did not take spans; the work goes on without it",
        "stopped": "all is closed",
        "task_not_protected": "ECS was asked to spare this task, and does not",
        "ticket_rejected": "a ticket can never be answered, for the reason given",
        "topic_not_checked": "the role may not read the topic's attributes",
    }
)
