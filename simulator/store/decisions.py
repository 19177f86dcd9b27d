"""Decisions in memory, with their inputs."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from receiver.adapters.store.decisions import FORMAT, LEAVES, decompressed, grounds_values
from receiver.core.model.actions import Change, Decision, Verdict
from receiver.core.report.report import RULES, Spoke
from receiver.ports import DecisionFilter, DecisionKind, Grounds, GroundsKept, StoredDecision
from receiver.ports.store import EVERY_DECISION
from receiver.reports.state import unseen
from simulator.store.forms import fresh, kept
from simulator.store.part import StorePart


class Decisions(StorePart):
    """Decisions by number, and each pool's last one."""

    def __init__(self) -> None:
        super().__init__()
        self.next_decision = 1  # its number; a test raises it where earlier ones were pruned
        self._decisions: dict[int, StoredDecision] = {}
        self._grounds: dict[int, Grounds] = {}
        self._last: dict[str, StoredDecision] = {}

    def decided(self, decision: Decision, made_from: Grounds | None = None) -> int:
        last = self._last.get(decision.pool)
        if last is not None and _said(last.decision) == _said(decision):
            return last.id
        self._writes()
        reasons = tuple(replace(reason, because=None, until=None) for reason in decision.reasons)
        number = self.next_decision
        stored = StoredDecision(id=number, decision=kept(replace(decision, reasons=reasons)))
        self.next_decision += 1
        self._add("decisions", decision.pool, decision.change.value)
        self._decisions[number] = self._last[decision.pool] = stored
        if made_from is not None:
            self._grounds[number] = made_from
        return number

    def decision(self, number: int) -> StoredDecision | None:
        self._reads()
        stored = self._decisions.get(number)
        return None if stored is None else _copy(stored)

    def decisions(self, only: DecisionFilter = EVERY_DECISION, *, limit: int = 50) -> Sequence[StoredDecision]:
        self._reads()
        found: list[StoredDecision] = []
        for stored in reversed(self._decisions.values()):
            if len(found) == limit:
                break
            if _passes(stored, only):
                found.append(_copy(stored))
        return tuple(found)

    def grounds(self, number: int) -> GroundsKept | None:
        self._reads()
        made_from = self._grounds.get(number)
        if made_from is None:
            return None
        values = {name: decompressed(body) for name, body in grounds_values(made_from).items()}
        return GroundsKept(format=FORMAT, facts=values["facts"], policy=values["policy"])

    def beside(self, stored: StoredDecision) -> tuple[int | None, int | None]:
        self._reads()
        numbers = [number for number, d in self._decisions.items() if d.decision.pool == stored.decision.pool]
        before = bisect_left(numbers, stored.id)
        after = bisect_left(numbers, stored.id + 1)
        return numbers[before - 1] if before else None, numbers[after] if after < len(numbers) else None

    def spoken(self, since: datetime, until: datetime) -> Sequence[Spoke]:
        self._reads()
        last = {d.decision.pool: d.id for d in self._decisions.values() if d.decision.at < since}
        found = [d for d in self._decisions.values() if since <= d.decision.at <= until or d.id in last.values()]
        found.sort(key=lambda d: (d.decision.at, d.id))
        return tuple(_spoke(d.decision) for d in found)


def _said(decision: Decision) -> tuple[object, ...]:
    """The part of *decision* that is compared with the pool's last one."""
    return decision.present, decision.target, decision.verdicts


def _copy(stored: StoredDecision) -> StoredDecision:
    return replace(stored, decision=replace(stored.decision, evidence=fresh(stored.decision.evidence)))


def _spoke(decision: Decision) -> Spoke:
    said = [r for r in decision.reasons if r.rule in RULES and r.verdict in LEAVES]
    budgets = frozenset(budget["title"] for budget in decision.evidence.get("uncovered", ())) if said else frozenset()
    detail = "; ".join(f"{r.rule}: {r.detail}" for r in said)
    return Spoke(pool=decision.pool, at=decision.at, detail=detail, budgets=budgets)


def _passes(stored: StoredDecision, only: DecisionFilter) -> bool:
    decision = stored.decision
    if only.pool is not None and decision.pool != only.pool:
        return False
    if only.rule is not None:
        verdicts = [said[1] for said in decision.verdicts if said[0] == only.rule]
        if not verdicts or Verdict.ALLOWS in verdicts:
            return False
    if only.kind is not None and not _is_kind(decision, only.kind):
        return False
    in_time = (only.since is None or decision.at >= only.since) and (only.until is None or decision.at < only.until)
    return in_time and (only.before is None or stored.id < only.before)


def _is_kind(decision: Decision, kind: DecisionKind) -> bool:
    if kind in (DecisionKind.GROW, DecisionKind.SHRINK):
        return decision.change.value == kind.value
    held = any(said[1] == Verdict.HOLDS or said[0] == "gangs_whole" for said in decision.verdicts)
    holds = held or unseen(decision.evidence)
    if kind is DecisionKind.NEWS:
        return decision.change is not Change.HOLD or holds
    return decision.change is Change.HOLD and holds is (kind is DecisionKind.BLOCKED)
