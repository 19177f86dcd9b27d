"""A Workload of Kueue and our AdmissionCheck, from end to end: the real step and adapter over the simulated API, where
a minimal Kueue reserves quota, admits and evicts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.kubernetes.cluster import connect
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.core.model.policy import Budget, Policy, Pool, Taint
from receiver.ports import BUDGET_CHECK, REJECT_TOO_LARGE, Store
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.core.builders import HOURLY
from tests.simulator.builders import GPU_POOL, START, config
from tests.step.harness import PRICE, SIZE, Life
from tests.step.kueue_schemas import mistakes

GPU = "nvidia.com/gpu"
MINUTE = timedelta(minutes=1)
KUEUE = "kueue.x-k8s.io"
NAMESPACED = ("Workload", "ProvisioningRequest", "PodTemplate")
VERSIONS = ("v1beta2", "v1beta1")


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


Begin = Callable[..., Any]


@pytest.fixture
def begin(tmp_path: Path, store: Store) -> Begin:
    """Begin a stage with a budget of that many USD, and Kueue of a version."""

    @contextmanager
    def stage(usd: str = "1000", version: str = "v1beta2", *, mode: str = "act") -> Iterator[Stage]:
        face = {"kueue": True, "installed": [f"{KUEUE}/{version}"], "daemonsets": False}
        with Simulator(config(kubernetes=face), clock=ManualClock(START)) as sim:
            sim.live.turn(3 * MINUTE)
            cluster = connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), timeouts=(10, 30), clock=WorldClock(sim))
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
            life = Life(sim.live.world, Policy(pools=(pool,), billing=HOURLY, budget=budget), store, mode=mode)
            life.cluster = cluster  # type: ignore[assignment]  # the world's own is what it stands for
            if mode == "observe":
                life.wrap_cloud, life.wrap_cluster = ObservedCloud, ObservedCluster
            try:
                yield Stage(sim, life, version)
            finally:
                cluster.close()

    return stage


def nodes(stage: Stage) -> int:
    return stage.life.required(GPU_POOL)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_workload_is_held_then_admitted_by_a_raised_budget_then_finished(version: str, begin: Begin) -> None:
    with begin("3", version) as stage:
        stage.put("AdmissionCheck", "budget", spec={"controllerName": BUDGET_CHECK})
        stage.queue("budget")
        stage.workload("train")
        assert stage.conditions("train") == {}  # its queue is not active before the check is
        stage.life.step()
        [active] = stage.found("admissionchecks", "budget")["status"]["conditions"]
        assert (active["type"], active["status"]) == ("Active", "True")

        stage.run(MINUTE)
        held = "held by the cluster budget: $0.87 short, resumes 1 Apr"
        assert stage.conditions("train") == {"QuotaReserved": "False", "Evicted": "True", "Requeued": "False"}
        assert stage.check("train")["state"] == "Pending"
        [evicted] = [c for c in stage.found("workloads", "train")["status"]["conditions"] if c["type"] == "Evicted"]
        assert evicted["message"] == f'Evicted due to AdmissionCheck in Retry state: "budget" ({held})'
        assert nodes(stage) == 1  # the idle node is the only one

        stage.life.policy = replace(stage.life.policy, budget=Budget(monthly_usd=Decimal(1000)))
        stage.run(6 * MINUTE)
        assert stage.check("train")["state"] == "Ready"
        assert stage.check("train")["message"] == "the budgets cover it: 1 new node in pool l40s at $1.29 per hour"
        assert stage.conditions("train")["Admitted"] == "True"
        assert nodes(stage) == 2

        stage.run(20 * MINUTE)
        assert stage.conditions("train") == {
            "QuotaReserved": "True",
            "Evicted": "False",
            "Requeued": "True",
            "Admitted": "True",
            "Finished": "True",
        }
        assert [kill.by for kill in stage.life.world.kills] == []


def test_while_a_workload_is_held_others_get_its_quota(begin: Begin) -> None:
    with begin("3") as stage:
        stage.put("AdmissionCheck", "budget", spec={"controllerName": BUDGET_CHECK})
        stage.queue("budget", quota=2)
        stage.workload("large", 2)
        stage.run(MINUTE)
        stage.workload("small", 1)
        stage.run(MINUTE)
        assert (stage.conditions("small")["Admitted"], nodes(stage)) == ("True", 1)
        assert stage.conditions("large")["QuotaReserved"] == "False"


def test_an_admitted_workload_keeps_its_answer_when_the_budget_is_lowered(begin: Begin) -> None:
    with begin() as stage:
        stage.put("AdmissionCheck", "budget", spec={"controllerName": BUDGET_CHECK})
        stage.queue("budget")
        stage.workload("train")
        stage.run(2 * MINUTE)
        assert stage.conditions("train")["Admitted"] == "True"
        writes = len(stage.writes())
        stage.life.policy = replace(stage.life.policy, budget=Budget(monthly_usd=Decimal(1)))
        stage.run(5 * MINUTE)
        assert (stage.check("train")["state"], stage.conditions("train")["Admitted"]) == ("Ready", "True")
        assert len(stage.writes()) == writes


def test_what_never_fits_is_rejected_where_the_check_says_so(begin: Begin) -> None:
    with begin() as stage:
        annotations = {"annotations": {REJECT_TOO_LARGE: "true"}}
        stage.put("AdmissionCheck", "budget", metadata=annotations, spec={"controllerName": BUDGET_CHECK})
        stage.queue("budget")
        stage.workload("huge", 4)
        stage.run(MINUTE)
        assert stage.found("workloads", "huge")["spec"]["active"] is False
        [evicted] = [c for c in stage.found("workloads", "huge")["status"]["conditions"] if c["type"] == "Evicted"]
        assert evicted["message"].endswith('Rejected state: "budget" (needs 4 nodes; pool l40s may have 3)')


def test_observe_mode_answers_no_check(begin: Begin) -> None:
    with begin(mode="observe") as stage:
        stage.put("AdmissionCheck", "budget", spec={"controllerName": BUDGET_CHECK})
        stage.queue("budget")
        stage.workload("train")
        stage.run(2 * MINUTE)
        assert (stage.writes(), stage.conditions("train")) == ([], {})


def test_a_check_of_another_controller_is_left_alone(begin: Begin) -> None:
    with begin() as stage:
        active = {"conditions": [{"type": "Active", "status": "True"}]}
        stage.put("AdmissionCheck", "theirs", spec={"controllerName": "example.com/theirs"}, status=active)
        stage.queue("theirs")
        stage.workload("train")
        stage.run(2 * MINUTE)
        assert (stage.check("train")["state"], stage.writes()) == ("Pending", [])
