"""Between rows and the core's values, field by field: what comes back equals what was put in."""

from collections.abc import Iterable, Mapping
from typing import Any

from receiver.adapters.store.prepared import Row
from receiver.core.model.actions import (
    Action,
    ActionKind,
    Because,
    Decision,
    Outcome,
    OutcomeKind,
    Reason,
    Verdict,
    Victim,
    VictimStage,
)
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Backoff, LateCount, Offer
from receiver.core.model.policy import Taint
from receiver.core.model.signals import Alert
from receiver.core.notices.grouping import group_of
from receiver.core.notices.sentences import Notice, Severity
from receiver.ports import StoredAction, StoredDecision, StoredNotice

Values = dict[str, Any]


def alert_values(alert: Alert) -> Values:
    """Columns of one alert."""
    return {
        "fingerprint": alert.fingerprint,
        "starts_at": alert.starts_at,
        "firing": alert.firing,
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
    }


def alert(row: Row) -> Alert:
    """One alert as it was delivered."""
    return Alert(
        fingerprint=row["fingerprint"],
        starts_at=row["starts_at"],
        firing=row["firing"],
        labels=row["labels"],
        annotations=row["annotations"],
        delivery=row["delivery"],
    )


def verdicts(decision: Decision) -> list[list[str]]:
    """The (rule, verdict) pairs as they are stored and compared."""
    return [list(pair) for pair in decision.verdicts]


def decision_values(decision: Decision) -> Values:
    """Columns of one decision."""
    return {
        "pool": decision.pool,
        "at": decision.at,
        "present": decision.present,
        "target": decision.target,
        "change": decision.change.value,
        "verdicts": verdicts(decision),
        "reasons": [
            {"rule": r.rule, "verdict": r.verdict.value, "target": r.target, "detail": r.detail}
            for r in decision.reasons
        ],
        "evidence": dict(decision.evidence),
        "candidates": list(decision.candidates),
        "evicted": list(decision.evicted),
        "reconsider_at": decision.reconsider_at,
    }


def decision(row: Row) -> StoredDecision:
    """One decision with its number."""
    reasons = (Reason(**{**r, "verdict": Verdict(r["verdict"])}) for r in row["reasons"])
    return StoredDecision(
        id=row["id"],
        decision=Decision(
            pool=row["pool"],
            at=row["at"],
            present=row["present"],
            target=row["target"],
            reasons=tuple(reasons),
            candidates=tuple(row["candidates"]),
            evicted=tuple(row["evicted"]),
            evidence=row["evidence"],
            reconsider_at=row["reconsider_at"],
        ),
    )


def progress_values(action: Action) -> Values:
    """The columns of an action that change while it is open."""
    return {
        "victims": [_victim_values(v) for v in action.victims],
        "from_count": action.from_count,
        "to_count": action.to_count,
        "attempts": action.attempts,
        "retry_at": action.retry_at,
        "last_error": action.last_error,
    }


def action_values(action: Action) -> Values:
    """Columns of an action just opened."""
    return {
        "id": action.id,
        "pool": action.pool,
        "kind": action.kind.value,
        "opened_at": action.opened_at,
        "decision": action.decision,
        "reserved_usd": action.reserved_usd,
        **progress_values(action),
    }


def _victim_values(victim: Victim) -> Values:
    """One victim. Fields that older versions do not know are left out where they are empty: those versions read it."""
    newer = {"why": victim.why, "asked_at": victim.asked_at}
    return {
        "instance": victim.instance,
        "node": victim.node,
        "because": victim.because.value,
        "stage": victim.stage.value,
        "since": victim.since,
        "refused": victim.refused,
        **{name: value for name, value in newer.items() if value},
    }


def victim(values: Mapping[str, Any]) -> Victim:
    """One victim. One that was stored without a reason was idle; fields of newer versions are ignored."""
    known = {name: value for name, value in values.items() if name in Victim.__slots__}
    because = Because(values.get("because", Because.IDLE))
    return Victim(**{**known, "because": because, "stage": VictimStage(values["stage"])})


def action(row: Row) -> StoredAction:
    """One action, and its outcome unless it is open."""
    outcome = None
    if row["closed_at"] is not None:
        outcome = Outcome(kind=OutcomeKind(row["outcome"]), at=row["closed_at"], detail=row["detail"])
    return StoredAction(
        action=Action(
            id=row["id"],
            pool=row["pool"],
            kind=ActionKind(row["kind"]),
            opened_at=row["opened_at"],
            from_count=row["from_count"],
            to_count=row["to_count"],
            victims=tuple(victim(v) for v in row["victims"]),
            decision=row["decision"],
            reserved_usd=row["reserved_usd"],
            attempts=row["attempts"],
            retry_at=row["retry_at"],
            last_error=row["last_error"],
        ),
        outcome=outcome,
    )


LIFE = tuple(NodeLife.__slots__)  # its fields are columns of the same names


def life_values(life: NodeLife) -> Values:
    """Columns of one node's life."""
    return {name: getattr(life, name) for name in LIFE}


def life_of(values: Iterable[Any]) -> NodeLife:
    """One node's life from the columns LIFE, in that order: a step reads the whole month's."""
    return NodeLife(**dict(zip(LIFE, values, strict=True)))


GROWTH, REMOVAL, PROVISIONING = "backoff", "removal_backoff", "provisioning"  # what their columns begin with
BACKOFF_OF = {ActionKind.GROW: GROWTH, ActionKind.RETIRE: REMOVAL}


def backoff_values(prefix: str, backoff: Backoff | None) -> Values:
    """Columns of one of a pool's back-offs; all empty for none."""
    return {
        f"{prefix}_failures": backoff.failures if backoff else None,
        f"{prefix}_until": backoff.until if backoff else None,
        f"{prefix}_reason": backoff.reason if backoff else None,
        f"{prefix}_instances": list(backoff.instances) if backoff else None,
    }


def backoff(row: Row, prefix: str) -> Backoff | None:
    """One of a pool's back-offs, if it has it."""
    if row[f"{prefix}_until"] is None:
        return None
    return Backoff(
        failures=row[f"{prefix}_failures"],
        until=row[f"{prefix}_until"],
        reason=row[f"{prefix}_reason"],
        instances=tuple(row[f"{prefix}_instances"] or ()),
    )


def late_values(late: LateCount | None) -> Values:
    """Columns of a pool's late count; all empty for none."""
    return {
        "late_expected": late.expected if late else None,
        "late_shown": late.shown if late else None,
        "late_since": late.since if late else None,
    }


def late(row: Row) -> LateCount | None:
    """A pool's late count, if it has one."""
    if row["late_since"] is None:
        return None
    return LateCount(expected=row["late_expected"], shown=row["late_shown"], since=row["late_since"])


def offer_values(offer: Offer) -> Values:
    """The column of what a pool's newest usable node showed."""
    taints = [[t.key, t.value, t.effect] for t in offer.taints]
    said = {"node": offer.node, "at": offer.at, "configured": offer.configured, "taints": taints}
    return {"offer": {**said, "allocatable": dict(offer.allocatable), "labels": dict(offer.labels)}}


def offer(row: Row) -> Offer | None:
    """What a pool's newest usable node showed, if one was seen."""
    said = row["offer"]
    if said is None:
        return None
    taints = tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in said["taints"])
    return Offer(**{**said, "taints": taints})


def notice_values(notice: Notice) -> Values:
    """Columns of one notice."""
    return {
        "topic": notice.topic,
        "key": notice.key,
        "title": notice.title,
        "body": notice.body,
        "severity": notice.severity.value,
        "pool": notice.pool,
        "decision": notice.decision,
        "all_clear": notice.all_clear,
        "cause": notice.cause,
        "guide": notice.guide,
        "question": notice.question,
        "grouped": group_of(notice),
    }


def notice(row: Row) -> StoredNotice:
    """One notice of the outbox."""
    return StoredNotice(
        id=row["id"],
        notice=Notice(
            topic=row["topic"],
            key=row["key"],
            title=row["title"],
            body=row["body"],
            severity=Severity(row["severity"]),
            pool=row["pool"],
            decision=row["decision"],
            all_clear=row["all_clear"],
            cause=row["cause"],
            guide=row["guide"],
            question=row["question"],
        ),
        attempts=row["attempts"],
        created_at=row["created_at"],
    )
