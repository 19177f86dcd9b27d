"""`gpu-autoscaler replay --decision ID`: repeats a stored decision with this version, or under another policy."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from receiver import installed_version
from receiver.adapters.http.own_api import NotThereError
from receiver.adapters.store.decisions import read_grounds
from receiver.capabilities.bundles.comparison import (
    APPEARED,
    CHANGED,
    FIELDS,
    SAME,
    VANISHED,
    Said,
    compared,
    ruled,
    said,
)
from receiver.config import ConfigError, load_file
from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import Decision
from receiver.core.model.policy import Policy
from receiver.core.model.pool_facts import PoolFacts
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.ports import Grounds, GroundsKept, WontWork
from receiver.reports.screen import aligned
from receiver.step.parts import Additions
from receiver.terminal.client import UNUSABLE, present_command, print_lines, server, show, tell_problem

DIFFERS = 1  # exit status
SIGNS = {SAME: " ", APPEARED: "+", VANISHED: "-"}


def made_again(made_from: Grounds, pool: str, additions: Additions) -> Decision:
    """Return this version's decision about the pool with that id. Raises KeyError for a pool that is in neither the
    policy nor the facts. Capabilities add *additions*."""
    facts, policy = made_from.facts, made_from.policy
    assignment = assign(facts, policy, sources=additions.sources, guardrails=additions.guardrails)
    return decide_all(facts, assignment, policy, explained_by=with_grounds)[pool]


def as_then(then: Said, additions: Additions) -> Additions:
    """Return those of *additions* that the decision *then* was made with, by its mode."""
    return additions.unattended if then.get("mode") == "observe" else additions


def read(grounds: Said) -> Grounds:
    """Return the inputs in *grounds*, as GET /api/v1/decisions/ID/grounds gives them. Raises WontWork."""
    return read_grounds(GroundsKept(format=int(grounds["format"]), facts=grounds["facts"], policy=grounds["policy"]))


def decide_again(number: str, config: Path | None, additions: Additions, *, as_json: bool) -> int:
    """Read decision *number* and its facts from the server, decide again, under *config* if given, and print both.
    Return 0 when they are the same and 1 when they differ. Exits with 2 when the decision or its facts are not stored,
    and with 3 when the server cannot be reached."""
    with server(as_json=as_json) as api:
        try:
            then = api.get("decisions", number).document
            grounds = api.get("decisions", number, "grounds").document
        except NotThereError as error:
            tell_problem(error, as_json=as_json)
            sys.exit(UNUSABLE)
    return _compare(then, grounds, config, additions, as_json=as_json)


def replay_bundle(path: Path, additions: Additions, *, as_json: bool) -> int:
    """Decide again what the bundle at *path* holds, and print both. Return 0 when they are the same and 1 when they
    differ. Exits with 2 for a file that cannot be used."""
    from receiver.capabilities.bundles.bundle import read_bundle

    again = "what to do: write it with gpu-autoscaler explain decision ID --bundle FILE"
    try:
        then, grounds = read_bundle(path)
        return _compare(then, grounds, None, additions, as_json=as_json)
    except WontWork as error:
        _refuse(str(error), again)
    except (KeyError, TypeError, ValueError) as error:  # without it, status 1 would say that the decisions differ
        _refuse(f"{path}: is a damaged bundle ({type(error).__name__}: {error})", again)


def _compare(then: Said, grounds: Said, config: Path | None, additions: Additions, *, as_json: bool) -> int:
    try:
        made_from = read(grounds)
    except WontWork as error:
        _refuse(str(error), f"what to do: see gpu-autoscaler explain decision {then['id']}")
    if config is not None:
        made_from = replace(made_from, policy=_policy(config, then, made_from))
    now = said(made_again(made_from, str(then["pool"]), as_then(then, additions)))
    differs = compared(then, now)
    document = {
        "decision": then["id"],
        "pool": then["pool"],
        "at": then["at"],
        "policy": str(config) if config is not None else None,
        "same": not differs,
        "then": {"version": then.get("version"), **{name: then[name] for name in (*FIELDS, "reasons")}},
        "now": {"version": installed_version(), **now},
        "differs": differs,
    }
    show(as_json, document, _lines(then, now, differs, config))
    return DIFFERS if differs else 0


def _policy(path: Path, then: Said, made_from: Grounds) -> Policy:
    """Return the policy in a file. Exits with 2 where it has pools that the decision did not know."""
    try:
        policy = load_file(path, facts=PoolFacts.of(made_from.policy.pools)).policy
    except ConfigError as error:
        mistakes = [f"{path}: {mistake}" for mistake in error.mistakes]
        _refuse(*mistakes, f"to check again: gpu-autoscaler check-config {path}")
    decision_pools = {state.pool for state in made_from.facts.pools}
    unknown = [pool.name for pool in policy.pools if pool.id not in decision_pools]
    if unknown:
        problem = f"{path}: decision {then['id']} has no facts about pool {', '.join(unknown)}"
        _refuse(problem, f"what to do: leave it out of {path} and run {present_command()} again")
    if then["pool"] not in {pool.id for pool in policy.pools}:
        problem = f"{path}: has no pool with the id {then['pool']} of decision {then['id']}"
        _refuse(problem, f"what to do: add it to {path} and run {present_command()} again")
    return policy


def _refuse(*lines: str) -> NoReturn:
    print_lines(lines, err=True)
    sys.exit(UNUSABLE)


def _lines(then: Said, now: Said, differs: Said, config: Path | None) -> Iterator[str]:
    yield f"decision {then['id']} of GPU pool {then['pool_name']} ({then['pool']}), made at {then['at']}"
    policy = "the stored policy" if config is None else str(config)
    yield f"then: version {then.get('version') or 'unknown'}; now: version {installed_version()}, under {policy}"
    yield "same decision" if not differs else f"differs: {', '.join(FIELDS.get(d, d) for d in differs)}"
    yield ""
    rows = [(title, _shown(then[name]), _shown(now[name])) for name, title in FIELDS.items()]
    yield from aligned([("", "then", "now"), *rows])
    yield ""
    yield "rules in the order of now (+ appeared, - vanished, ~ changed):"
    for rule in ruled(then["reasons"], now["reasons"]):
        if rule.what == CHANGED:
            yield f"~ {_reason(rule.then)}"
            yield f"  now: {_reason(rule.now)}"
        else:
            yield f"{SIGNS[rule.what]} {_reason(rule.now or rule.then)}"


def _reason(reason: Said | None) -> str:
    fields = reason or {}
    return f"{fields.get('rule')} {fields.get('verdict')} {fields.get('target')}: {fields.get('detail')}"


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else "none" if value is None else str(value)
