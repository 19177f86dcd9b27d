"""The product's step on a simulated cluster with a minimal Kueue, through the real adapter."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, connect
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.core.model.policy import Budget, Policy, Pool, Taint
from receiver.ports import BUDGET_CHECK, Store
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.core.builders import HOURLY, MINUTE
from tests.given.life import PRICE, SIZE, Life
from tests.given.requests import EVERY_READER
from tests.simulator.builders import GPU_POOL, START, config
from tests.simulator.crd_schemas import mistakes

GPU = "nvidia.com/gpu"
KUEUE = "kueue.x-k8s.io"
NAMESPACED = ("Workload", "ProvisioningRequest", "PodTemplate")


@dataclass
class WorldClock:
    """The world's time as the adapter reads it."""

    sim: Simulator

    def now(self) -> datetime:
        return self.sim.live.world.now


@dataclass
class Stage:
    """The product on a simulated cluster with Kueue."""

    sim: Simulator
    life: Life
    version: str

    def put(self, kind: str, name: str, *, api: str = "", **said: Any) -> None:
        """Let an object be there, in namespace ml if it is in one."""
        where = {"namespace": "ml"} if kind in NAMESPACED else {}
        metadata = {**where, "name": name, **said.pop("metadata", {})}
        one = {"apiVersion": api or f"{KUEUE}/{self.version}", "kind": kind, "metadata": metadata, **said}
        with self.sim.moved() as world:
            self.sim.live.custom.put([one], world.now)

    def budget_check(self, **annotations: str) -> None:
        """Our AdmissionCheck, called budget."""
        spec = {"controllerName": BUDGET_CHECK}
        self.put("AdmissionCheck", "budget", metadata={"annotations": annotations}, spec=spec)

    def queue(self, *checks: str, quota: int = 4) -> None:
        """A ClusterQueue gpus with one flavor, l40s, and *checks*."""
        resources = [{"name": GPU, "nominalQuota": str(quota)}]
        groups = [{"coveredResources": [GPU], "flavors": [{"name": "l40s", "resources": resources}]}]
        strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": check} for check in checks]}}
        named = strategy if self.version == "v1beta2" else {"admissionChecks": list(checks)}
        self.put("ResourceFlavor", "l40s", spec={"nodeLabels": {"gpu": "on-demand"}})
        self.put("ClusterQueue", "gpus", spec={"resourceGroups": groups, **named})

    def workload(self, name: str, pods: int = 2, *, seconds: int = 600) -> None:
        container = {"name": "main", "image": "train", "resources": {"requests": {GPU: "1"}}}
        template = {
            "metadata": {"labels": {"team": "vision"}, "annotations": {"simulator/duration-seconds": f"{seconds}"}},
            "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
        }
        pod_sets = [{"name": "main", "count": pods, "template": template}]
        self.put("Workload", name, spec={"active": True, "queueName": "gpus", "podSets": pod_sets})

    def found(self, plural: str, name: str, group: str = KUEUE) -> Any:
        with self.sim.moved():
            every = self.sim.live.custom.objects(group, plural)
            found = next(o for o in every if o["metadata"]["name"] == name)
        assert mistakes(found) == []
        return found

    def check(self, name: str) -> dict[str, Any]:
        """The state of the Workload's only check."""
        [found] = self.found("workloads", name)["status"]["admissionChecks"]
        return dict(found)

    def conditions(self, name: str) -> dict[str, str]:
        status = self.found("workloads", name).get("status") or {}
        return {c["type"]: c["status"] for c in status.get("conditions") or ()}

    def run(self, length: timedelta) -> None:
        self.life.run(length)
        with self.sim.moved():  # Kueue's turn
            pass

    def writes(self) -> list[str]:
        """The paths that were patched so far."""
        return [e["path"] for e in self.sim.log.entries() if e["method"] == "PATCH" and "/status" in e["path"]]


@contextmanager
def staged(
    tmp_path: Path, store: Store, usd: str = "1000", version: str = "v1beta2", *, mode: str = "act"
) -> Iterator[Stage]:
    """Begin with one idle node, a budget of that many USD, and Kueue of a version."""
    face = {"kueue": True, "installed": [f"{KUEUE}/{version}", "autoscaling.x-k8s.io/v1"], "daemonsets": False}
    with Simulator(config(kubernetes=face), clock=ManualClock(START)) as sim:
        sim.live.turn(3 * MINUTE)
        cluster = connect(
            str(sim.kubeconfig(tmp_path / "kubeconfig")),
            clock=WorldClock(sim),
            calls=Calls(timeouts=(10, 30)),
            options=ClusterOptions(readers=EVERY_READER),
        )
        taints = (Taint(key="gpu", value="true", effect="NoSchedule"),)
        pool = Pool(
            id=GPU_POOL,
            name="l40s",
            size=SIZE,
            resources={GPU: 1},
            labels={"gpu": "on-demand"},
            taints=taints,
            max_nodes=3,
            price_usd_per_hour=PRICE,
        )
        budget = Budget(monthly_usd=Decimal(usd), hold_at=Decimal(1))
        life = Life(
            sim.live.world, Policy(pools=(pool,), billing=HOURLY, budget=budget), store, mode, lock=sim.live.lock
        )
        life.cluster = cluster  # type: ignore[assignment]  # the world's own is what it stands for
        if mode == "observe":
            life.wrap_cloud, life.wrap_cluster = ObservedCloud, ObservedCluster
        try:
            yield Stage(sim, life, version)
        finally:
            cluster.close()


def nodes(stage: Stage) -> int:
    """How many nodes Civo was asked for."""
    return stage.life.required(GPU_POOL)
