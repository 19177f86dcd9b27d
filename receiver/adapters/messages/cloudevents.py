"""A notice as an event for machines: CloudEvents 1.0, structured mode (https://github.com/cloudevents/spec)."""

import hashlib
from typing import Any

from receiver.core.notices.grouping import Message
from receiver.ports import StoredNotice

CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
TYPE = "io.gpu-autoscaler.notice.{}.v1"


def event_id(stored: StoredNotice) -> str:
    """Return an id that is the same in every retry, and another one in a store that was created anew. Words and time
    of a notice that waits are brought up to date, so they are no part of it."""
    notice = stored.notice
    identity = "\0".join((notice.cause, notice.topic, notice.key)).encode("utf-8", "replace")
    return f"{stored.id}-{hashlib.sha256(identity).hexdigest()[:16]}"


def document(message: Message) -> dict[str, Any]:
    """Return the event of *message*, which is a single notice."""
    event = {
        "specversion": "1.0",
        "id": message.id,
        "source": message.source,
        "type": TYPE.format(message.cause),
        "time": message.at.isoformat() if message.at is not None else None,
        "subject": message.pool or None,
        "datacontenttype": "application/json",
        "data": {
            "title": message.title,
            "body": message.text,
            "severity": message.severity.value,
            "cluster": message.cluster or None,
            "pool": message.pool or None,
            "team": message.team,
            "decision": message.decision,
            "links": [{"label": label, "url": where} for label, where in message.links if "://" in where],
        },
    }
    return {name: value for name, value in event.items() if value is not None}
