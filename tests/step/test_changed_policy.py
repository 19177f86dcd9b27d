"""A policy that changes between two steps does what a restart with it does: the store is the step's only memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from receiver.core.model.configuration import ConfigurationFile
from receiver.core.model.policy import Policy
from receiver.ports import Store
from receiver.replay.world.objects import WorldPool
from receiver.reports.picture import kept_picture
from receiver.step.reconcile import step
from simulator.store import MemoryStore
from tests.core.builders import SECOND
from tests.given import lives
from tests.given.life import GPU, SIZE, Life, a_job, a_policy, a_world, until_cordoned

OWN = a_policy().pools[0]
OTHER = replace(OWN, id="other-id", name="other")
TWO = a_policy(OWN, OTHER)
Change = Callable[[Policy], Policy]
CHANGES: dict[str, Change] = {
    "a pool leaves": lambda policy: replace(policy, pools=(OTHER,)),
    "a pool appears": lambda policy: replace(policy, pools=(*policy.pools, replace(OWN, id="new-id", name="new"))),
    "a pool is renamed": lambda policy: replace(policy, pools=(replace(OWN, name="big"), OTHER)),
    "two pools swap names": lambda policy: replace(
        policy, pools=(replace(OWN, name="other"), replace(OTHER, name="l40s"))
    ),
    "a pool may have no node": lambda policy: replace(policy, pools=(replace(OWN, max_nodes=0), OTHER)),
    "a node is to stay": lambda policy: replace(policy, pools=(replace(OWN, min_nodes=1), OTHER)),
}


def _growing(life: Life) -> None:
    life.submit(a_job())
    life.step()
    life.pass_time(2 * SECOND)


def _removing(life: Life) -> None:
    until_cordoned(life)


def _overridden(life: Life) -> None:
    life.set_override("floor", 2)
    life.run(10 * SECOND)


def told(before: Callable[[Life], None], change: Change, *, restarted: bool, mode: str) -> list[Any]:
    """Everything that is written outside and stored when the policy changes after *before*."""
    pools = (WorldPool(id=pool, size=SIZE, resources={GPU: 1}) for pool in (OWN.id, OTHER.id, "new-id"))
    store = MemoryStore()
    life = Life(world=a_world(*pools), policy=TWO, store=store)
    before(life)
    earlier = (len(life.cloud.writes), len(life.cluster.writes))
    if restarted:
        earlier = (0, 0)
        life = lives.restarted(life, store, policy=change(TWO))
    else:
        life.policy = change(life.policy)
    if mode == "observe":
        lives.observing(life)
    for number in range(6):
        life.submit(a_job(f"later-{number}"))
        life.step()
        life.pass_time(30 * SECOND)
    writes = [*life.cloud.writes[earlier[0] :], *life.cluster.writes[earlier[1] :]]
    decided = [(d.decision.pool, d.decision.target, d.decision.deciding.rule) for d in store.decisions(limit=100)]
    ended = [(a.action.pool, a.action.kind, a.outcome and a.outcome.kind) for a in store.actions(limit=100)]
    return [[verb for verb, _ in writes if verb != "record_event"], decided, ended, list(life.notices())]


@pytest.mark.parametrize(
    "before, name, mode",
    [
        *((_removing, name, "act") for name in CHANGES),
        (_growing, "a pool leaves", "act"),
        (_growing, "a pool is renamed", "act"),
        (_overridden, "a pool leaves", "act"),
        (_removing, "a pool leaves", "observe"),
        (_growing, "a pool may have no node", "observe"),
    ],
)
def test_a_change_while_it_runs_does_what_a_restart_does(before: Callable[[Life], None], name: str, mode: str) -> None:
    live = told(before, CHANGES[name], restarted=False, mode=mode)
    assert live == told(before, CHANGES[name], restarted=True, mode=mode)
    assert live[1]


def test_a_refused_file_is_on_the_pages_at_once_and_told_once(store: Store) -> None:
    life = lives.at_zero(store)
    file = ConfigurationFile(at=life.now, mistakes=("pools[0].max_nods: unknown key",), digest="5f3c")
    for _ in range(4):
        step(replace(life.sources, file=lambda: file), life.hands, life.policy, life.mode, life.now)
        life.pass_time(10 * SECOND)
    [concern] = kept_picture(life.store)[0].concerns
    assert (concern.level, concern.why) == ("warn", "pools[0].max_nods: unknown key")
    assert [title for title in life.notices() if "refused" in title] == [
        "Configuration refused: pools[0].max_nods: unknown key"
    ]


def test_an_accepted_file_is_told_once(store: Store) -> None:
    life = lives.at_zero(store)
    file = ConfigurationFile(at=life.now, changes=("pools.l40s.max_nodes 4 -> 6",), digest="77aa")
    for _ in range(3):
        step(replace(life.sources, file=lambda: file), life.hands, life.policy, life.mode, life.now)
        life.pass_time(10 * SECOND)
    assert list(life.notices()) == ["Configuration changed: pools.l40s.max_nodes 4 -> 6"]
