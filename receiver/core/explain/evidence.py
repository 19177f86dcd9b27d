"""What a decision rests on, as JSON-able values that are stored with it: a week later nothing else explains it.

Every list is capped; ``left_out`` counts what was cut. Times are ISO 8601 in UTC, money is USD as text, ages and
lengths are seconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from receiver.core.explain.rules import RULES, sentence
from receiver.core.model.actions import Reason, Verdict
from receiver.core.model.approval_request import Question
from receiver.core.model.model import Node, Source
from receiver.core.model.overrides import Override
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Policy
from receiver.core.model.signals import PoolSilence, Signal
from receiver.core.model.windows import next_change
from receiver.core.money.budget import BudgetStage, BudgetView, Refusal, month_of, team_of
from receiver.core.money.cost import amount, unit_price
from receiver.core.scaling.allowance import RULES as COUNTING
from receiver.core.scaling.guardrails import GUARDRAILS, Case
from receiver.core.scaling.provisioning import stuck_on_the_way
from receiver.core.scaling.waits import waits

WORKLOADS, SIGNALS, NODES, DELIVERIES, QUESTIONS = 20, 20, 50, 20, 20  # how many of each are kept
CENT = Decimal("0.01")


def evidence_of(case: Case, reasons: Sequence[Reason]) -> dict[str, Any]:
    """Return what is known of *case*, whose decision has *reasons*."""
    wanted, state, pool = case.wanted, case.state, case.pool
    lists: dict[str, tuple[Sequence[Any], int]] = {
        "woken_by": (case.facts.deliveries, DELIVERIES),
        "asking": (wanted.asking, WORKLOADS),
        "signals": (case.signals, SIGNALS),
        "nodes": (state.nodes, NODES),
    }
    kept = {name: entries[:most] for name, (entries, most) in lists.items()}
    cut = {name: len(entries) - most for name, (entries, most) in lists.items() if len(entries) > most}
    action = state.open_action
    return {
        "pool": {
            "name": pool.name,
            "size": pool.size,
            "price_usd_per_hour": _usd(pool.price_usd_per_hour),
            "gpus_per_node": pool.gpus_per_node,
            "max_nodes": pool.max_nodes,
            "min_nodes": pool.min_nodes,
            "standby_nodes": pool.standby_nodes,
            "idle_for_seconds": pool.idle_for.total_seconds(),
            "provision_timeout_seconds": pool.provision_timeout.total_seconds(),
        },
        "woken_by": list(kept["woken_by"]),
        "counted_by": "kubernetes" if case.up(Source.KUBERNETES) else "kube-state-metrics",
        "activity": "gpu activity" if case.up(Source.DCGM) else "pod counts",
        "utilization": state.utilization,
        "waiting_gpus": wanted.waiting_gpus,
        "asking": [w.key for w in kept["asking"]],
        "asking_since": min((w.since for w in wanted.asking), default=case.now).isoformat(),
        "workloads": [_workload(w, case.policy) for w in kept["asking"]],
        "bounds": _bounds(case),
        "overrides": [_override(o) for o in wanted.bounds.overrides.all],
        "questions": [_question(q) for q in case.questions[-QUESTIONS:]],
        "silence": None if state.silence is None else _silence(state.silence),
        "signals": [_signal(s) for s in kept["signals"]],
        "nodes": [_node(n) for n in kept["nodes"]],
        "sources": _sources(case),
        "budget": _budget(wanted.budget),
        "uncovered": [_uncovered(refusal, case) for refusal in wanted.uncovered],
        "month_ends_at": month_of(case.now, case.policy.timezone).end.isoformat(),
        "limits": {
            "max_gpus": case.policy.limits.max_gpus,
            "max_growth_per_hour": case.policy.limits.max_growth_per_hour,
            "max_removals_per_hour": case.policy.limits.max_removals_per_hour,
        },
        "waits": [
            {"direction": w.direction.value, "kind": w.kind.value, "until": w.until.isoformat(), "reason": w.reason}
            for w in waits(pool, state, case.policy, case.now)
        ],
        "stuck": list(stuck_on_the_way(pool, state, case.now)),
        "open_action": None
        if action is None
        else {
            "id": action.id,
            "kind": action.kind.value,
            "opened_at": action.opened_at.isoformat(),
            "last_error": action.last_error,
        },
        "behind": list(_behind(case, reasons)),
        "left_out": cut,
    }


def _behind(case: Case, reasons: Sequence[Reason]) -> Iterator[dict[str, str]]:
    """The guardrails that nobody asked because one before them held, and that would have objected too.

    The three that count nodes together build on each other and on the price: only the first that objects is told, and
    none behind one that makes them count nothing.
    """
    rules = {guardrail.__name__: guardrail for guardrail in GUARDRAILS}
    place = next((n for n, r in enumerate(reasons) if n and r.rule in rules and r.verdict is Verdict.HOLDS), None)
    if place is None:
        return
    target, uncounted = reasons[place - 1].target, RULES[reasons[place].rule].uncounted
    for reason in reasons[place + 1 :]:
        held = None if uncounted and reason.rule in COUNTING else rules[reason.rule](target, case)
        if held is not None:
            uncounted = uncounted or RULES[reason.rule].uncounted
            objection = replace(reason, verdict=Verdict.HOLDS, because=held.because)
            yield {"rule": reason.rule, "detail": sentence(objection, case)}


def _bounds(case: Case) -> dict[str, Any]:
    bounds = case.wanted.bounds
    change = next_change(case.pool.windows, case.now) if case.pool.windows else None
    return {
        "min_nodes": bounds.min_nodes,
        "max_nodes": bounds.max_nodes,
        "standby_nodes": bounds.standby_nodes,
        "windows": list(bounds.names),
        "why_least": _bare(bounds.why_least),
        "why_most": _bare(bounds.why_most),
        "next_change_at": change.isoformat() if change else None,
    }


def _bare(said: str) -> str:
    """What stands in the brackets behind a bound."""
    return said.removeprefix(" (").removesuffix(")")


def _override(override: Override) -> dict[str, Any]:
    return {
        "id": override.id,
        "kind": override.kind.value,
        "nodes": override.nodes,
        "who": override.who,
        "why": override.why,
        "until": override.until.isoformat(),
        "every_pool": override.pool is None,
    }


def _question(question: Question) -> dict[str, Any]:
    goes = question.proceeds_at
    return {
        "id": question.id,
        "asks": question.asks.value,
        "from": question.from_count,
        "to": question.to_count,
        "nodes": list(question.nodes),
        "asked_at": question.asked_at.isoformat(),
        "wait_ends": question.wait_ends.isoformat(),
        "expires_at": question.expires_at.isoformat(),
        "goes_unanswered_at": goes.isoformat() if goes else None,
        "answer": question.answer.value if question.answer else None,
        "who": question.who,
    }


def _silence(silence: PoolSilence) -> dict[str, Any]:
    return {
        "id": silence.id,
        "by": silence.by,
        "comment": silence.comment,
        "until": silence.until.isoformat(),
        "said": str(silence),
    }


def _workload(workload: Workload, policy: Policy) -> dict[str, Any]:
    """Who asks: *owner* is the first pod's controller, *team* its label; empty where it has none."""
    pod = workload.pods[0]
    return {
        "workload": workload.key,
        "owner": pod.owner,
        "team": team_of(pod, policy),
        "pods": len(workload.pods),
        "gpus": workload.gpus,
        "since": workload.since.isoformat(),
        "priority": workload.priority,
        "priority_class": pod.priority_class,
    }


def _signal(signal: Signal) -> dict[str, Any]:
    return {
        "alertname": signal.alertname,
        "action": signal.action.value,
        "fingerprint": signal.fingerprint,
        "starts_at": signal.starts_at.isoformat(),
        "of_pool": signal.pool is not None,
        "delivery": signal.delivery,
    }


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "instance": node.instance,
        "stage": node.stage.value,
        "note": node.note or None,
        "gpu_pods": len(node.pods),
        "idle_since": _when(node.idle_since),
        "created_at": node.created_at.isoformat(),
    }


def _sources(case: Case) -> dict[str, dict[str, Any]]:
    return {
        s.source.value: {
            "up": s.up,
            "at": _when(s.at),
            "age_seconds": (case.now - s.at).total_seconds() if s.at else None,
            "since": _when(s.since),
            "detail": s.detail,
            "configured": s.configured,
        }
        for s in case.facts.sources.values()
    }


def _budget(view: BudgetView | None) -> dict[str, Any] | None:
    if view is None:
        return None
    return {
        "title": view.title,
        "month": view.month,
        "stage": view.stage.value,
        "monthly_usd": _usd(view.monthly),
        "spent_usd": _usd(view.spent),
        "reserved_usd": _usd(view.reserved),
        "available_usd": _usd(view.available),
        "warn_at": str(view.warn_at),
        "hold_at": str(view.hold_at),
        "stop_at": str(view.stop_at),
    }


def _uncovered(refusal: Refusal, case: Case) -> dict[str, Any]:
    """A budget that did not cover a node; *raise_usd* is what it lacked at least, None where money is not it."""
    view = refusal.view
    unknown = bool(view.unknown or view.unpriced) or case.pool.price_usd_per_hour is None
    return {
        **(_budget(view) or {}),
        "unknown": view.unknown,
        "unpriced": list(view.unpriced),
        "raise_usd": None if unknown else _usd(lacking(refusal, case)),
        "passing": refusal.passing,
    }


def lacking(refusal: Refusal, case: Case) -> Decimal:
    """USD by which the allowance that refuses would have to be raised at least, so that the nodes that it leaves out of
    the pool of *case* are bought: spent below the hold line unless they are for passing work, and their first paid unit
    below the stop line."""
    view = refusal.view
    price = case.pool.price_usd_per_hour or Decimal(0)
    missing = case.wanted.new_nodes - case.wanted.within_budget
    cost = unit_price(price, case.policy.billing) * missing
    needed = [((view.spent + view.reserved + cost) / view.stop_at).quantize(CENT, ROUND_CEILING)]
    if view.stage in (BudgetStage.HOLD, BudgetStage.STOP) and not refusal.passing:  # less must be spent than the line
        needed.append((view.spent / view.hold_at).quantize(CENT, ROUND_FLOOR) + CENT)
    return max(max(needed) - view.monthly, Decimal(0))


def _usd(usd: Decimal | None) -> str | None:
    return None if usd is None else amount(usd)


def _when(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
