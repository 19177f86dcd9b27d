"""Schemas of what the last step found: pools, their nodes, and pods that wait."""

from receiver.config.model import Mode
from receiver.core.explain.explain import State
from receiver.core.model.actions import ActionKind, Change, VictimStage
from receiver.core.model.model import CordonedBy, Stage
from receiver.core.model.overrides import OverrideKind
from receiver.core.scaling.waits import Direction, WaitKind
from receiver.web.openapi.shapes import (
    Schema,
    by_name,
    count,
    fields,
    listed,
    maybe,
    moment,
    number,
    one_of,
    ratio,
    shared,
    text,
    usd,
    yes_or_no,
)

NODE = fields(
    "A node of a pool.",
    {
        "name": maybe(text("its name in Kubernetes")),
        "instance": maybe(text("Civo's id of its instance")),
        "stage": one_of(Stage),
        "created_at": maybe(moment()),
        "idle_since": maybe(moment("since when it has had no GPU pod")),
        "pods": listed(text(), "its GPU pods, as namespace/name"),
        "paid_until": maybe(moment("the end of its paid unit of time")),
        "cordoned_by": maybe(one_of(CordonedBy)),
    },
    {
        "note": maybe(text("what the stage alone does not say, such as the startup taint that it waits for")),
        "kept_until": maybe(moment("until when a workload keeps it")),
        "kept_for": maybe(text("the pod that asked for that")),
        "kept_by": listed(text(), "pods without a GPU that keep the node, each with its reason"),
    },
)
WAIT = fields(
    "What holds one direction of a pool for a while.",
    {
        "direction": one_of(Direction),
        "kind": one_of(WaitKind),
        "until": moment(),
        "reason": text(),
        "failures": count("in a row"),
        "nodes": listed(text(), "the nodes that it holds, where it does not hold all"),
    },
)
SPOKEN = fields(
    "An override that is in force for a pool.",
    {
        "id": text(),
        "kind": one_of(OverrideKind),
        "nodes": maybe(count()),
        "who": text(),
        "why": text(),
        "at": moment(),
        "until": moment(),
        "every_pool": yes_or_no("whether it is of every pool"),
    },
)
OPEN_ACTION = fields(
    "The action under way.",
    {
        "id": text(),
        "kind": one_of(ActionKind),
        "from": count(),
        "to": count(),
        "opened_at": moment(),
        "victims": listed(fields("", {"node": maybe(text()), "stage": one_of(VictimStage)})),
        "last_error": text("empty without one"),
    },
)
SILENCE = fields(
    "The Alertmanager silence that pauses a pool.",
    {
        "id": text("Alertmanager's id of it"),
        "by": text("who set it"),
        "until": maybe(moment()),
        "comment": text(),
        "more": count("further silences of the pool"),
    },
)
_COUNTS = {
    "required": maybe(count("nodes that Civo was asked for")),
    "ready": maybe(count("nodes whose GPUs Kubernetes can hand out")),
    "building": maybe(count("nodes on their way")),
    "busy": maybe(count("ready nodes with a GPU pod")),
    "idle": maybe(count("ready nodes without one")),
    "unknown": maybe(count("nodes that nobody could tell about")),
    "pending_gpus": maybe(count("GPUs that waiting pods ask of this pool")),
    "wanted": maybe(count("nodes that demand, floors, standby and headroom ask for")),
}
POOL = fields(
    "A pool as the last step found it. Before the first step, and of a picture that an older version kept, only what is"
    " required is there.",
    {"name": text("what people call it"), "pool": text("Civo's id of it"), **_COUNTS, "mode": one_of(Mode)},
    {
        "size": text("Civo's name of its nodes' size"),
        "min_nodes": count("as in force now"),
        "max_nodes": count("as in force now"),
        "windows": listed(text(), "the names of the windows that are open"),
        "gpus_per_node": count(),
        "price_usd_per_hour": maybe(usd("of one node; null: nobody gave one")),
        "utilization": maybe(ratio("mean of its GPUs")),
        "utilization_high": ratio(),
        "utilization_low": ratio(),
        "because": text("the latest decision in a sentence"),
        "reasons": listed(shared("Reason"), "the rules that spoke in the last step, in order"),
        "what_would_change": listed(shared("Remedy"), "what would have led to another answer"),
        "fits_nowhere": listed(
            fields("", {"pod": text(), "why_not": maybe(text("of this pool")), "detail": text()}),
            "the first waiting pods that no pool can hold; of one pool alone",
        ),
        "messages_to": listed(text(), "where messages go, without secrets; of one pool alone"),
        "held_by": listed(text(), "the rules that took something from it"),
        "verdict": one_of(Change),
        "decision": count("its number"),
        "reconsider_at": maybe(moment("the first moment at which it can change unaided")),
        "waits": listed(shared("Wait")),
        "provisioning": maybe(
            fields(
                "Nodes that never became usable.",
                {"until": moment(), "reason": text(), "failures": count("in a row")},
            )
        ),
        "awaited_since": maybe(moment("since when its oldest node on the way is awaited")),
        "ready_in_seconds": maybe(number("how long a node of it usually takes", minimum=0)),
        "uncounted": count("nodes that were removed and that Civo still counts"),
        "drifts": count("how often somebody else changed the count in the last day"),
        "silenced_by": maybe(text("who paused it in Alertmanager, until when and why, in a sentence")),
        "silence": maybe(shared("Silence")),
        "overrides": listed(shared("OverrideInForce")),
        "questions": listed(shared("PoolsQuestion"), "those that stand"),
        "open_action": maybe(shared("OpenAction")),
        "nodes": listed(shared("Node")),
    },
)
WAITING_POD = fields(
    "A pod that waits for GPUs.",
    {
        "namespace": text(),
        "name": text(),
        "state": one_of(State),
        "detail": text("what becomes of it, in a sentence"),
        "what_to_do": text("what a person can do"),
        "pool": maybe(text("the pool that it waits for; null when no pool fits")),
        "pool_name": maybe(text()),
        "since": maybe(moment()),
        "gpus": count(),
        "resources": by_name(count(), "what it asks for, by resource name"),
        "fits": listed(
            fields("", {"pool": text(), "name": text(), "why_not": maybe(text("null: its nodes can hold the pod"))})
        ),
    },
    {
        "owner": text("what created it, such as Job/train; empty for a pod of its own"),
        "workload": maybe(text()),
        "gang": maybe(
            fields(
                "Pods that must run together.",
                {
                    "waiting": count(),
                    "least": count("how many must run together; 0: all"),
                    "bound": count("how many are bound to a node"),
                },
            )
        ),
        "priority": number(),
        "rule": maybe(text("the rule that holds it")),
        "decision": maybe(count("the pool's latest decision")),
        "node": maybe(text("the node that it waits for")),
        "nodes": maybe(count("how many nodes are bought")),
        "expected_at": maybe(moment("when they should be usable")),
        "scheduler_says": text("the scheduler's own sentence"),
    },
)
SCHEMAS: dict[str, Schema] = {
    "Pool": POOL,
    "Node": NODE,
    "Wait": WAIT,
    "Silence": SILENCE,
    "OverrideInForce": SPOKEN,
    "OpenAction": OPEN_ACTION,
    "WaitingPod": WAITING_POD,
}
