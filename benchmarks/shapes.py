"""Pools of several node sizes beside Cluster Autoscaler on one pool of the widest, trace by trace.

``python -m benchmarks.shapes DIR [POLICY ...]`` plays every ``*.csv`` of a folder (docs/replay-traces.md has the form)
under each policy named, or all. Printed are GPU-hours as started and the wait, each as a ratio to Cluster Autoscaler's:
the cost as the geometric mean over traces, the wait of all jobs together. The exit status is 1 when a job was lost, a
pod lost its node, or something does not add up.
"""

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import structlog

from receiver.capabilities.registry import step_additions
from receiver.core.model.policy import Limits, Objective, Policy, Pool
from receiver.replay.contest import Contestant, Result, a_peer, contest, the_product
from receiver.replay.peers import PEERS
from receiver.replay.play import Setting
from receiver.replay.traces import load_jobs
from receiver.replay.world.objects import GPU

ZERO = timedelta(0)
MOST_GPUS = 320
PRICE = Decimal("1.29")  # per GPU and hour, whatever the size of the node
PEER = "cluster-autoscaler"
SETTING = Setting(driver=timedelta(seconds=30), delete=ZERO, watch=None, scrape=None)
SIZES: Mapping[str, Sequence[int]] = {"four": (1, 2, 4, 8), "one": (8,)}


def pools(sizes: Sequence[int]) -> tuple[Pool, ...]:
    """One pool per size of node, each of which could hold all."""
    return tuple(
        Pool(
            id=f"x{size}",
            name=f"x{size}",
            size=f"x{size}",
            resources={GPU: size},
            max_nodes=MOST_GPUS // size,
            price_usd_per_hour=PRICE * size,
            grow_cooldown=ZERO,
            shrink_cooldown=ZERO,
        )
        for size in sizes
    )


def contestants() -> Mapping[str, Contestant]:
    """The product with one pool and with four under each objective, and the peer on four."""
    found = {f"{PEER}, four": a_peer(PEER, PEERS[PEER], pools(SIZES["four"]))}
    for named, sizes in SIZES.items():
        for objective in Objective:
            policy = Policy(pools=pools(sizes), limits=Limits(max_gpus=MOST_GPUS), objective=objective)
            found[f"{objective}, {named}"] = the_product(f"{objective}, {named}", policy, SETTING, step_additions())
    return found


def main(arguments: Sequence[str]) -> int:
    """Play and print; return the exit status."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    known = contestants()
    folder, names = Path(arguments[0]), arguments[1:] or tuple(known)
    status = 0
    rows: dict[str, list[tuple[Result, Result]]] = {name: [] for name in names}
    for path in sorted(folder.glob("*.csv")):
        jobs = load_jobs(path, SETTING.start)
        (peer,) = contest(jobs, [a_peer(PEER, PEERS[PEER], pools(SIZES["one"]))], SETTING)
        for result in contest(jobs, [known[name] for name in names], SETTING):
            rows[result.name if result.name in rows else f"{PEER}, four"].append((result, peer))
            found, base = result.figures, peer.figures
            print(
                f"{path.stem:16} {result.name:20} cost {found.gpu_hours_started / base.gpu_hours_started:.3f}  "
                f"wait {found.wait_mean_s:6.1f} s for {base.wait_mean_s:6.1f} s  longest {found.wait_max_s:5.0f} s  "
                f"node starts {found.node_starts}  kills {found.kills}  lost {found.jobs_lost}",
                flush=True,
            )
            if found.kills or found.jobs_lost or result.violations:
                print(*result.violations, sep="\n")
                status = 1
    for name, pairs in rows.items():
        print(f"{name:20} {_summary(pairs)}")
    return status


def _summary(pairs: Sequence[tuple[Result, Result]]) -> str:
    """The cost and the wait over all traces, as ratios to the peer's."""
    ratios = [r.figures.gpu_hours_started / p.figures.gpu_hours_started for r, p in pairs]
    waited, peers = (sum(x[i].figures.wait_mean_s * x[i].figures.jobs for x in pairs) for i in (0, 1))
    starts, started = (sum(x[i].figures.node_starts for x in pairs) for i in (0, 1))
    cost = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"traces {len(pairs)}  cost {cost:.3f}  wait {waited / peers:.3f}  node starts {starts} for {started}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
