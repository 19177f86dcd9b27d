"""Two decisions about the same pool compared, in the form that the API gives them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from receiver.core.model.actions import Decision

Said = Mapping[str, Any]  # a decision, or one of its reasons, as in GET /api/v1/decisions/ID

SAME, CHANGED, APPEARED, VANISHED = "same", "changed", "appeared", "vanished"
# The compared fields, and their titles.
FIELDS = {
    "from": "nodes then",
    "to": "nodes wanted",
    "verdict": "verdict",
    "candidates": "removable, soonest first",
    "evicted": "pods evicted from",
    "reconsider_at": "can change by itself at",
}

OF_REASONS = ("rule", "verdict", "target", "detail")  # the compared fields of a reason: its cause follows from them


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """A rule's reasons *then* and *now*, None where it gave none; *what* is one of the four words above."""

    what: str
    then: Said | None
    now: Said | None


def said(decision: Decision) -> dict[str, Any]:
    """Return the compared parts of *decision* as JSON."""
    again = decision.reconsider_at
    return {
        "from": decision.present,
        "to": decision.target,
        "verdict": decision.change.value,
        "candidates": list(decision.candidates),
        "evicted": list(decision.evicted),
        "reconsider_at": again.isoformat().replace("+00:00", "Z") if again is not None else None,
        "reasons": [
            {"rule": r.rule, "verdict": r.verdict.value, "target": r.target, "detail": r.detail, "cause": r.cause}
            for r in decision.reasons
        ],
    }


def compared(then: Said, now: Said) -> dict[str, Any]:
    """Return the differences of two decisions: fields as ``[then, now]``, and rules with other reasons."""
    differences: dict[str, Any] = {name: [then[name], now[name]] for name in FIELDS if then[name] != now[name]}
    rules = list(ruled(then["reasons"], now["reasons"]))
    for kind in (APPEARED, VANISHED, CHANGED):
        if changes := [rule for rule in rules if rule.what == kind]:
            differences[kind] = [
                {"then": r.then, "now": r.now} if kind == CHANGED else r.now or r.then for r in changes
            ]
    order = [[str(reason["rule"]) for reason in decision["reasons"]] for decision in (then, now)]
    if order[0] != order[1] and not {APPEARED, VANISHED} & differences.keys():
        differences["order"] = order
    return differences


def ruled(then: Sequence[Said], now: Sequence[Said]) -> Iterator[RuleChange]:
    """Pair the reasons of two decisions by rule, in the order of now, those that vanished last."""
    before, after = _numbered(then), _numbered(now)
    for key, reason in after.items():
        was = before.get(key)
        same = was is not None and all(was.get(name) == reason.get(name) for name in OF_REASONS)
        kind = APPEARED if was is None else SAME if same else CHANGED
        yield RuleChange(what=kind, then=was, now=reason)
    for key, reason in before.items():
        if key not in after:
            yield RuleChange(what=VANISHED, then=reason, now=None)


def _numbered(reasons: Iterable[Said]) -> dict[tuple[str, int], Said]:
    """Return *reasons* by rule, and by their number among those of that rule."""
    times: Counter[str] = Counter()
    by_number = {}
    for reason in reasons:
        rule = str(reason["rule"])
        times[rule] += 1
        by_number[rule, times[rule]] = reason
    return by_number
