"""`gpu-autoscaler replay --decision ID`: repeats a stored decision with this version, or under another policy."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from receiver.adapters.http.own_api import NotThereError, ServerApi
from receiver.adapters.store.decisions import read_grounds
from receiver.cli.client import UNUSABLE, print_json, print_lines, server, tell_problem
from receiver.config import ConfigError, load_file
from receiver.config.environment import installed_version
from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import Decision
from receiver.core.model.policy import Policy
from receiver.core.scaling.approval import without_approvals
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.ports import Grounds, GroundsKept, WontWork
from receiver.reports.screen import aligned

Said = Mapping[str, Any]  # a decision, or one of its reasons, as in GET /api/v1/decisions/ID
Key = tuple[str, int]  # a rule, and the number of its reason

SAME, CHANGED, APPEARED, VANISHED = "same", "changed", "appeared", "vanished"
FIELDS = ("from", "to", "verdict", "candidates", "evicted", "reconsider_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """A rule's reasons *then* and *now*, None where it gave none; *what* is one of the four words above."""

    what: str
    then: Said | None
    now: Said | None


def made_again(made_from: Grounds, pool: str) -> Decision:
    """Return this version's decision about the pool with that id. Raises KeyError for a pool that is in neither the
    policy nor the facts."""
    facts, policy = made_from.facts, made_from.policy
    return decide_all(facts, assign(facts, policy), policy, explained_by=with_grounds)[pool]


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
            {"rule": r.rule, "verdict": r.verdict.value, "target": r.target, "detail": r.detail}
            for r in decision.reasons
        ],
    }


def compared(then: Said, now: Said) -> dict[str, Any]:
    """Return the differences of two decisions: fields as ``[then, now]``, and rules with other reasons."""
    found: dict[str, Any] = {name: [then[name], now[name]] for name in FIELDS if then[name] != now[name]}
    for what in (APPEARED, VANISHED, CHANGED):
        rules = [rule for rule in ruled(then["reasons"], now["reasons"]) if rule.what == what]
        if rules:
            found[what] = [_both(rule) if what == CHANGED else rule.now or rule.then for rule in rules]
    if _order(then) != _order(now) and not {APPEARED, VANISHED} & found.keys():
        found["order"] = [_order(then), _order(now)]
    return found


def ruled(then: Sequence[Said], now: Sequence[Said]) -> Iterator[RuleChange]:
    """Pair the reasons of two decisions by rule, in the order of now, those that vanished last."""
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


DIFFERS = 1
WORDS = {
    "from": "nodes then",
    "to": "nodes wanted",
    "verdict": "verdict",
    "candidates": "removable, soonest first",
    "evicted": "evicted of these",
    "reconsider_at": "next look at",
}


def decide_again(number: str, config: Path | None, *, as_json: bool) -> int:
    """Read decision *number* and its facts from the server, decide again, under *config* if given, and print both.
    Return 0 when they are the same and 1 when they differ. Exits with 2 when the decision or its facts are not stored,
    and with 3 when the server cannot be reached."""
    with server(as_json=as_json) as api:
        try:
            then, kept = _asked(api, number)
        except NotThereError as error:
            tell_problem(error, as_json=as_json)
            sys.exit(UNUSABLE)
    try:
        made_from = read_grounds(kept)
    except WontWork as error:
        _refuse(str(error))
    if config is not None:
        made_from = replace(made_from, policy=_policy(config, then, made_from))
    now = said(made_again(made_from, str(then["pool"])))
    differs = compared(then, now)
    if as_json:
        print_json(_document(then, now, differs, config))
    else:
        print_lines(_lines(then, now, differs, config))
    return DIFFERS if differs else 0


def _asked(api: ServerApi, number: str) -> tuple[Mapping[str, Any], GroundsKept]:
    then = api.get("decisions", number).document
    kept = api.get("decisions", number, "grounds").document
    return then, GroundsKept(format=int(kept["format"]), facts=kept["facts"], policy=kept["policy"])


def _policy(path: Path, then: Mapping[str, Any], made_from: Grounds) -> Policy:
    """Return the policy in a file. Exits with 2 where it has pools that the decision did not know."""
    try:
        policy = load_file(path).policy
    except ConfigError as error:
        _refuse(*(f"{path}: {mistake}" for mistake in error.mistakes))
    known = {state.pool for state in made_from.facts.pools}
    unknown = [pool.name for pool in policy.pools if pool.id not in known]
    if unknown:
        _refuse(f"{path}: decision {then['id']} has no facts about pool {', '.join(unknown)}")
    if then["pool"] not in {pool.id for pool in policy.pools}:
        _refuse(f"{path}: has no pool with the id {then['pool']} of decision {then['id']}")
    return without_approvals(policy) if then.get("mode") == "observe" else policy


def _refuse(*lines: str) -> NoReturn:
    print_lines(lines, err=True)
    sys.exit(UNUSABLE)


def _document(
    then: Mapping[str, Any], now: Mapping[str, Any], differs: Mapping[str, Any], config: Path | None
) -> dict[str, Any]:
    parts = (*FIELDS, "reasons")
    return {
        "decision": then["id"],
        "pool": then["pool"],
        "at": then["at"],
        "policy": str(config) if config is not None else None,
        "same": not differs,
        "then": {"version": then.get("version"), **{name: then[name] for name in parts}},
        "now": {"version": installed_version(), **{name: now[name] for name in parts}},
        "differs": dict(differs),
    }


def _lines(
    then: Mapping[str, Any], now: Mapping[str, Any], differs: Mapping[str, Any], config: Path | None
) -> Iterator[str]:
    yield f"decision {then['id']} of GPU pool {then['pool_name']} ({then['pool']}), made at {then['at']}"
    policy = "the stored policy" if config is None else str(config)
    yield f"then: version {then.get('version') or 'unknown'}; now: version {installed_version()}, under {policy}"
    yield "same decision" if not differs else f"differs: {', '.join(WORDS.get(d, d) for d in differs)}"
    yield ""
    yield from aligned(
        [("", "then", "now"), *((WORDS[name], _shown(then[name]), _shown(now[name])) for name in FIELDS)]
    )
    yield ""
    yield "rules in the order of now (+ appeared, - vanished, ~ changed):"
    signs = {APPEARED: "+", VANISHED: "-", CHANGED: "~"}
    for rule in ruled(then["reasons"], now["reasons"]):
        if rule.what == CHANGED and rule.then is not None and rule.now is not None:
            yield f"~ {_reason(rule.then)}"
            yield f"  now: {_reason(rule.now)}"
        else:
            yield f"{signs.get(rule.what, ' ')} {_reason(rule.now or rule.then or {})}"


def _reason(reason: Mapping[str, Any]) -> str:
    return f"{reason.get('rule')} {reason.get('verdict')} {reason.get('target')}: {reason.get('detail')}"


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else "none" if value is None else str(value)
