"""Announce window evictions to people and pods, and take the announcement back when it no longer holds.

The announcement is stored, and the grace period counts from it: without an announcement nothing is evicted.
"""

from datetime import datetime, timedelta

from receiver.core.model.actions import Because
from receiver.core.model.model import Source
from receiver.core.model.policy import Policy
from receiver.core.model.windows import is_open
from receiver.core.notices import workload_notices
from receiver.core.scaling.bounds import TOPIC, evicts
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.guardrails import Case
from receiver.ports import StepStore
from receiver.step.chores.notify import record_events
from receiver.step.parts import StepContext

ACTIONS_READ = 100  # of a pool while a window is open; a failed one is not repeated within five minutes
EVENTS_PER_POOL = 50  # pods told by a Kubernetes Event
SECOND = timedelta(seconds=1)  # Kubernetes cuts moments to it


def announce_window_evictions(work: StepContext, *, steady: bool) -> None:
    """Send the announcements that are due, pool by pool; pods that were not announced are not evicted.

    Unless the clock is *steady* nothing is announced and earlier announcements are taken back: how much of a grace
    period has passed is unknown.
    """
    if steady and work.facts.up(Source.CIVO) and work.facts.up(Source.KUBERNETES):
        _tell(work)
    else:
        _take_back(work, steady=steady)


def _take_back(work: StepContext, *, steady: bool) -> None:
    """Take back the announcements that no longer hold whatever the nodes show."""
    told = told_before(work.store, work.mode)
    for case in _cases(work) if told else ():
        for notice in (
            workload_notices.evictions_overruled(case, told)
            if steady
            else workload_notices.evictions_doubted(case, told)
        ):
            work.store.say(notice, work.now)


def _tell(work: StepContext) -> None:
    told = work.facts.told_to_go
    for notice in workload_notices.windows_gone(told, work.policy):
        work.store.say(notice, work.now)
    cases = _cases(work)
    for case in cases:
        for said in workload_notices.evictions_due(case, told, work.mode):
            if said.notice is not None and work.store.say(said.notice, work.now):
                record_events(work, said.pods[:EVENTS_PER_POOL], "WindowEviction", said.event)
        if work.before is not None and work.mode == "act":
            for late in workload_notices.evictions_of_latecomers(case, work.before.at - SECOND):
                record_events(work, late.pods[:EVENTS_PER_POOL], "WindowEviction", late.event)


def _cases(work: StepContext) -> list[Case]:
    """The pools with a window that evicts."""
    pools = [pool for pool in work.policy.pools if any(evicts(window, pool) for window in pool.windows)]
    return [case_of(work.facts.pool(p.id), work.assignment.pools[p.id], work.facts, work.policy) for p in pools]


def told_before(store: StepStore, mode: str) -> dict[str, datetime]:
    """When the current grace periods were announced, by the topics of their notices."""
    return dict(workload_notices.told_to_go(store.told(TOPIC), mode))


def not_emptied_before(store: StepStore, policy: Policy, now: datetime) -> dict[str, datetime]:
    """When an open window gave up emptying each node, by instance id, from the pools' actions."""
    pools = [p for p in policy.pools if any(evicts(w, p) and is_open(w, now) for w in p.windows)]
    victims = (v for p in pools for a in store.actions(pool=p.id, limit=ACTIONS_READ) for v in a.action.victims)
    refused = [v for v in victims if v.refused and v.because is Because.EVICTED and v.since and v.since <= now]
    return {v.instance: v.since for v in reversed(refused) if v.since}
