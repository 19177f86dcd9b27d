"""What a decision rests on, as JSON-able values that are stored with it: a week later nothing else explains it.
Lists are capped (``left_out`` counts what was cut); times are ISO 8601 in UTC, money is USD as text, ages seconds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from receiver.core.explain.rules import called, names_of, remedies, why, with_sentences
from receiver.core.model.actions import Decision, Reason, Verdict
from receiver.core.model.model import Node, Source, SourceState
from receiver.core.model.overrides import Question
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Policy
from receiver.core.model.windows import next_change
from receiver.core.money.budget import BudgetView, Refusal, month_of, team_of
from receiver.core.money.cost import amount, stated
from receiver.core.scaling.capacity import RULES as COUNTING
from receiver.core.scaling.guardrails import with_added
from receiver.core.scaling.guardrails.limits import lacking
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.waits import stuck_on_the_way, waits

WORKLOADS, SIGNALS, NODES, DELIVERIES, QUESTIONS = 20, 20, 50, 20, 20  # how many of each are kept


def with_grounds(decision: Decision, case: Case) -> Decision:
    """Return *decision* with what it rests on, the sentences of its reasons and what would change it: they are shown as
    they were, whatever a later version would say."""
    reasons = with_sentences(decision.reasons, case)
    decision = replace(decision, reasons=reasons, evidence=evidence_of(case, reasons))
    explanation = {"because": why(decision), "what_would_change": remedies(decision, case)}
    return replace(decision, evidence={**decision.evidence, **explanation})


def evidence_of(case: Case, reasons: Sequence[Reason]) -> dict[str, Any]:
    """Return what is known of *case*, whose decision has *reasons*."""
    wanted, state, pool, bounds = case.wanted, case.state, case.pool, case.wanted.bounds
    at = case.facts.at
    questions = [q for q in case.facts.instructions.questions if q.pool == pool.id and at < q.expires_at]
    lists: dict[str, tuple[Sequence[Any], int]] = {
        "woken_by": (case.facts.deliveries, DELIVERIES),
        "asking": (wanted.work.asking, WORKLOADS),
        "signals": (case.signals, SIGNALS),
        "nodes": (state.nodes, NODES),
    }
    excerpts = {name: entries[:most] for name, (entries, most) in lists.items()}
    cut = {name: len(entries) - most for name, (entries, most) in lists.items() if len(entries) > most}
    return {
        "pool": _fields(
            pool,
            "name size price_usd_per_hour gpus_per_node max_nodes min_nodes standby_nodes",
            idle_for_seconds=pool.idle_for.total_seconds(),
            provision_timeout_seconds=pool.provision_timeout.total_seconds(),
        ),
        "woken_by": list(excerpts["woken_by"]),
        "counted_by": "kubernetes" if case.up(Source.KUBERNETES) else "kube-state-metrics",
        "activity": "gpu activity" if case.up(Source.DCGM) else "pod counts",
        "utilization": state.utilization,
        "waiting_gpus": wanted.work.gpus,
        "asking": [w.key for w in excerpts["asking"]],
        "asking_since": min((w.since for w in wanted.work.asking), default=case.now).isoformat(),
        "workloads": [_workload(w, case.policy) for w in excerpts["asking"]],
        "bounds": _fields(
            bounds,
            "min_nodes max_nodes standby_nodes",
            windows=list(bounds.names),
            why_least=bounds.why_least,
            why_most=bounds.why_most,
            next_change_at=_plain(next_change(pool.windows, case.now) if pool.windows else None),
        ),
        "overrides": [
            _fields(o, "id kind nodes who why until", every_pool=o.pool is None) for o in bounds.overrides.all
        ],
        "questions": [_question(q) for q in questions[-QUESTIONS:]],
        "silence": _fields(state.silence, "id by comment until", said=str(state.silence)) if state.silence else None,
        "signals": [
            _fields(s, "alertname action fingerprint starts_at delivery", of_pool=s.pool is not None)
            for s in excerpts["signals"]
        ],
        "nodes": [
            _fields(n, "name instance stage idle_since created_at", note=n.note or None, gpu_pods=len(n.pods))
            for n in excerpts["nodes"]
        ],
        "sources": {s.source.value: _source(s, case.now) for s in case.facts.sources.values()},
        "budget": None if wanted.money.budget is None else _budget(wanted.money.budget),
        "uncovered": [_uncovered(refusal, case) for refusal in wanted.money.uncovered],
        "month_ends_at": month_of(case.now, case.policy.timezone).end.isoformat(),
        "limits": _fields(case.policy.limits, "max_gpus max_growth_per_hour max_removals_per_hour"),
        "waits": [_fields(w, "direction kind until reason") for w in waits(pool, state, case.policy, case.now)],
        "stuck": list(stuck_on_the_way(pool, state, case.now)),
        "open_action": _fields(state.open_action, "id kind opened_at last_error") if state.open_action else None,
        "behind": list(_behind(case, reasons)),
        "removals": {
            r.rule: _removal(r.because, r.detail)
            for r in reasons
            if r.verdict is Verdict.WANTS and isinstance(r.because, tuple)
        },
        "left_out": cut,
    }


def _fields(value: object, names: str, **extras: object) -> dict[str, Any]:
    """The attributes *names* of *value* as JSON-able values, and *extras*."""
    return {**{name: _plain(getattr(value, name)) for name in names.split()}, **extras}


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return amount(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _removal(nodes: Sequence[Node], sentence: str) -> dict[str, Any]:
    """The *nodes* that a reason removes, and why, by its *sentence*: a message may be about a part of them."""
    return {"nodes": {n.name: called(n) for n in nodes}, "why": sentence.removeprefix(names_of(nodes))}


def _behind(case: Case, reasons: Sequence[Reason]) -> Iterator[dict[str, str]]:
    """The guardrails that were not asked because one before them held, and that would have held too.

    The three that count nodes together build on each other and on the price: only the first that holds is named, and
    none behind one that makes them count nothing.
    """
    by_name = {guardrail.name: guardrail for guardrail in with_added(case.wanted.added)}
    place = next((n for n, r in enumerate(reasons) if n and r.rule in by_name and r.verdict is Verdict.HOLDS), None)
    if place is None:
        return
    target, uncounted = reasons[place - 1].target, by_name[reasons[place].rule].uncounted
    for reason in reasons[place + 1 :]:
        held = None if uncounted and reason.rule in COUNTING else by_name[reason.rule].check(target, case)
        if held is not None:
            uncounted = uncounted or by_name[reason.rule].uncounted
            objection = replace(reason, verdict=Verdict.HOLDS, because=held.because, until=held.until)
            [explained] = with_sentences([objection], case)
            yield {"rule": reason.rule, "detail": explained.detail, "cause": explained.cause}


def _question(question: Question) -> dict[str, Any]:
    return {
        "from": question.from_count,
        "to": question.to_count,
        **_fields(question, "id asks nodes asked_at wait_ends expires_at answer who"),
        "goes_unanswered_at": _plain(question.proceeds_at),
    }


def _workload(workload: Workload, policy: Policy) -> dict[str, Any]:
    """Who asks: *owner* is the first pod's controller, *team* its label; empty where it has none."""
    pod = workload.pods[0]
    return {
        "workload": workload.key,
        **_fields(pod, "owner priority_class", team=team_of(pod, policy), pods=len(workload.pods)),
        **_fields(workload, "gpus since priority"),
    }


def _source(state: SourceState, now: datetime) -> dict[str, Any]:
    age = (now - state.at).total_seconds() if state.at else None
    return _fields(state, "up at since detail configured", age_seconds=age)


def _budget(view: BudgetView) -> dict[str, Any]:
    return _fields(
        view,
        "title month stage warn_at hold_at stop_at",
        monthly_usd=stated(view.monthly),
        spent_usd=stated(view.spent),
        reserved_usd=stated(view.reserved),
        available_usd=stated(view.available),
    )


def _uncovered(refusal: Refusal, case: Case) -> dict[str, Any]:
    """A budget that did not cover a node; *raise_usd* is what it lacked at least, None where money is not the cause."""
    view = refusal.view
    unknown = bool(view.unknown or view.unpriced) or case.pool.price_usd_per_hour is None
    return {
        **_budget(view),
        **_fields(view, "unknown unpriced"),
        "raise_usd": None if unknown else stated(lacking(refusal, case)),
        "passing": refusal.passing,
    }
