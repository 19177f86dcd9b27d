"""Decisions, actions, pools and budget as JSON documents; docs/http-api.md describes every field."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from receiver.core.explain.because import why
from receiver.core.explain.explain import what_to_do
from receiver.core.money.cost import amount
from receiver.ports import StoredAction, StoredDecision
from receiver.web.pages.show import number
from receiver.web.parts import WebParts

POOL_COUNTS = ("required", "ready", "building", "busy", "idle", "unknown", "pending_gpus", "wanted")
WAITING_FIELDS = (
    "namespace",
    "name",
    "state",
    "detail",
    "what_to_do",
    "pool",
    "pool_name",
    "since",
    "gpus",
    "resources",
    "fits",
)
BUDGET_FIELDS = (
    "month",
    "monthly_usd",
    "spent_usd",
    "reserved_usd",
    "ratio",
    "stage",
    "warn_at",
    "hold_at",
    "stop_at",
)
CHARGES_FIELDS = (
    "month",
    "asked_at",
    "answered_at",
    "failure",
    "records",
    "unreadable",
    "account_usd",
    "unpriced",
    "sizes",
    "differences",
    "differences_total",
)


def moment(at: datetime | None) -> str | None:
    """Return *at* as RFC 3339 in UTC with a Z."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at else None


def plain(value: Any) -> Any:
    """Return *value* with nothing in it that JSON does not know: money as a string, times as RFC 3339."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return amount(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _stored_usd(item) if "usd" in str(key) else plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return str(value)


def _stored_usd(value: Any) -> Any:
    """Return an amount as older versions stored it, without its exponent (``0E-29``); anything else as `plain` does."""
    found = number(value) if isinstance(value, str) and "E" in value else None
    return plain(value if found is None else found)


def mode_of(picture: Mapping[str, Any], parts: WebParts) -> str:
    """Return the mode of the step that *picture* shows, before the first step the configured one."""
    return str(picture.get("mode") or parts.mode)


def pool_document(entry: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Return one pool as the last step found it; a count nobody could tell is null."""
    document: dict[str, Any] = {"name": entry.get("name"), "pool": entry.get("pool")}
    document |= {name: entry.get(name) for name in POOL_COUNTS}
    document["mode"] = entry.get("mode") or mode
    return plain({**document, **{k: v for k, v in entry.items() if k not in document}})  # type: ignore[no-any-return]  # plain keeps a mapping a dict


def decision_document(stored: StoredDecision, parts: WebParts) -> dict[str, Any]:
    """Return a decision with every reason in order, in the words and with the names that were stored with it.

    Only of what an older version did not store, today's policy and today's words are shown.
    """
    decision = stored.decision
    known = dict(decision.evidence)
    pool = known.get("pool")
    because, remedies = known.pop("because", None), known.pop("what_would_change", None)
    mode, version = known.pop("mode", None), known.pop("version", None)
    return {
        "id": stored.id,
        "at": moment(decision.at),
        "pool": decision.pool,
        "pool_name": (pool.get("name") if isinstance(pool, Mapping) else None) or parts.pool_name(decision.pool),
        "mode": mode,
        "version": version,
        "from": decision.present,
        "to": decision.target,
        "verdict": decision.change.value,
        "reasons": [
            {"rule": r.rule, "verdict": r.verdict.value, "target": r.target, "detail": r.detail}
            for r in decision.reasons
        ],
        "because": because or why(decision),
        "what_would_change": plain(remedies or ()),
        "candidates": list(decision.candidates),
        "evicted": list(decision.evicted),
        "evidence": plain(known),
        "reconsider_at": moment(decision.reconsider_at),
    }


def explained(stored: StoredDecision, parts: WebParts) -> dict[str, Any]:
    """Return a decision with what followed from it and its neighbours in the history of its pool."""
    previous, following = parts.store.beside(stored)
    document = decision_document(stored, parts)
    named = {"pool_name": document["pool_name"]}  # as it was called then
    return {
        **document,
        "actions": [{**action_document(a, parts), **named} for a in parts.store.followed(stored.id)],
        "previous": previous,
        "next": following,
    }


def action_document(stored: StoredAction, parts: WebParts) -> dict[str, Any]:
    """Return an action with its victims and what became of it (null while it is open)."""
    action, outcome = stored.action, stored.outcome
    return {
        "id": action.id,
        "pool": action.pool,
        "pool_name": parts.pool_name(action.pool),
        "kind": action.kind.value,
        "from": action.from_count,
        "to": action.to_count,
        "opened_at": moment(action.opened_at),
        "victims": [
            {"instance": v.instance, "node": v.node, "stage": v.stage.value, "since": moment(v.since), "why": v.why}
            for v in action.victims
        ],
        "decision": action.decision,
        "reserved_usd": amount(action.reserved_usd),
        "attempts": action.attempts,
        "retry_at": moment(action.retry_at),
        "last_error": action.last_error,
        "outcome": {"kind": outcome.kind.value, "at": moment(outcome.at), "detail": outcome.detail}
        if outcome
        else None,
    }


def waiting_document(entry: Mapping[str, Any], parts: WebParts, mode: str) -> dict[str, Any]:
    """Return one waiting pod: what becomes of it, what a person can do, and which pools fit it."""
    document = {name: entry.get(name) for name in WAITING_FIELDS}
    pool = document["pool"]
    document["pool_name"] = parts.pool_name(pool) if pool else None
    document["what_to_do"] = what_to_do(
        str(entry.get("state")),
        entry.get("rule"),
        namespace=str(entry.get("namespace")),
        pod=str(entry.get("name")),
        observing=mode == "observe",
    )
    return plain({**document, **{k: v for k, v in entry.items() if k not in document}})  # type: ignore[no-any-return]  # plain keeps a mapping a dict


def budget_document(snapshot: Mapping[str, Any] | None, parts: WebParts) -> dict[str, Any]:
    """Return the month's money; every field is null where no budget is set or no step has looked yet.

    USD amounts are strings, because a binary float cannot hold cents; the ``_at`` fields and ``ratio`` are
    ratios of the monthly amount.
    """
    budget = parts.policy.budget
    found = (snapshot or {}).get("budget") or {}
    document: dict[str, Any] = {"configured": budget is not None} | {name: found.get(name) for name in BUDGET_FIELDS}
    if budget is not None:
        document["monthly_usd"] = budget.monthly_usd
        document |= {name: float(getattr(budget, name)) for name in ("warn_at", "hold_at", "stop_at")}
    document |= {k: v for k, v in found.items() if k not in document}
    document["scopes"] = (snapshot or {}).get("budgets") or None
    document["kept_out"] = (snapshot or {}).get("kept_out")
    return plain(document)  # type: ignore[no-any-return]  # plain keeps a mapping a dict


def charges_document(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return Civo's charges beside the ledger; every field is null before Civo was first asked."""
    found = snapshot.get("charges") or {}
    document = {name: found.get(name) for name in CHARGES_FIELDS}
    return plain({**document, **{k: v for k, v in found.items() if k not in document}})  # type: ignore[no-any-return]  # plain keeps a mapping a dict
