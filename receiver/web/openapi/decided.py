"""Schemas of decisions, actions, and what people say: overrides."""

from receiver.config.model import Mode
from receiver.core.model.actions import ActionKind, Change, OutcomeKind, Verdict, VictimStage
from receiver.core.model.overrides import OverrideKind
from receiver.web.openapi.shapes import (
    WORDS,
    Schema,
    anything,
    count,
    fields,
    listed,
    maybe,
    moment,
    one_of,
    shared,
    text,
    usd,
    yes_or_no,
)

_DECISION = {
    "id": count(),
    "at": moment(),
    "pool": text(),
    "pool_name": text(),
    "mode": maybe(one_of(Mode)),
    "version": maybe(text("of the program that made it")),
    "from": count("nodes before"),
    "to": count("nodes wanted"),
    "verdict": one_of(Change),
    "reasons": listed(shared("Reason"), "every rule that spoke, in order"),
    "because": text("the reasons that settled it, in a sentence"),
    "what_would_change": listed(shared("Remedy"), "what would have let the change happen, or kept it"),
    "candidates": listed(text(), "instances that may go, soonest first"),
    "evicted": listed(text(), "those of them whose pods are evicted"),
    "evidence": anything("what was known; docs/http-api.md names its parts"),
    "reconsider_at": maybe(moment("the first moment at which this answer can change unaided")),
}
DECISION = fields("One decision, as it was made.", _DECISION)
EXPLAINED = fields(
    "One decision with what followed, and its neighbours in the history of its pool.",
    {
        **_DECISION,
        "actions": listed(shared("Action"), "that it led to"),
        "previous": maybe(count("the decision before it that is kept")),
        "next": maybe(count("and the one after it")),
    },
)
GROUNDS = fields(
    "What a decision was made from: all that the program was told.",
    {
        "decision": count(),
        "format": count("of the two parts; a program reads those up to its own"),
        "facts": anything("what was known, as the version that made it wrote it"),
        "policy": anything("what the operator had said, likewise"),
    },
)
REMEDY = fields(
    "What would change the answer.",
    {"rule": text(), "text": text(), "at": maybe(moment("when it comes about by itself"))},
)
REASON = fields(
    "What one rule said.",
    {
        "rule": text("its name in docs/guardrails.md"),
        "verdict": one_of(Verdict),
        "target": count("the nodes that it left"),
        "detail": text(),
    },
)
ACTION = fields(
    "What was done about a decision.",
    {
        "id": text(),
        "pool": text(),
        "pool_name": text(),
        "kind": one_of(ActionKind),
        "from": count("nodes at Civo"),
        "to": count(),
        "opened_at": moment(),
        "victims": listed(
            fields(
                "",
                {
                    "instance": text(),
                    "node": maybe(text()),
                    "stage": one_of(VictimStage),
                    "since": maybe(moment()),
                    "why": text("why it was spared, or what its removal waits for; else empty"),
                },
            )
        ),
        "decision": maybe(count()),
        "reserved_usd": usd("what the budget keeps aside for it"),
        "attempts": count(),
        "retry_at": maybe(moment()),
        "last_error": text("empty without one"),
        "outcome": maybe(fields("What became of it.", {"kind": one_of(OutcomeKind), "at": moment(), "detail": text()})),
    },
)
OVERRIDE = fields(
    "A person's temporary word.",
    {
        "id": text("what ends it"),
        "kind": one_of(OverrideKind),
        "pool": maybe(text("null: every pool")),
        "pool_name": maybe(text()),
        "nodes": maybe(count("null for pause and snooze")),
        "who": text(),
        "why": text(),
        "at": moment(),
        "until": moment(),
        "in_force": yes_or_no(),
        "ended_at": maybe(moment()),
        "ended_by": maybe(text("null when its time was over")),
    },
)
OVERRIDE_ASKED: Schema = {
    **fields(
        "An override to set. pin, floor and ceiling need nodes. One of until and for says its end.",
        {"kind": one_of(OverrideKind), "who": text("the person", **WORDS), "why": text("the reason", **WORDS)},
        {
            "pool": maybe(text("a pool's name or id; without it, or as all, every pool")),
            "nodes": maybe(count("at most the pool's max_nodes")),
            "for": maybe(text("a duration such as 2h")),
            "until": maybe(moment()),
        },
    ),
    "additionalProperties": False,
}
SCHEMAS: dict[str, Schema] = {
    "Decision": DECISION,
    "ExplainedDecision": EXPLAINED,
    "Grounds": GROUNDS,
    "Reason": REASON,
    "Remedy": REMEDY,
    "Action": ACTION,
    "Override": OVERRIDE,
    "OverrideAsked": OVERRIDE_ASKED,
}
