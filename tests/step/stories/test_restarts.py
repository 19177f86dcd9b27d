"""Stories of a process that is restarted, killed or woken a thousand times in the middle of something."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from receiver.adapters.store import open_store
from receiver.core.model.policy import Policy
from receiver.ports import CORDON_ANNOTATION, Store
from simulator.world import World
from tests.adapters.store.builders import migrated
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, removed
from tests.given import lives, troubles
from tests.given.life import POOL, START, TICK, Life, a_job, a_policy, a_world
from tests.given.pods import bound
from tests.step.stories.bench import Calls, watch
from tests.stores import WorldStore, rebuilt


class CrashError(BaseException):
    """The process dies here; nothing may catch it."""


@dataclass
class Restarted:
    """A product of which nothing but the database survives from step to step, on a world that goes on."""

    world: World
    policy: Policy
    store: WorldStore
    lives: list[Life] = field(default_factory=list)

    def one(self) -> Life:
        """A new process on the same database."""
        life = Life(world=self.world, policy=self.policy, store=rebuilt(self.store))
        self.lives.append(life)
        return life

    def run(self, until: timedelta, tick: timedelta = TICK) -> None:
        """A new process for every single step."""
        end = self.world.now + until
        while self.world.now < end:
            self.one().step()
            self.world.advance(min(self.world.now + tick, end))

    def writes(self, *verbs: str) -> list[tuple[str, tuple[object, ...]]]:
        """What all of them wrote."""
        return [w for life in self.lives for w in life.writes(*verbs)]


@pytest.mark.database("what outlives a process is in it")
def test_a_process_that_dies_after_every_step_still_gives_the_node_back_in_its_paid_hour(
    store: WorldStore,
) -> None:
    """Cluster Autoscaler #4115, #7873: each restart (an OOM loop) began the idle time anew; nothing ever went."""
    product = Restarted(a_world(), a_policy(), store)
    product.world.submit(a_job())
    product.run(62 * MINUTE, tick=MINUTE)
    assert len(product.lives) > 60
    assert product.writes("resize") == [("resize", (POOL, 1))]
    assert len(product.writes("cordon")) == len(product.writes("retire")) == 1
    [vm] = product.world.lives
    assert vm.gone_at is not None
    assert 55 * MINUTE <= vm.gone_at - vm.created_at <= HOUR


def test_a_cooldown_outlives_the_process(tmp_path: Path) -> None:
    """Cluster Autoscaler #4115: after a restart no delay after a scale-up was known any more."""
    policy = a_policy(a_pool(grow_cooldown=10 * MINUTE))
    url = migrated(tmp_path / "ledger.db")
    store = open_store(url)
    product = Restarted(a_world(), policy, store)
    product.world.submit(a_job("one"))
    product.run(MINUTE)
    store.close()
    store = product.store = open_store(url)  # here even its connections are new
    product.world.submit(a_job("two"))
    product.run(8 * MINUTE, tick=30 * SECOND)
    assert len(product.writes("resize")) == 1
    product.run(3 * MINUTE)
    assert len(product.writes("resize")) == 2
    store.close()


def _a_crash_in_a_removal(store: WorldStore, at: int | None, *, after: bool) -> tuple[Restarted, Calls]:
    """One idle node; the process dies at call *at* of its removal, before the call or right after it."""
    world = lives.idle_nodes(store).world
    product = Restarted(world, a_policy(), store)

    def dies() -> None:
        raise CrashError

    calls = Calls(at=at if at is None or not after else at + 1, then=dies)
    world.advance(START + 50 * MINUTE)
    life = product.one()
    life.step()
    world.advance(START + 55 * MINUTE)
    watch(life, calls)
    try:
        while "cloud.retire" not in calls.made and life.now < START + 57 * MINUTE:
            life.run(5 * SECOND, tick=5 * SECOND)
    except CrashError:
        pass
    product.run(5 * MINUTE, tick=MINUTE)
    return product, calls


@pytest.mark.database("what outlives a process is in it")
def test_kill_9_at_any_call_of_a_removal_ends_in_one_removal(new_store: Callable[[], WorldStore]) -> None:
    """Cluster Autoscaler #4115, #5048: a restart in the middle of a drain left a cordoned node that was paid for and
    used by nobody."""
    _, calls = _a_crash_in_a_removal(new_store(), None, after=False)
    number = calls.made.index("cloud.retire") + 1
    assert number >= 8
    for k in range(number):
        product, seen = _a_crash_in_a_removal(new_store(), k, after=k == number - 1)
        where = f"at call {k}, {calls.made[k]}"
        assert seen.made[:k] == calls.made[:k], where
        [vm] = product.world.lives
        assert vm.gone_at is not None, where
        assert vm.gone_at - vm.created_at <= HOUR, where
        assert product.world.pools[POOL].required == 0, where
        assert len(product.writes("retire")) == 1, where


def test_a_cordon_that_nobody_remembers_is_lifted_by_the_next_process(store: Store) -> None:
    """Cluster Autoscaler #5048: a node stayed cordoned for ever because the one who knew of it was gone."""
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    life.world.patch_node(node, unschedulable=True, annotations={CORDON_ANNOTATION: "of a store that was lost"})
    life.step()
    assert not life.world.nodes[node].unschedulable


def test_a_thousand_webhooks_during_one_removal_are_one_removal(store: Store) -> None:
    """Nomad Autoscaler #376, #378, #610: evaluations came faster than actions ended, each one removed a node, and
    the whole pool was drained."""
    life = lives.idle_nodes(store, 5)
    for vm in life.world.lives[1:]:
        life.world.add_pod(bound(f"on-{vm.hostname}", vm.hostname))
    life.world.advance(START + 50 * MINUTE)
    life.run(5 * MINUTE - 3 * SECOND)
    assert life.writes() == []
    for number in range(1000):
        troubles.deliver(life, troubles.alert("GpuPoolUnderutilized", "scale_down", at=life.now))
        if number % 20 == 0:
            life.step()
        life.world.advance(life.now + timedelta(milliseconds=100))
    life.run(5 * MINUTE)
    assert len(life.writes("cordon")) == removed(life) == 1
    assert len(living(life)) == 4
    assert life.world.kills == []


@pytest.mark.parametrize("what", ["growth", "removal"])
def test_a_restart_at_every_second_of_a_change_makes_it_once(store: WorldStore, what: str) -> None:
    """Nomad Autoscaler #610, Cluster Autoscaler #7873: two processes in a row, both of the same opinion, acted
    twice."""
    begin: Callable[[World], object] = lambda world: world.submit(a_job())  # noqa: E731
    world = a_world()
    if what == "removal":
        world = lives.idle_nodes(store).world
        world.advance(START + 54 * MINUTE - 10 * SECOND)
        begin = lambda _: None  # noqa: E731
    product = Restarted(world, a_policy(), store)
    begin(world)
    product.run(100 * SECOND, tick=SECOND)
    assert bought(product.lives[0]) == 1
    verbs = ("resize",) if what == "growth" else ("cordon", "retire")
    assert [w[0] for w in product.writes()] == list(verbs) + ["record_event"] * (what == "growth")
