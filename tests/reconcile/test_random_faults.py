"""The invariants of docs/invariants.md under random work, faults and crashes, from printed seeds.

A crash abandons every object at a port call or a store write, before or after its effect, and rebuilds from
the store, as `kill -9` does.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from receiver.act import WriterLostError
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.adapters.store import SqlStore, open_store
from receiver.core.budget import BudgetStage
from receiver.core.policy import Budget
from receiver.core.signals import Alert
from receiver.ports import Delivery, Did, TryLater, WontWork
from receiver.replay.world import Behaviour, WorldPool
from tests.reconcile.harness import FAST, GPU, SIZE, START, Life, a_job, a_policy, a_world

SEEDS = range(12)
TROUBLED = timedelta(minutes=100)
CALM_HOURS = 20
PORT_VERBS = ("look", "resize", "retire", "cordon", "uncordon", "drain", "gpu_pods_on", "announce")
STORE_WRITES = ("saw", "decided", "opened", "progressed", "closed", "say", "keep_snapshot", "considered")


class CrashError(BaseException):
    """The process dies here; nothing may catch it."""


@dataclass
class FragileStore:
    """The real store, which dies or fails at a chosen write, before or after its effect."""

    inner: SqlStore
    plan: dict[str, tuple[BaseException, bool]]

    def __getattr__(self, name: str) -> Any:
        """Pass everything on; `plan` maps a write to (error, after its effect)."""
        method = getattr(self.inner, name)
        if name not in self.plan:
            return method
        error, after = self.plan.pop(name)

        def broken(*args: Any, **given: Any) -> Any:
            if after:
                method(*args, **given)
            raise error

        return broken


@dataclass
class Trouble:
    """What goes wrong, from a seed."""

    dice: random.Random
    life: Life
    store: FragileStore

    def strike(self) -> None:
        """Arm at most one fault for the next step."""
        if self.dice.random() > 0.25:
            return
        error: Any = self.dice.choice(
            [TryLater("no answer", code="timeout"), TryLater("busy", code="http_503"), CrashError(), CrashError()]
        )
        if self.dice.random() < 0.3:
            error = error if isinstance(error, CrashError) else TryLater("store: locked", code="store")
            self.store.plan[self.dice.choice(STORE_WRITES)] = (error, self.dice.random() < 0.5)
            return
        verb = self.dice.choice(PORT_VERBS)
        if verb == "resize" and self.dice.random() < 0.2:
            error = WontWork("none left", code="gpu_count_exceeded")
        port = self.life.cloud if verb in ("resize", "retire") or self.dice.random() < 0.3 else self.life.cluster
        if verb != "look" and verb != "gpu_pods_on" and self.dice.random() < 0.4:
            port.fail_after(error, verb)
        else:
            port.fail_next(error, verb)


def lives(seed: int, folder: Path) -> Iterator[tuple[Life, random.Random, FragileStore]]:
    """A life of seed *seed*: random pool shape, work and Civo behaviour."""
    dice = random.Random(seed)  # a printed seed repeats the whole life
    gpus = dice.choice([1, 1, 2])
    behaviour = Behaviour(decrement=dice.choice(["at_once", "at_once", timedelta(seconds=40)]))
    world = a_world(
        WorldPool(id="l40s-id", size=SIZE, resources={GPU: gpus}),
        behaviour=behaviour,
        timings=replace(FAST, jitter=0.3, create=timedelta(seconds=dice.choice([0, 5, 30]))),
        seed=seed,
    )
    pool = replace(a_policy().pools[0], max_nodes=dice.randint(2, 6), resources={GPU: gpus})
    budget = dice.choice([None, Budget(monthly_usd=Decimal(60))])
    opened = open_store(f"sqlite:///{folder}/ledger.db")
    store = FragileStore(opened, {})
    yield Life(world=world, policy=a_policy(pool, budget=budget), store=store), dice, store
    opened.close()


def check(life: Life, max_nodes: int) -> None:
    """Invariants 1, 2 and 4 as they must hold after every event."""
    assert life.world.kills == []
    assert life.required() <= max_nodes
    open_actions = [a for a in life.store.actions(limit=1000) if a.outcome is None]
    assert len(open_actions) <= 1
    for verb, args in life.writes("resize"):
        assert isinstance(args[1], int), verb
        assert args[1] <= max_nodes


def never_ask_twice(life: Life) -> None:
    """Wrap the cloud so that each PUT is held against an independent count of what is needed."""
    original = life.cloud.resize

    def resize(pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Any:
        waiting = [p for p in life.world.active_pods.values() if p.node is None and p.reason == "Unschedulable"]
        gpus = sum(sum(p.requests.values()) for p in waiting)
        before = life.world.pools[pool]
        unlisted = max(0, before.required - sum(1 for vm in before.instances if vm.living))
        coming = unlisted + sum(1 for vm in before.instances if vm.living and vm.usable_at is None)
        bought = target - before.required
        receipt = original(pool, decided_on=decided_on, target=target, shown=shown)
        if receipt.did is Did.DONE:
            per_node = sum(life.policy.pools[0].resources.values())
            assert bought * per_node < max(0, gpus - coming * per_node) + per_node, (bought, gpus, coming)
        return receipt

    life.cloud.resize = resize  # type: ignore[method-assign] # a test's eye on the port


def crash(life: Life) -> Life:
    """Abandon every object of the process; only the world and the store survive."""
    return Life(
        world=life.world,
        policy=life.policy,
        store=life.store,
        mode=life.mode,
        wrap_cloud=life.wrap_cloud,
        wrap_cluster=life.wrap_cluster,
        _beat_at=life._beat_at,
    )


def submit_some(life: Life, dice: random.Random, number: int) -> None:
    """Sometimes hand in a job, sometimes a gang, always one that fits some node."""
    if dice.random() > 0.06:
        return
    gang = dice.random() < 0.25
    life.world.submit(
        a_job(
            f"j{number}",
            duration=timedelta(minutes=dice.randint(1, 50)),
            pods=dice.choice([2, 2]) if gang else 1,
            gang=gang,
            gpus_per_pod=1,
        )
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_invariants_hold_under_random_faults_and_crashes(seed: int, tmp_path: Path) -> None:
    for life, dice, store in lives(seed, tmp_path):
        max_nodes = life.policy.pools[0].max_nodes
        number = 0
        never_ask_twice(life)
        while life.now - START < TROUBLED:
            number += 1
            submit_some(life, dice, number)
            life.world.advance(life.now + timedelta(seconds=1))
            Trouble(dice, life, store).strike()
            moment = None
            try:
                with suppress(TryLater, WriterLostError):
                    moment = life.step().reconsider_at
            except CrashError:
                store.plan.clear()
                life = crash(life)
                never_ask_twice(life)
            check(life, max_nodes)
            tick = timedelta(seconds=dice.choice([5, 10, 30]))
            wake = min(life.now + tick, *([moment] if moment and moment > life.now else [life.now + tick]))
            life.world.advance(wake)
        store.plan.clear()
        settled = crash(life)
        for _ in range(CALM_HOURS):  # a small pool needs hours for the work that piled up
            settled.run(timedelta(hours=1), tick=timedelta(minutes=2))
            if not settled.world.active_pods and not settled.required():
                break
        check(settled, max_nodes)
        held = settled.steps[-1].assignment.budget
        if held is None or held.stage in (BudgetStage.OK, BudgetStage.WARN):
            assert list(settled.world.active_pods) == []
            assert settled.required() == 0
        assert settled.store.memory(settled.now, START).deliveries == ()


@pytest.mark.parametrize("seed", range(3))
def test_observe_mode_writes_nothing_whatever_happens(seed: int, tmp_path: Path) -> None:
    for life, dice, store in lives(seed, tmp_path):
        life.mode, life.wrap_cloud, life.wrap_cluster = "observe", ObservedCloud, ObservedCluster
        life.world.resize("l40s-id", 2)
        number = 0
        while life.now - START < TROUBLED:
            number += 1
            submit_some(life, dice, number)
            life.world.advance(life.now + timedelta(seconds=1))
            Trouble(dice, life, store).strike()
            try:
                with suppress(TryLater, WriterLostError):
                    life.step()
            except CrashError:
                store.plan.clear()
                life = crash(life)
            life.world.advance(life.now + timedelta(seconds=20))
            assert life.writes() == []


def test_a_delivery_survives_a_crash_until_it_was_considered(tmp_path: Path) -> None:
    for write in STORE_WRITES:
        folder = tmp_path / write
        folder.mkdir()
        store = open_store(f"sqlite:///{folder}/ledger.db")
        fragile = FragileStore(store, {})
        life = Life(world=a_world(), policy=a_policy(), store=fragile, heartbeats=False)
        life.submit(a_job())
        alert = Alert(fingerprint="f", labels={"action": "scale_up"}, starts_at=START)
        number = store.remember(Delivery(receiver="r", group_key="g", alerts=(alert,)), life.now)
        fragile.plan[write] = (CrashError(), False)
        with suppress(CrashError):
            life.step()
        if write in fragile.plan:  # this step had no reason to make that write
            store.close()
            continue
        again = crash(life)
        assert number in again.step().facts.deliveries
        store.close()
