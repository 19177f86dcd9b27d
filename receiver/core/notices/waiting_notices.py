"""What is said of work that gets no node: no pool can hold it, or a rule holds it that a person could change."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from receiver.core.explain.because import SPEAKS_UP
from receiver.core.explain.rules import RULES, guide, plainly, remedies
from receiver.core.model.actions import Decision, Reason
from receiver.core.model.model import Facts
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Policy
from receiver.core.model.text import some
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity
from receiver.core.scaling.assign import Assignment, Misfit, Wanted


def misfit_groups(misfits: Sequence[Misfit]) -> list[list[Misfit]]:
    """Group what no pool can hold by owner and reason: one Job of many pods is one piece of news."""
    groups: dict[tuple[str, str, str], list[Misfit]] = {}
    for found in misfits:
        pod = found.workload.pods[0]
        key = (pod.namespace, pod.owner or pod.name, _reason(found))
        groups.setdefault(key, []).append(found)
    return list(groups.values())


def digest(text: str) -> str:
    """A short fingerprint of *text*, to tell reasons of one owner apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def misfit(group: Sequence[Misfit], policy: Policy) -> Notice:
    """The notice for work of one owner that no pool can ever hold; told once per owner, reason and oldest pod."""
    first = min(group, key=lambda m: (m.workload.since, m.workload.key))
    pod = first.workload.pods[0]
    more = f" and {len(group) - 1} more of {pod.owner or pod.namespace}" if len(group) > 1 else ""
    return Notice(
        cause=Cause.MISFIT,
        topic=f"misfit:{pod.namespace}/{pod.owner or pod.name}:{digest(_reason(first))}",
        key=f"{first.workload.since.isoformat()}:{_reason(first)}",
        title=f"No GPU pool can hold {first.workload.key}{more}",
        body=wording.worded(
            why=_refusals(first.detail),
            whose=wording.whose(wording.asked_by([p for m in group for p in m.workload.pods], policy)),
            after="it waits until the pod is changed, or a pool offers this; nothing is bought for it",
            do=f"To see more: gpu-autoscaler explain pod {pod.key}",
        ),
        severity=Severity.WARNING,
    )


def held(decisions: Mapping[str, Decision], assignment: Assignment, facts: Facts, policy: Policy) -> Iterable[Notice]:
    """Notices of work that waits because a rule holds it that a person could change; told once per rule and day."""
    for pool in policy.pools:
        decision, wanted = decisions[pool.id], assignment.pools[pool.id]
        spoke = [r for r in decision.reasons if _told(r)]
        reason = next(iter(spoke + [r for r in decision.reasons if r.rule == "gangs_whole"]), None)
        waiting = wanted.asking or _held_back(wanted, facts)
        if reason is None or not waiting:
            continue
        asking = wording.asked_by([p for w in waiting for p in w.pods], policy)
        more = (
            f"grows to {some(decision.target, 'node')} only" if decision.target > decision.present else "does not grow"
        )
        yield Notice(
            cause=Cause.HELD,
            topic=f"held:{pool.id}:{reason.rule}",  # a topic of its own: rules that take turns are no news
            key=f"{decision.at:%Y-%m-%d}",
            title=f"GPU pool {pool.name} {more}: {plainly(reason.rule)}",
            body=wording.worded(
                why=_why(reason, wanted),
                whose=wording.whose(asking),
                cost=wording.costs(pool, assignment.budgets, decision.target, teams=wording.teams_asking(asking)),
                after=_until(reason, decision),
            ),
            severity=Severity.WARNING,
            pool=pool.id,
            guide=guide(reason.rule),
        )


def _reason(found: Misfit) -> str:
    """Why no pool holds it, without its own name: the same for every pod of an owner."""
    return found.detail.replace(found.workload.key, "")


def _refusals(detail: str) -> str:
    """What each pool refuses, without the sentence that the title is already."""
    return detail.partition(". ")[2] or detail


def _held_back(wanted: Wanted, facts: Facts) -> tuple[Workload, ...]:
    """The workloads that got no room, as their pods show them."""
    keys = [held.workload for held in wanted.held]
    pods = {key: tuple(p for p in facts.waiting if key in (p.key, p.gang)) for key in dict.fromkeys(keys)}
    return tuple(Workload(key=key, pods=found) for key, found in pods.items() if found)


def _told(reason: Reason) -> bool:
    """True for a hold that a person may want to act on; cooldowns and back-offs end by themselves."""
    return reason.verdict in SPEAKS_UP and reason.rule in RULES and RULES[reason.rule].told


def _why(reason: Reason, wanted: Wanted) -> str:
    """Why it is held, with the rule that a gang met in words."""
    met = next((held.met for held in wanted.held if held.met and held.detail == reason.detail), None)
    if met is None:
        return reason.detail
    needs = reason.detail.partition(f", and {met} leaves fewer")[0]
    return f"{needs}; fewer are left, because {plainly(met)}"


def _until(reason: Reason, decision: Decision) -> str:
    """What would let it grow: what a person can do, and what comes by itself."""
    if reason.rule == "gangs_whole":
        return "it waits until there is room for all of them at once"
    helps = [remedy.text for remedy in remedies(decision) if remedy.rule == reason.rule]
    ways = dict.fromkeys([*helps[:1], *helps[-1:]])
    return f"it waits. What would change that: {'; or '.join(ways)}" if ways else "it waits"
