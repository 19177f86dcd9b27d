"""Minutes in which everything happens that a recording or a panel tells of."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Budget, Limits, Policy, Pool, Stated
from receiver.core.model.windows import Window
from receiver.core.notices.notice import Notice
from receiver.replay.world.objects import POOL_LABEL
from tests.given.life import GPU
from tests.rules.catalogue import LARGE, LARGE_SIZE, ON_LARGE, ON_SMALL, SMALL, SMALL_SIZE, a_policy
from tests.rules.hours import Hours
from tools.grafana.scenario import workload

MIG, SCARCE = "mig-id", "h200-id"
MIG_SIZE, SCARCE_SIZE, SLICE = "g4g.40.kube.small", "an.g1.h200sxm.kube.x1", "nvidia.com/mig-1g.5gb"
MINUTES = 24
START: Mapping[str, Any] = {
    "pools": [
        {"id": SMALL, "size": SMALL_SIZE, "resources": {GPU: 1}, "count": 2},
        {"id": LARGE, "size": LARGE_SIZE, "resources": {GPU: 8}, "count": 1},
        {"id": MIG, "size": MIG_SIZE, "resources": {SLICE: 7}, "count": 2, "mig": True, "gpus": 1},
        {"id": SCARCE, "size": SCARCE_SIZE, "resources": {GPU: 1}, "count": 0},
    ],
    "metrics": {"ecc": True},
    "stock": {SCARCE_SIZE: 0},
}


def policy_at(begin: datetime) -> Policy:
    """What the receiver is told."""
    stated = Stated(month=f"{begin:%Y-%m}", usd=Decimal(2000))
    budget = Budget(monthly_usd=Decimal(50_000), teams={"vision": Decimal(20_000)}, stated=stated)
    windows = (Window(name="always", min_nodes=2, max_nodes=5), Window(name="never", years=((1980, 1980),)))
    base = a_policy(
        small={"max_nodes": 5, "windows": windows, "budget_usd": Decimal(9000)},
        large={"min_nodes": 1},
        budget=budget,
        limits=Limits(max_growth_per_hour=50),
    )
    more = (
        Pool(id=MIG, name="mig", size=MIG_SIZE, resources={SLICE: 7}, min_nodes=2, max_nodes=2),
        Pool(id=SCARCE, name="h200", size=SCARCE_SIZE, resources={GPU: 1}, max_nodes=1),
    )
    return replace(base, pools=(*base.pools, *(replace(p, price_usd_per_hour=Decimal("3.49")) for p in more)))


def course(h: Hours) -> None:
    """Let it happen, for MINUTES."""
    begin = h.start.timestamp()
    # A forecast needs a day of costs.
    later = {"forecast_usd": 48_000, "burn_usd_per_hour": 65}
    rows = (f'gpu_autoscaler_budget_{name}{{scope="cluster",name=""}} {usd}' for name, usd in later.items())
    page = "\n".join([*rows, ""])
    h.pages["a-day-later"] = lambda: page
    h.instruments.watch.stands()
    h.instruments.watch.ages = lambda: {"pods": 2.0}
    vision, language = {"namespace": "vision", "team": "vision"}, {"namespace": "language", "team": "language"}
    h.submit("serve", gpu_util=0.8, priority_class="production", **vision, **ON_SMALL)
    h.submit("notebook", gpu_util=0.01, **vision, **ON_SMALL)
    h.submit("llm", gpu_util=0.88, gpus_per_pod=6, **language, **ON_LARGE)
    h.submit("infer", gpu_util=0.5, pods=3, resource=SLICE, **vision)
    h.live.custom.put([workload(f"w{n}", "research", 2, begin) for n in range(3)], h.clock.now())
    h.pass_time(3)
    h.submit("train", gpu_util=0.7, duration="5m", **vision, **ON_SMALL)  # a node is bought for it
    h.pass_time(2)
    node = h.nodes(LARGE)[0]
    h.fault(kind="xid", node=node, gpu=7, code=79)
    h.fault(kind="xid", node=node, gpu=6, code=31)
    h.live.custom.put([workload("w0", "research", 2, begin, begin + 300)], h.clock.now())
    h.life.store.count_promises({(SMALL, "by_p50"): 1, (SMALL, "by_p90"): 1})
    h.pass_time(5)
    h.live.custom.put([workload("w1", "research", 2, begin, begin + 600)], h.clock.now())
    h.submit("eval", priority_class="research", **language, node_selector={POOL_LABEL: SCARCE})
    h.submit("nowhere", **language, node_selector={POOL_LABEL: "of no cluster"})
    h.pass_time(8)
    for field, value in (("GR_ENGINE_ACTIVE", 1), ("PIPE_TENSOR_ACTIVE", 0), ("DRAM_ACTIVE", 0)):
        h.fault(kind="reading", node=node, gpu=0, field=f"DCGM_FI_PROF_{field}", value=value)
    _override(h)
    h.fault(kind="gpu_never", pool=SMALL, times=None)
    h.submit("late", gpu_util=0.7, pods=3, **vision, **ON_SMALL)  # its nodes come without a GPU
    _counters(h, node)


def _counters(h: Hours, node: str) -> None:
    """Let counters contradict each other, be missing and be counted; that takes 6 minutes."""
    small = h.nodes(SMALL)[0]
    h.fault(kind="reading", node=node, gpu=1, field="DCGM_FI_PROF_GR_ENGINE_ACTIVE", value=0)
    h.fault(kind="reading", node=small, gpu=0, field="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", value=None)
    counted = f'DCGM_EXP_XID_ERRORS_COUNT{{hostname="{node}",gpu="7",UUID="g7",xid="79"}} 1\n'
    h.pages["xids-counted"] = lambda: counted
    h.pass_time(6)


def _override(h: Hours) -> None:
    now = h.clock.now()
    floor = Override(
        id="floor",
        kind=OverrideKind.FLOOR,
        who="ada",
        why="a demonstration",
        at=now,
        until=now + timedelta(hours=1),
        pool=SMALL,
        nodes=2,
    )
    h.life.store.set_override(floor, Notice(cause="override_set", topic="t", key="k", title="t", body="b"))
