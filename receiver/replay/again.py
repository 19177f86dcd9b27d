"""A stored decision made again: by this version of the program, from what was known then, and what would differ."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from receiver.core.model.actions import Decision
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.ports import Grounds

Said = Mapping[str, Any]  # a decision, or one of its reasons, as GET /api/v1/decisions/ID shows it
Key = tuple[str, int]  # a rule, and the how manieth time it speaks

SAME, CHANGED, APPEARED, VANISHED = "same", "changed", "appeared", "vanished"
FIELDS = ("from", "to", "verdict", "candidates", "evicted", "reconsider_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """What a rule said *then* and says *now*, None where it does not speak; *what* is one of the four words above."""

    what: str
    then: Said | None
    now: Said | None


def made_again(made_from: Grounds, pool: str) -> Decision:
    """Return what this version decides about the pool with that id. Raises KeyError for a pool that is in neither the
    policy nor the facts."""
    facts, policy = made_from.facts, made_from.policy
    return decide_all(facts, assign(facts, policy), policy)[pool]


def said(decision: Decision) -> dict[str, Any]:
    """Return the parts of *decision* that are compared, as JSON-able values."""
    again = decision.reconsider_at
    return {
        "from": decision.present,
        "to": decision.target,
        "verdict": decision.change.value,
        "candidates": list(decision.candidates),
        "evicted": list(decision.evicted),
        "reconsider_at": again.isoformat().replace("+00:00", "Z") if again is not None else None,
        "reasons": [
            {"rule": r.rule, "verdict": r.verdict.value, "target": r.target, "detail": r.detail}
            for r in decision.reasons
        ],
    }


def compared(then: Said, now: Said) -> dict[str, Any]:
    """Return what differs between two decisions: fields as ``[then, now]``, and the rules that do not say the same."""
    found: dict[str, Any] = {name: [then[name], now[name]] for name in FIELDS if then[name] != now[name]}
    for what in (APPEARED, VANISHED, CHANGED):
        rules = [rule for rule in ruled(then["reasons"], now["reasons"]) if rule.what == what]
        if rules:
            found[what] = [_both(rule) if what == CHANGED else rule.now or rule.then for rule in rules]
    if _order(then) != _order(now) and not {APPEARED, VANISHED} & found.keys():
        found["order"] = [_order(then), _order(now)]
    return found


def ruled(then: Sequence[Said], now: Sequence[Said]) -> Iterator[RuleChange]:
    """Pair the reasons of two decisions by rule, in the order of today, those that vanished last."""
    before, after = dict(_numbered(then)), dict(_numbered(now))
    for key, reason in after.items():
        was = before.get(key)
        what = APPEARED if was is None else SAME if dict(was) == dict(reason) else CHANGED
        yield RuleChange(what=what, then=was, now=reason)
    for key, reason in before.items():
        if key not in after:
            yield RuleChange(what=VANISHED, then=reason, now=None)


def _numbered(reasons: Iterable[Said]) -> Iterator[tuple[Key, Said]]:
    times: Counter[str] = Counter()
    for reason in reasons:
        rule = str(reason["rule"])
        times[rule] += 1
        yield (rule, times[rule]), reason


def _order(decision: Said) -> list[str]:
    return [str(reason["rule"]) for reason in decision["reasons"]]


def _both(rule: RuleChange) -> dict[str, Said | None]:
    return {"then": rule.then, "now": rule.now}
