"""Two installations of the product in one simulated cluster, each with a pool of its own, and the work of an hour.

``.venv/bin/python -m campaigns.two_installations`` plays it and prints who answered how many objects.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, connect
from receiver.adapters.kubernetes.installations import Own
from receiver.core.model.policy import Budget, Policy, Pool, Taint
from receiver.ports import BUDGET_CHECK, MAY_WAIT, PROVISIONING_CLASS, Did, Receipt
from simulator.clocks import ManualClock
from simulator.manifests import pod_spec
from simulator.server import Simulator
from tests.core.builders import HOURLY
from tests.given.life import PRICE, Life
from tests.given.requests import EVERY_READER
from tests.simulator.builders import START, config
from tests.step.kueue_stage import GPU, KUEUE, WorldClock
from tests.stores import a_store

SCALING = "autoscaling.x-k8s.io"
POOLS = {"l40s": "an.g1.l40s.kube.x1", "a100": "an.g1.a100.kube.x1"}  # by installation, which is called as its pool
TAINTS = (Taint(key="gpu", value="true", effect="NoSchedule"),)
MINUTE, TICK = timedelta(minutes=1), timedelta(seconds=20)
# The writes that answer, and how to read whom: everything but what an installation does to its own nodes.
ANSWERS = ("answer_request", "admit", "record_event", "scale_to_zero")


class Witness:
    """A cluster port that notes the answers that were written."""

    def __init__(self, inner: Any, who: str, answered: defaultdict[str, set[str]]) -> None:
        self._inner, self._who, self._answered = inner, who, answered

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ANSWERS:
            return found

        def written(about: Any, *args: Any, **given: Any) -> Receipt:
            receipt: Receipt = found(about, *args, **given)
            if receipt.did is Did.DONE:
                self._answered[about.key].add(self._who)
            return receipt

        return written


@dataclass
class Shared:
    """The cluster, the *lives* of the installations in it by name, and who *answered* each object (by its key)."""

    sim: Simulator
    lives: dict[str, Life] = field(default_factory=dict)
    answered: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def put(self, api: str, kind: str, name: str, *, namespace: str = "ml", **said: Any) -> None:
        where = {"namespace": namespace} if namespace else {}
        metadata = {**where, "name": name, **said.pop("metadata", {})}
        with self.sim.moved() as world:
            one = {"apiVersion": api, "kind": kind, "metadata": metadata, **said}
            self.sim.live.custom.put([one], world.now)

    def queue(self, gpu: str, *checks: str) -> None:
        """A ClusterQueue of Kueue for the nodes with a label, with *checks*."""
        api, resources = f"{KUEUE}/v1beta2", [{"name": GPU, "nominalQuota": "20"}]
        groups = [{"coveredResources": [GPU], "flavors": [{"name": gpu, "resources": resources}]}]
        strategy = {"admissionChecks": [{"name": check} for check in checks]}
        self.put(api, "ResourceFlavor", gpu, namespace="", spec={"nodeLabels": {"gpu": gpu}})
        spec = {"resourceGroups": groups, "admissionChecksStrategy": strategy}
        self.put(api, "ClusterQueue", gpu, namespace="", spec=spec)

    def check(self, name: str = "budget", **annotations: str) -> None:
        spec = {"controllerName": BUDGET_CHECK}
        api = f"{KUEUE}/v1beta2"
        self.put(api, "AdmissionCheck", name, namespace="", metadata={"annotations": annotations}, spec=spec)

    def workload(self, name: str, queue: str, pods: int = 1) -> None:
        pod_sets = [{"name": "main", "count": pods, "template": template()}]
        spec = {"active": True, "queueName": queue, "podSets": pod_sets}
        self.put(f"{KUEUE}/v1beta2", "Workload", name, spec=spec)

    def request(self, name: str, count: int, gpus: int = 1, *, parameters: Any = None, **selector: Any) -> None:
        """A ProvisioningRequest for *count* pods."""
        self.put("v1", "PodTemplate", f"ppt-{name}", template=template(gpus, **selector))
        sets = [{"podTemplateRef": {"name": f"ppt-{name}"}, "count": count}]
        spec = {"provisioningClassName": PROVISIONING_CLASS, "podSets": sets, "parameters": parameters or {}}
        self.put(f"{SCALING}/v1beta1", "ProvisioningRequest", name, spec=spec)

    def buffer(self, name: str, **selector: Any) -> None:
        self.put("v1", "PodTemplate", f"cbt-{name}", template=template(**selector))
        spec = {"podTemplateRef": {"name": f"cbt-{name}"}, "replicas": 1}
        self.put(f"{SCALING}/v1beta1", "CapacityBuffer", name, spec=spec)

    def pod(self, name: str, gpus: int = 1, *, gate: bool = False, **selector: Any) -> None:
        """A bare pod; with a *gate* it may wait for three minutes."""
        metadata: dict[str, Any] = {"namespace": "ml", "name": name}
        found = template(gpus, **selector)
        metadata["annotations"] = {**found["metadata"]["annotations"], **({MAY_WAIT: "3m"} if gate else {})}
        gates = [{"name": MAY_WAIT}] if gate else []
        with self.sim.moved() as world:
            world.add_pod(pod_spec({"metadata": metadata, "spec": {**found["spec"], "schedulingGates": gates}}))

    def conditions(self, name: str) -> dict[str, str]:
        """Type and status of the conditions of a ProvisioningRequest."""
        found = self.sim.live.custom.find(SCALING, "provisioningrequests", name, "ml")
        return {c["type"]: c["status"] for c in ((found or {}).get("status") or {}).get("conditions") or ()}

    def check_of(self, name: str, check: str = "budget") -> str:
        """The state of a check in a Workload."""
        found = self.sim.live.custom.find(KUEUE, "workloads", name, "ml") or {}
        states = (found.get("status") or {}).get("admissionChecks") or ()
        return next((str(entry["state"]) for entry in states if entry["name"] == check), "")

    def run(self, length: timedelta, only: Sequence[str] = ()) -> None:
        """Let every installation (or *only* some) take a step each tick."""
        end = self.sim.live.world.now + length
        while self.sim.live.world.now < end:
            for name, life in self.lives.items():
                if name in only or not only:
                    life.step()
            with self.sim.live.lock:
                self.sim.live.world.advance(self.sim.live.world.now + TICK)
            with self.sim.moved():
                pass  # Kueue's turn

    def notices(self, who: str) -> list[str]:
        return list(self.lives[who].notices())


def template(gpus: int = 1, **selector: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "train", "resources": {"requests": {GPU: str(gpus)}}}
    spec = {"containers": [container], "tolerations": [{"operator": "Exists"}], "nodeSelector": selector}
    return {"metadata": {"annotations": {"simulator/duration-seconds": "300"}}, "spec": spec}


def a_pool(name: str, **changes: Any) -> Pool:
    said: dict[str, Any] = {
        "id": f"pool-{name}",
        "name": name,
        "size": POOLS[name],
        "resources": {GPU: 1},
        "labels": {"gpu": name},
        "taints": TAINTS,
        "max_nodes": 6,
        "price_usd_per_hour": PRICE,
    }
    return Pool(**{**said, **changes})


@contextmanager
def sharing(folder: Path, *, known: bool = True, budget: str = "100000") -> Iterator[Shared]:
    """Begin with both installations and no node; unless they are *known* to each other, each believes it is alone."""
    taints = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    pools = [
        {"id": f"pool-{name}", "size": size, "resources": {GPU: 1}, "labels": {"gpu": name}, "taints": taints}
        for name, size in POOLS.items()
    ]
    face = {
        "kueue": True,
        "installed": [f"{KUEUE}/v1beta2", f"{SCALING}/v1beta1"],
        "daemonsets": False,
    }
    with ExitStack() as ends:
        sim = ends.enter_context(Simulator(config(pools=pools, kubernetes=face), clock=ManualClock(START)))
        shared = Shared(sim)
        for name in POOLS:
            kubeconfig = str(sim.kubeconfig(folder / f"kubeconfig-{name}"))
            names = (name, f"pool-{name}")
            cluster = connect(
                kubeconfig,
                clock=WorldClock(sim),
                calls=Calls(timeouts=(10, 30)),
                options=ClusterOptions(
                    installation=Own(key=f"{name}/gpu-autoscaler", release="0.2.0") if known else None,
                    pools=partial(tuple[str, ...], names),
                    readers=EVERY_READER,
                ),
            )
            ends.callback(cluster.close)
            policy = Policy(
                pools=(a_pool(name),),
                billing=HOURLY,
                budget=Budget(monthly_usd=Decimal(budget)),
                heartbeat_interval=10 * MINUTE,
            )
            life = Life(sim.live.world, policy, ends.enter_context(a_store()), lock=sim.live.lock)
            life.cluster = Witness(cluster, name, shared.answered)  # type: ignore[assignment]
            shared.lives[name] = life
        yield shared


@dataclass
class Played:
    """What became of an hour: who answered each object, by key, and whose it is (empty: nobody's)."""

    answered: dict[str, set[str]]
    owners: dict[str, str]

    def wrong(self) -> list[str]:
        """What was answered by another than its owner, or not at all, in words."""
        return [
            f"{key} of {owner or 'neither'}: answered by {', '.join(sorted(self.answered.get(key, ()))) or 'neither'}"
            for key, owner in self.owners.items()
            if self.answered.get(key, set()) != ({owner} if owner else set())
        ]

    def __str__(self) -> str:
        kinds: dict[str, list[int]] = {}
        for key, owner in self.owners.items():
            found = kinds.setdefault(key.partition("/")[2].split("-")[0], [0, 0, 0])
            found[0] += 1
            answered = self.answered.get(key, set())
            found[1] += answered == ({owner} if owner else set())
            found[2] += bool(answered - ({owner} if owner else set()))
        rows = [f"{kind:<12}{n:>9}{right:>9}{wrong:>9}" for kind, (n, right, wrong) in kinds.items()]
        return "\n".join([f"{'':<12}{'objects':>9}{'right':>9}{'foreign':>9}", *rows])


FIRST = min(POOLS)  # the installation whose key comes first: it answers for what is too large for both


def played(shared: Shared, turns: int = 10) -> Played:
    """Play an hour, or fewer *turns*: every five minutes work of every kind for each pool, and some that fits
    neither."""
    owners: dict[str, str] = {}
    shared.run(MINUTE)
    shared.check()
    for gpu in POOLS:
        shared.queue(gpu, "budget")
    for turn in range(turns):
        for gpu in POOLS:
            name = f"{gpu}-{turn}"
            shared.workload(f"workload-{name}", gpu)
            shared.request(f"request-{name}", 2, gpu=gpu)
            shared.pod(f"gated-{name}", gate=True, gpu=gpu)
            by_size: dict[str, Any] = {"node.kubernetes.io/instance-type": POOLS[gpu]}
            shared.pod(f"misfit-{name}", gpus=8, **by_size)
            kinds = ["workload", "request", "gated", "misfit"]
            if turn == 0:
                shared.buffer(f"buffer-{name}", gpu=gpu)
                kinds.append("buffer")
            if turn % 3 == 0:
                shared.request(f"large-{name}", 9, gpu=gpu)
                kinds.append("large")
            owners |= {f"ml/{kind}-{name}": gpu for kind in kinds}
        shared.pod(f"elsewhere-{turn}", gpu="h100")
        shared.request(f"anywhere-{turn}", 20)
        shared.pod(f"giant-{turn}", gpus=16)
        owners |= {f"ml/elsewhere-{turn}": "", f"ml/anywhere-{turn}": FIRST, f"ml/giant-{turn}": FIRST}
        shared.run(5 * MINUTE)
    shared.run(5 * MINUTE)
    return Played({key: found for key, found in shared.answered.items() if key in owners}, owners)


def main() -> int:
    """Play both hours and print who answered what. Returns the exit code: 1 for a wrong answer where each sees the
    other. Where neither does, wrong answers are what is compared."""
    with tempfile.TemporaryDirectory() as folder:
        for known in (False, True):
            with sharing(Path(folder), known=known) as shared:
                hour = played(shared)
            print("each sees the other" if known else "neither sees the other")  # noqa: T201 (what it is for)
            print(f"{hour}\nwrong: {len(hour.wrong())}")  # noqa: T201
    return 1 if hour.wrong() else 0


if __name__ == "__main__":
    raise SystemExit(main())
