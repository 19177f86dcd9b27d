"""Fixed worlds: a life with everything at once, also in observe mode, tests/web's store, a ledger, an empty server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from prometheus_client import CollectorRegistry

from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.capabilities.registry import step_additions
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Approval, Budget, BudgetChange, Pool, Scope, Unanswered
from receiver.core.model.signals import COMPONENT, Alert, Matcher, Silence
from receiver.core.model.windows import Window
from receiver.core.notices.money_notices import budget_changed
from receiver.core.notices.people_notices import was_set
from receiver.metrics.collector import Instruments, StoreCollector
from receiver.ports import Delivery, Store
from receiver.replay.world.objects import WorldPool
from simulator.store import MemoryStore
from tests.clocks import FixedClock
from tests.core.report.builders import AFTER
from tests.core.report.simulated import a_month
from tests.given.life import GPU, PRICE, START, Life, a_job, a_policy, a_world
from tests.metrics.scrapes import ADDED_FAMILIES
from tests.settings import settings_of
from tests.stores import a_store
from tests.web.builders import Bench, a_full_store
from tests.web.stores import a_store_with

MINUTE, HOUR, DAYS = timedelta(minutes=1), timedelta(hours=1), timedelta(days=9)
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
NIGHTS = Window(name="nights", times=((13 * 60, 24 * 60),), max_nodes=0)
ASKS = Approval(removals=True, growth_above_usd_per_hour=Decimal(2), wait=20 * MINUTE, unanswered=Unanswered.HOLD)
# Each pool: GPUs per node, nodes at the beginning, and what its policy has of its own.
POOLS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "grows": (1, 1, {}),
    "shrinks": (1, 3, {"idle_for": 30 * MINUTE, "shrink_cooldown": 20 * MINUTE}),
    "silenced": (1, 1, {}),
    "pinned": (1, 1, {}),
    "closed": (2, 1, {"windows": (NIGHTS,)}),
    "refused": (1, 0, {}),
    "asked": (2, 1, {"approval": ASKS}),
    "frozen": (1, 2, {}),
    "unpriced": (1, 0, {"price_usd_per_hour": None}),
    "stopped": (1, 2, {"budget_usd": Decimal(3)}),
    "gangs": (8, 0, {"max_nodes": 3, "price_usd_per_hour": PRICE * 8}),
}
BUDGET = Budget(
    monthly_usd=Decimal(300), account_usd=Decimal(900), teams={"vision": Decimal(20), "language": Decimal(400)}
)


def bench(store: Any, policy: Any, clock: Any, mode: str = "act") -> Bench:
    """The web side over *store*, with every metric registered."""
    registry, instruments = CollectorRegistry(), Instruments(added=step_additions().parts)
    registry.register(instruments)
    settings = settings_of(policy, mode)
    registry.register(
        StoreCollector(store, settings, clock, version="0.1.0", destinations=("slack",), added=ADDED_FAMILIES)
    )
    given: dict[str, Any] = {"store": store, "policy": policy, "clock": clock, "mode": mode, "registry": registry}
    given["instruments"] = instruments
    return Bench(
        **given,
        wake=lambda: None,
        docs_url="https://docs.example",
        messages_to=("slack",),
        watch="up",
    )


@contextmanager
def worlds() -> Iterator[dict[str, Bench]]:
    """Every world by its name."""
    month = a_month()
    ledger = a_store_with(
        lives=month.lives,
        usage=month.usage,
        unwatched=month.unwatched,
        workloads=month.workloads,
        counts=month.counted(),
    )
    made = a_full_store()
    with a_store() as store, a_store() as observed:
        act, observe = lived(store), lived(observed, "observe")
        yield {
            "act": bench(store, act.policy, FixedClock(act.now)),
            "observe": bench(observed, observe.policy, FixedClock(observe.now), "observe"),
            "made": bench(made, Bench().policy, FixedClock(Bench().clock.at)),
            "month": bench(ledger, month.policy, FixedClock(AFTER)),
            "new": bench(MemoryStore(), Bench().policy, FixedClock(Bench().clock.at)),
        }


def lived(store: Store, mode: str = "act") -> Life:
    """Two hours in which every pool does what it is called."""
    pool = a_policy().pools[0]
    pools = [_pool(pool, name, gpus, given) for name, (gpus, _, given) in POOLS.items()]
    world = a_world(*(WorldPool(id=p.id, size=p.size, resources=p.resources, count=POOLS[p.name][1]) for p in pools))
    policy = replace(a_policy(*pools, budget=BUDGET), gpu_kinds={p.size: "L40S" for p in pools})
    life = Life(world=world, policy=policy, store=store, mode=mode, rest=MINUTE)
    if mode == "observe":
        life.wrap_cloud, life.wrap_cluster = ObservedCloud, ObservedCluster
    for name in ("grows", "shrinks", "silenced", "frozen", "stopped"):
        life.submit(_job(name, f"early-{name}", duration=20 * MINUTE if name == "shrinks" else DAYS, team="language"))
    _alert(life, "GpuPodsPending", "scale_up", "grows")
    life.run(50 * MINUTE, tick=MINUTE)
    life.alarms.silences.append(_silence(life, "silenced"))
    _alert(life, "Maintenance", "freeze", "frozen")
    _override(life, "pin", "pinned", 2)
    _override(life, "snooze", None, None)
    _override(life, "ceiling", "grows", 4)
    life.run(10 * MINUTE, tick=MINUTE)
    life.world.faults.refuse_rescale(times=None)
    life.submit(_job("refused", "distill"))
    life.run(5 * MINUTE, tick=MINUTE)
    life.world.faults.clear()
    vision = BudgetChange(
        scope=Scope.TEAM, name="vision", month="2026-11", monthly_usd=Decimal(25), who="ada", why="demo", at=life.now
    )
    life.store.change_budget(vision, budget_changed(vision, "budget of team vision"))
    late: dict[str, dict[str, Any]] = {
        "grows": {"pods": 3},
        "silenced": {},
        "closed": {"gpus_per_pod": 2},
        "asked": {"pods": 2, "gpus_per_pod": 2, "team": "language"},
        "frozen": {"pods": 2},
        "unpriced": {},
        "stopped": {"pods": 3},
        "gangs": {"pods": 2, "gpus_per_pod": 8, "gang": True, "team": "language", "priority": 5},
        "pinned": {"gpus_per_pod": 16},
    }
    for name, given in late.items():
        life.submit(_job(name, f"late-{name}", **given))
    life.run(40 * MINUTE, tick=MINUTE)
    life.world.faults.telemetry_gone = True
    life.heartbeats = False
    life.submit(_job("grows", "last", pods=2, team="language"))
    life.run(6 * MINUTE, tick=MINUTE)
    return life


def _pool(base: Pool, name: str, gpus: int, given: dict[str, Any]) -> Pool:
    said = {"id": f"{name}-id", "name": name, "size": f"an.g1.l40s.{name}.x{gpus}", "resources": {GPU: gpus}}
    return replace(base, **{**said, "max_nodes": 6, **given})


def _job(pool: str, name: str, **given: Any) -> Any:
    said: dict[str, Any] = {"duration": DAYS, "node_selector": {POOL_LABEL: f"{pool}-id"}, "submit_at": START}
    return a_job(name, **{**said, **given})


def _alert(life: Life, name: str, action: str, pool: str) -> None:
    labels = {"alertname": name, "component": COMPONENT, "action": action, "pool": pool}
    alert = Alert(fingerprint=f"{name}-{pool}", labels=labels, starts_at=life.now)
    life.alarms.extra.append(alert)
    life.store.remember(Delivery(receiver="test", group_key=name, alerts=(alert,)), life.now)


def _silence(life: Life, pool: str) -> Silence:
    matchers = (Matcher(name="component", value=COMPONENT), Matcher(name="pool", value=pool))
    return Silence(
        id="s-1", matchers=matchers, ends_at=life.now + 9 * HOUR, created_by="night shift", comment="new driver"
    )


def _override(life: Life, kind: str, pool: str | None, nodes: int | None) -> None:
    override = Override(
        id=f"{kind}-{pool or 'every-pool'}-1",
        kind=OverrideKind(kind),
        pool=f"{pool}-id" if pool else None,
        nodes=nodes,
        who="alice",
        why="load test",
        at=life.now,
        until=life.now + (3 * HOUR if pool else 20 * MINUTE),
    )
    life.store.set_override(override, was_set(override, life.policy))
