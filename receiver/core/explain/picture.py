"""The picture that pages, API and metrics show: one step's facts and decisions as JSON-able values."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.core.explain import charges_view
from receiver.core.explain.because import SPEAKS_UP, why
from receiver.core.explain.explain import Explanation, explain
from receiver.core.model.actions import Action, Decision, Verdict
from receiver.core.model.approval_request import Question, sentence
from receiver.core.model.model import Backoff, Facts, Node, PoolState, Rights, Source, Stage
from receiver.core.model.overrides import Override
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.signals import PoolSilence
from receiver.core.money.budget import BudgetView
from receiver.core.money.cost import amount, next_unit_at
from receiver.core.scaling.approval import is_wanted
from receiver.core.scaling.assign import Assignment, Wanted
from receiver.core.scaling.failures import Failure, Failures
from receiver.core.scaling.provisioning import awaited_since
from receiver.core.scaling.waits import Wait, waits

A_DAY = timedelta(days=1)


def picture(
    facts: Facts,
    assignment: Assignment,
    decisions: Mapping[str, Decision],
    numbers: Mapping[str, int],
    policy: Policy,
    mode: str,
    failures: Failures | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the whole picture of one step; *numbers* are the stored decisions' row numbers by pool.

    A pool that cannot be drawn is noted in *failures* and stands as in the picture *before*. Without *failures* the
    exception is raised.
    """
    pools = []
    for p in policy.pools:
        try:
            pools.append(
                _pool(p, facts.pool(p.id), assignment.pools[p.id], decisions[p.id], numbers[p.id], policy, facts, mode)
            )
        except Exception as error:
            if failures is None:
                raise
            failures.note(Failure(part="picture", error=error, pool=p.id))
            pools += [x for x in (before or {}).get("pools", ()) if x.get("pool") == p.id]
    return {
        "at": _when(facts.at),
        "mode": mode,
        "pools": pools,
        "budget": _budget(assignment.budget),
        "budgets": [_budget(view) for view in assignment.budgets.views],
        "kept_out": None
        if facts.kept_out is None
        else [{"place": place, "since": _when(since)} for place, since in sorted(facts.kept_out.items())],
        "rights": None if facts.rights is None else rights_shown(facts.rights, facts.at),
        "sources": [
            {
                "source": s.source.value,
                "up": s.up,
                "at": _when(s.at),
                "since": _when(s.since),
                "detail": s.detail,
                "configured": s.configured,
            }
            for s in facts.sources.values()
        ],
        "charges": charges_view.shown(facts.charges),
        "signals": [
            {
                "alertname": s.alertname,
                "action": s.action.value,
                "pool": s.pool,
                "starts_at": _when(s.starts_at),
                "fingerprint": s.fingerprint,
            }
            for s in facts.signals
        ],
        "misfits": [
            {"workload": m.workload.key, "gpus": m.workload.gpus, "detail": m.detail} for m in assignment.misfits
        ],
        "waiting": [
            _waiting(e, numbers) for e in explain(facts, assignment, decisions, policy, observing=mode == "observe")
        ],
        "waiting_total": len(facts.waiting),
    }


def rights_shown(rights: Rights, now: datetime) -> dict[str, Any]:
    """What is known of the rights that a removal needs, as it is shown."""
    return {
        "lacking": None if rights.lacking is None else list(rights.lacking),
        "since": _when(rights.since),
        "asked_at": _when(rights.asked_at),
        "detail": rights.detail,
        "said": str(rights),
        "holds_growth": rights.holds_growth(now),
    }


def _when(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _pool(
    pool: Pool,
    state: PoolState,
    wanted: Wanted,
    decision: Decision,
    number: int,
    policy: Policy,
    facts: Facts,
    mode: str,
) -> dict[str, Any]:
    usable = state.of(Stage.USABLE)
    price = pool.price_usd_per_hour
    known = facts.up(Source.CIVO)  # what nobody could be asked for is unknown, not 0
    return {
        "name": pool.name,
        "pool": pool.id,
        "size": pool.size,
        "mode": mode,
        "required": state.required if known else None,
        "ready": len(usable) if known else None,
        "building": len(state.coming) + state.unlisted if known else None,
        "busy": sum(1 for n in usable if n.busy) if known else None,
        "idle": sum(1 for n in usable if not n.busy) if known else None,
        "unknown": len(state.living) - len(usable) - len(state.coming) if known else None,
        "pending_gpus": wanted.waiting_gpus,
        "wanted": state.required + wanted.new_nodes if known else None,
        "min_nodes": wanted.bounds.min_nodes,
        "max_nodes": wanted.bounds.max_nodes,
        "windows": list(wanted.bounds.names),
        "gpus_per_node": pool.gpus_per_node,
        "price_usd_per_hour": None if price is None else amount(price),
        "utilization": state.utilization if usable else None,  # an average outlives the nodes it was taken from
        "utilization_high": pool.utilization_high,
        "utilization_low": pool.utilization_low,
        "because": why(decision),
        "held_by": [r.rule for r in decision.reasons if r.verdict in SPEAKS_UP],
        "reasons": [
            {"rule": r.rule, "verdict": r.verdict.value, "target": r.target, "detail": r.detail}
            for r in decision.reasons
            if r.verdict is not Verdict.ALLOWS
        ],
        "what_would_change": decision.evidence.get("what_would_change", []),
        "verdict": decision.change.value,
        "decision": number,
        "reconsider_at": _when(decision.reconsider_at),
        "waits": [_wait(w) for w in waits(pool, state, policy, facts.at)],
        "provisioning": None if state.provisioning is None else _backoff(state.provisioning),
        "awaited_since": _when(awaited_since(state)) if known else None,
        "ready_in_seconds": None if state.ready_in is None else state.ready_in.total_seconds(),
        "uncounted": state.uncounted,
        "drifts": sum(facts.at - d.at < A_DAY for d in state.drifts),
        "silenced_by": None if state.silence is None else str(state.silence),
        "silence": None if state.silence is None else _silence(state.silence),
        "overrides": [_override(o) for o in wanted.bounds.spoken.all],
        "questions": [_question(q, facts, wanted) for q in wanted.questions if q.stands(facts.at)],
        "open_action": None if state.open_action is None else _action(state.open_action),
        "nodes": [_node(n, policy, facts.at) for n in state.nodes],
    }


def _override(override: Override) -> dict[str, Any]:
    return {
        "id": override.id,
        "kind": override.kind.value,
        "nodes": override.nodes,
        "who": override.who,
        "why": override.why,
        "at": _when(override.at),
        "until": _when(override.until),
        "every_pool": override.pool is None,
    }


def _silence(found: PoolSilence) -> dict[str, Any]:
    return {
        "id": found.id,
        "by": found.by,
        "until": _when(found.until),
        "comment": found.comment,
        "more": found.more,
    }


def _question(question: Question, facts: Facts, wanted: Wanted) -> dict[str, Any]:
    return {
        "id": question.id,
        "asks": question.asks.value,
        "from": question.from_count,
        "to": question.to_count,
        "nodes": list(question.nodes),
        "state": question.standing(facts.at).value,
        "said": sentence(question, facts.at),
        "wait_ends": _when(question.wait_ends),
        "expires_at": _when(question.expires_at),
        "wanted": is_wanted(question, facts.pool(question.pool), wanted),
    }


def _backoff(backoff: Backoff) -> dict[str, Any]:
    return {"until": _when(backoff.until), "reason": backoff.reason, "failures": backoff.failures}


def _wait(found: Wait) -> dict[str, Any]:
    return {
        "direction": found.direction.value,
        "kind": found.kind.value,
        "until": _when(found.until),
        "reason": found.reason,
        "failures": found.failures,
        "nodes": list(found.nodes),
    }


def _action(action: Action) -> dict[str, Any]:
    return {
        "id": action.id,
        "kind": action.kind.value,
        "from": action.from_count,
        "to": action.to_count,
        "opened_at": _when(action.opened_at),
        "victims": [{"node": v.node, "stage": v.stage.value} for v in action.victims],
        "last_error": action.last_error,
    }


def _node(node: Node, policy: Policy, now: datetime) -> dict[str, Any]:
    return {
        "name": node.name,
        "instance": node.instance,
        "stage": node.stage.value,
        "note": node.note or None,
        "created_at": _when(node.created_at),
        "idle_since": _when(node.idle_since),
        "pods": [p.key for p in node.pods],
        "kept_until": _when(node.kept_until) if node.kept(now) else None,
        "kept_for": node.kept_for if node.kept(now) else None,
        "paid_until": _when(next_unit_at(node.created_at, now, policy.billing)),
        "kept_by": list(node.kept_by),
        "cordoned_by": node.cordoned_by.value if node.cordoned_by else None,
    }


def _waiting(explained: Explanation, numbers: Mapping[str, int]) -> dict[str, Any]:
    """One waiting pod; *numbers* are the stored decisions' row numbers by pool."""
    pod, workload, fate = explained.pod, explained.workload, explained.fate
    gang = workload if workload is not None and workload.gang else None
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "owner": pod.owner,
        "workload": workload.key if workload else None,
        "gang": {"waiting": len(gang.pods), "least": gang.least, "bound": gang.bound} if gang else None,
        "gpus": pod.gpus,
        "resources": dict(pod.requests),
        "since": _when(pod.created_at),
        "priority": pod.priority,
        "state": fate.state.value,
        "detail": fate.detail,
        "pool": fate.pool,
        "rule": fate.rule,
        "decision": numbers[fate.pool] if fate.pool else None,
        "node": fate.node,
        "nodes": fate.nodes,
        "expected_at": _when(fate.expected_at),
        "scheduler_says": pod.scheduler_says,
        "fits": [{"pool": f.pool, "name": f.name, "why_not": f.why} for f in explained.fits],
    }


def _budget(budget: BudgetView | None) -> dict[str, Any] | None:
    """One budget; what it has spent is None where nobody can tell."""
    if budget is None:
        return None
    found, change = budget.forecast, budget.change
    return {
        "month": budget.month,
        "monthly_usd": amount(budget.monthly),
        "spent_usd": None if budget.unknown else amount(budget.spent),
        "reserved_usd": amount(budget.reserved),
        "ratio": None if budget.unknown else float(budget.ratio),
        "stage": budget.stage.value,
        "warn_at": float(budget.warn_at),
        "hold_at": float(budget.hold_at),
        "stop_at": float(budget.stop_at),
        "unpriced": list(budget.unpriced),
        "scope": budget.scope.value,
        "name": budget.shown or budget.name,
        "title": budget.title,
        "unknown": budget.unknown,
        "uncounted": list(budget.uncounted),
        "forecast_burn_usd": _cents(found.burn),
        "forecast_trend_usd": _cents(found.trend),
        "forecast_since": _when(found.since),
        "set_by": None
        if change is None
        else {"who": change.who, "why": change.why, "at": _when(change.at), "month": change.month},
    }


def _cents(usd: Decimal | None) -> str | None:
    return None if usd is None else f"{usd:.2f}"
