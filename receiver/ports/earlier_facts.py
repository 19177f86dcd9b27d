"""Facts of earlier versions in today's names: what a decision was made from outlives the version that decided."""

from collections.abc import Mapping, Sequence, Set
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from receiver.core.model.model import DELETING_AT_CIVO

DURATION = TypeAdapter(timedelta)  # as ISO 8601 writes it
# Each part of today, with its fields by their names of then: of a node until format 2, of the others until format 3.
PARTS_OF_A_NODE = {
    "cordon": {"cordoned_by": "by", "cordoned_for": "action", "closed_for": "stop", "deleted": "deleted"},
    "keep": {"protected": "protected", "kept_until": "until", "kept_for": "pod"}
    | {"hosts": "hosts", "kept_by": "drain_losses"},
    "health": {"sick": "sick", "sick_since": "since", "partly_sick": "partly"}
    | {name: name for name in ("maintained", "maintained_until")},
    "times": {name: name for name in ("usable_since", "seen_since", "unknown_since", "lost_at", "undated")},
    "beside": {name: name for name in ("compute", "others", "daemons", "dra", "devices", "devices_returned")},
}
PARTS_OF_A_POOL = {
    "backoffs": {"backoff": "growth", "removal_backoff": "removal"}
    | {name: name for name in ("refused", "provisioning", "sickened")},
    "last_changes": {"last_grow_at": "grown_at", "last_shrink_at": "shrunk_at"},
    "count": {"required_since": "since"} | {name: name for name in ("uncounted", "drifts", "unreadable")},
    "startup": {"ready_in": "usual", "ready_within": "slow"},
    "next_node": {name: name for name in ("compute", "devices")},
}
# Each kind of request by its field until format 4, with what of it became a term.
REQUESTS = {
    "buffers": ("buffers", ()),
    "candidates": ("kueue_check", ("ready", "rejects")),
    "bookings": ("provisioning_requests", ("created_at", "provisioned_at", "consumed", "valid_for")),
}
PARTS_OF_FACTS = {
    "other_work": {name: name for name in ("deferred", "bound_gangs", "refusals", "requests")},
    "earlier": {"told_to_go": "announced", "given_up": "given_back"}
    | {name: name for name in ("grown_last_hour", "removed_last_hour", "first_changed_at", "unanswered", "kept_out")},
    "instructions": {name: name for name in ("overrides", "questions", "budget_changes")},
    "spend": {"charges": "charges"},
}
PARTS_OF_A_POD = {
    "scheduling": {
        name: name for name in ("node_selector", "affinity", "preferred", "tolerations", "host_rules", "pool_hint")
    },
    "wishes": {
        name: name for name in ("evictable", "protected", "idle_shutdown", "stays_idle", "keep_until", "may_wait")
    },
    "times": {name: name for name in ("bound_at", "running_since", "leaves_at")},
    "claiming": {"claims": "words", "claimed": "claims", "not_bought": "not_bought"},
}
# What has parts, by the fields that tell it from everything else.
PARTS: Sequence[tuple[Set[str], Mapping[str, Mapping[str, str]]]] = (
    ({"instance", "stage", "created_at"}, PARTS_OF_A_NODE),
    ({"pool", "required"}, PARTS_OF_A_POOL),
    ({"at", "pools", "sources"}, PARTS_OF_FACTS),
    ({"namespace", "requests", "phase"}, PARTS_OF_A_POD),
)


class EarlierFacts:
    """Facts stored in format 1 to 4. In format 1 a pod was ``terminating`` where it has a moment to leave now, and a
    node ``leaving`` where it has Civo's word; until format 2 a node had no parts, until format 3 only a node had, and
    until format 4 each kind of request had a type of its own."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._stored, self._at = stored, stored.get("at")

    def in_todays_names(self) -> object:
        return self._renamed(self._stored)

    def _renamed(self, stored: object) -> object:
        if isinstance(stored, list):
            return [self._renamed(each) for each in stored]
        if not isinstance(stored, dict):
            return stored
        facts: dict[str, Any] = {name: self._renamed(value) for name, value in stored.items()}
        if facts.pop("terminating", False) is True:
            facts["leaves_at"] = self._at
        if facts.pop("leaving", False) is True:
            facts["civo_status"] = DELETING_AT_CIVO
        if facts.pop("was_usable", False) is True and facts.get("usable_since") is None:  # of a node
            facts["usable_since"] = facts["created_at"]
        if any(isinstance(facts.get(name), list) for name in REQUESTS):  # a team or a label may have the same name
            earlier = {name: facts.pop(name, ()) for name in REQUESTS}
            facts["requests"] = [_request(name, each) for name, requests in earlier.items() for each in requests]
        for telling, parts in PARTS:
            if telling <= facts.keys():
                for part, names in parts.items():
                    moved = {today: facts.pop(then) for then, today in names.items() if then in facts}
                    if moved:
                        facts[part] = facts.get(part, {}) | moved
        return facts


def _request(name: str, earlier: Mapping[str, Any]) -> dict[str, Any]:
    """The request that *earlier*, an entry of the field *name*, is today."""
    kind, terms = REQUESTS[name]
    request = {key: value for key, value in earlier.items() if key not in (*terms, "pod", "replicas")}
    if name == "buffers":
        request |= {"pods": [earlier["pod"]] if earlier.get("pod") else [], "copies": earlier.get("replicas", 0)}
    held = {term: earlier[term] for term in terms if earlier.get(term) not in (None, False)}
    texts = {term: "true" if value is True else str(value) for term, value in held.items()}
    if "valid_for" in texts:
        texts["valid_for"] = str(DURATION.validate_python(texts["valid_for"]).total_seconds())
    return {"kind": kind, **request, "waits": name == "bookings", "trial": name == "candidates", "terms": texts}
