"""Schemas of what machines send and ask: Alertmanager's delivery, a kubelet's questions, and every refusal."""

from receiver.config.model import Mode
from receiver.metrics.process import WatchState
from receiver.web.openapi.overview import LOOP
from receiver.web.openapi.shapes import (
    Schema,
    by_name,
    count,
    fields,
    listed,
    maybe,
    moment,
    one_of,
    text,
    whatever,
    yes_or_no,
)

PROBLEM = fields(
    "Why nothing was done.",
    {"error": text("what is wrong"), "remedy": text("what helps")},
    {
        "field": text("the part of the request that is to blame"),
        "known": listed({}, "what could have been asked for"),
        "can_mean": listed(text(), "why a pod may not wait"),
        "history": listed(text(), "what is known of the pod from before"),
        "state": text("how a question stands"),
        "limit_bytes": count("what a body may hold"),
    },
)
_STATUS = one_of(("firing", "resolved"))
PAYLOAD = fields(
    "Alertmanager's webhook payload, version 4, unchanged. More fields are taken and not read.",
    {
        "version": {"const": "4"},
        "status": _STATUS,
        "alerts": listed(
            fields(
                "",
                {"status": _STATUS, "labels": by_name(text()), "startsAt": moment(), "fingerprint": text(minLength=1)},
                {"annotations": whatever("texts by name; else there are none"), "endsAt": whatever("not read")},
            )
        )
        | {"minItems": 1},
    },
    {  # an alert must not be lost because something beside it is odd
        "receiver": whatever("text, else empty"),
        "groupKey": whatever("text, else empty"),
        "truncatedAlerts": whatever("how many alerts were left out, a whole number above 0, else none"),
    },
)
TAKEN = fields(
    "A delivery that is on disk.",
    {"delivery": count("its number"), "alerts": count("of ours in it"), "warnings": listed(text())},
)
HEALTH = fields(
    "Whether the loop beats.",
    {
        **LOOP,
        "watch": one_of(WatchState, "how the watch of pods stands"),
        "mode": one_of(Mode),
        "version": text(),
    },
)
READY = fields(
    "Whether a delivery would be taken and kept.",
    {
        "ready": yes_or_no(),
        "reason": text("empty when ready"),
        "pools": count(),
        "mode": one_of(Mode),
        **{name: LOOP[name] for name in ("loop", "leader", "term")},
    },
)
RECEIVED = fields(
    "An alert as Alertmanager last delivered it.",
    {
        "alertname": text(),
        "labels": by_name(text()),
        "firing": yes_or_no("false where it was reported as resolved"),
        "starts_at": moment(),
        "fingerprint": text("Alertmanager's hash of the labels"),
        "delivery": maybe(count("the number of the delivery that brought it")),
    },
)
SCHEMAS: dict[str, Schema] = {
    "ReceivedAlert": RECEIVED,
    "Problem": PROBLEM,
    "AlertmanagerPayload": PAYLOAD,
    "DeliveryTaken": TAKEN,
    "Health": HEALTH,
    "Readiness": READY,
}
