"""What is told of people's words and work that a window evicts, case by case."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import KeepUntil
from receiver.core.model.windows import Window
from receiver.core.notices import people_notices, workload_notices
from receiver.core.notices.notice import Notice
from receiver.core.notices.workload_notices import ignored_wishes
from receiver.core.scaling.assign import assign
from receiver.core.scaling.bounds import topic_of
from receiver.core.scaling.decide import case_of
from tests.core.builders import MINUTE, NOW, a_busy_node, an_override, with_fields
from tests.core.notices.scene import H100, L40S, NUMBER, POLICY, idle, known, pool_of
from tests.core.notices.scene import training as jobs

IDLE = ("l40s-2", "l40s-3")
NIGHT = Window(name="night", times=((11 * 60, 13 * 60),), max_nodes=1, evict_after=30 * MINUTE)
AT_NIGHT = replace(POLICY, pools=(replace(L40S, windows=(NIGHT,)), H100))


def word(kind: OverrideKind = OverrideKind.SNOOZE, **changes: Any) -> Override:
    """What ada said of the L40S pool until two o'clock."""
    given: dict[str, Any] = {
        "id": f"{kind}-l40s-7f3a91c2",
        "who": "ada",
        "why": "demo for a customer",
        "at": NOW,
        "until": NOW + timedelta(hours=2),
        "pool": L40S.id,
        "nodes": None if kind in (OverrideKind.PAUSE, OverrideKind.SNOOZE) else 4,
    }
    return an_override(kind, **{**given, **changes})


def serving(number: int) -> tuple[Pod, ...]:
    """A pod that its ReplicaSet starts again wherever it is evicted."""
    return jobs(number, owner="ReplicaSet/serve-5d9c", phase=PodPhase.RUNNING, running_since=NOW - MINUTE)


def _evicted(mode: str = "act", nodes: int = 4, **more: Any) -> Iterator[Notice]:
    running = [a_busy_node(f"l40s-{n}", was_usable=True, pods=serving(n)) for n in range(nodes)]
    found = known(pool_of(*running), **more)
    case = case_of(found.pool(L40S.id), assign(found, AT_NIGHT).pools[L40S.id], found, AT_NIGHT)
    return (
        replace(said.notice, decision=NUMBER)
        for said in workload_notices.evictions_due(case, found.earlier.announced, mode)
        if said.notice is not None
    )


def _evicts_no_more() -> Notice:
    told = {topic_of(NIGHT, AT_NIGHT.pools[0]): NOW - MINUTE}
    return next(_evicted(overrides=(word(OverrideKind.SNOOZE),), told_to_go=told))


def _wish() -> Notice:
    pod = with_fields(jobs(0)[0], keep_until=NOW + timedelta(days=1), node="l40s-1", phase=PodPhase.RUNNING)
    (notice,) = ignored_wishes([pool_of(a_busy_node("l40s-1", pods=(pod,)))], KeepUntil(), NOW)
    return notice


CASES: Mapping[str, Callable[[], Notice]] = {
    "pinned": lambda: people_notices.was_set(word(OverrideKind.PIN), POLICY),
    "floor_set": lambda: people_notices.was_set(word(OverrideKind.FLOOR), POLICY),
    "ceiling_set": lambda: people_notices.was_set(word(OverrideKind.CEILING), POLICY),
    "paused_everywhere": lambda: people_notices.was_set(word(OverrideKind.PAUSE, pool=None), POLICY),
    "snoozed": lambda: people_notices.was_set(word(OverrideKind.SNOOZE), POLICY, IDLE),
    "override_ended": lambda: people_notices.was_ended(word(OverrideKind.PIN), "bob", POLICY),
    "snooze_ran_out": lambda: people_notices.ran_out(
        word(OverrideKind.SNOOZE), POLICY, [pool_of(*(idle(name) for name in IDLE))]
    ),
    "override_goes_on": lambda: people_notices.goes_on(word(OverrideKind.PAUSE), POLICY),
    "evicts": lambda: next(_evicted()),
    "would_evict": lambda: next(_evicted("observe")),
    "evicts_no_more": _evicts_no_more,
    "keep_until_ignored": _wish,
}
