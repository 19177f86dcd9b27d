"""Everything that one scenario plays with: cluster, Civo, the product, and the levers between them."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import requests
import urllib3
import yaml

from conformance.civo import Civo, of_environment, of_simulator, simulated
from conformance.cluster import Cluster
from conformance.hollow_nodes import HollowNodes, Kubelet
from conformance.kubernetes_api import JSON, Api, ApiRefused, kubeconfig_for, part
from conformance.levers import Call, Lever
from conformance.monitoring import Beating, Monitoring
from conformance.plan import GPU, LABELS, NAMESPACE, TAINT
from conformance.product import Product
from conformance.scenario import Scenario, UnavailableError, UnmetError
from demo.configs import merged
from demo.processes import NotStarted
from simulator.server import Simulator

PATIENCE = 60.0  # seconds
POLL = 0.1  # seconds
RESIZE, REMOVAL = r"/pools/[^/]+\?", r"/pools/[^/]+/instances/[^/?]+"
NOT_ANSWERING = (OSError, requests.RequestException, urllib3.exceptions.HTTPError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the scenarios are played. *kubeconfig* None is the simulator's own cluster; *environ* has the real Civo's
    account where *real_civo*. *token* is the product's in the cluster. URLs are of what the user has already."""

    folder: Path
    kubeconfig: Path | None = None
    real_civo: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    kubelet: Kubelet = "stub"
    prometheus: str | None = None
    alertmanager: str | None = None
    patience: float = 1.0  # times the usual time that anything may take
    token: str = "no-token-is-checked"  # noqa: S105 (the simulator checks none)


def is_work_of_others(pod: JSON) -> bool:
    """True for a pod of another namespace that waits for a node: the product serves the scenarios' alone. Pods that
    have a node are shown, because they may keep one."""
    return part(pod, "metadata").get("namespace") != NAMESPACE and not part(pod, "spec").get("nodeName")


class Stage:
    """One scenario's; a context manager that starts all but the product, and leaves nothing behind."""

    def __init__(self, place: Place, scenario: Scenario) -> None:
        self.place, self.scenario = place, scenario
        self.folder = place.folder / re.sub(r"\W+", "-", scenario.name)
        self.broken: list[str] = []  # what must never happen, and did
        self.bought: dict[str, str] = {}  # hostnames by id of every instance that was ever seen
        self.figures: dict[str, float | int | str] = {}
        self._ends = ExitStack()
        self._done = threading.Event()
        self.simulator: Simulator | None = None
        self._monitoring: Monitoring | None = None

    def __enter__(self) -> "Stage":
        self.folder.mkdir(parents=True)
        try:
            self._start()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def _start(self) -> None:
        place = self.place
        if not place.real_civo:
            self.simulator = self._ends.enter_context(simulated(**self.scenario.civo))
        self.civo: Civo = of_environment(place.environ) if self.simulator is None else of_simulator(self.simulator)
        self._ends.callback(self.civo.close)
        kubeconfig = place.kubeconfig
        if kubeconfig is None:
            assert self.simulator is not None
            kubeconfig = self.simulator.kubeconfig(self.folder / "simulator-kubeconfig")
        api = Api(kubeconfig)
        self._ends.callback(api.close)
        self.cluster = Cluster(api, self.civo.account.pool)
        self.cluster.begin()
        if self.simulator is not None and place.kubeconfig is not None:
            hollow = HollowNodes(self.simulator, api, place.kubelet)
            self._ends.callback(hollow.stop)
            hollow.start()
        self._ends.callback(self.cluster.clear)
        if self.simulator is None:
            self._ends.callback(self._empty_pool)
        self.civo_lever = self._lever(self.civo.account.url, None, self._note_civo_call)
        self.kubernetes_lever = self._lever(api.host, api.anonymous_pool(), hides=is_work_of_others)
        self._ends.callback(self._done.set)
        threading.Thread(target=self._watch_civo, daemon=True).start()

    def _lever(
        self,
        upstream: str,
        pool: urllib3.PoolManager | None = None,
        seen: Callable[[Call], None] | None = None,
        hides: Callable[[JSON], bool] | None = None,
    ) -> Lever:
        lever = Lever(upstream, pool, seen, hides)
        self._ends.callback(lever.close)
        return lever

    def _empty_pool(self) -> None:
        """Bring Civo's real pool back to zero: the product is gone, and the pool is the scenarios' own."""
        for instance in self.civo.instances():
            self.civo.delete(instance)

    # --- the product ---

    def serve(self, name: str = "product", database: str | None = None) -> Product:
        """Start the product, wait until its loop leads (or waits for one that does) and return it."""
        product = self._install(name, database)
        product.start(**self._sources(product))
        self.until(lambda: product.loop() in ("leading", "waiting"), "a loop that leads or waits")
        if self._monitoring is None:
            product.beat()
        if product.loop() == "leading":
            self.until(lambda: bool(product.pool().get("decision")), "a first step of the product")
        return product

    def _install(self, name: str, database: str | None) -> Product:
        config: dict[str, Any] = {
            "cluster_name": "conformance",
            "mode": "act",
            "tick": "1s",
            "warm_up": "0s",
            "billing": {"granularity": "1s"},
            "pools": [{**self._pool(), **self.scenario.pool}],
        }
        account, kubeconfig = self.civo.account, self.folder / f"{name}-kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(kubeconfig_for(self.kubernetes_lever.url, self.place.token)))
        environ = {
            "CIVO_API_KEY": account.api_key,
            "CIVO_API_URL": self.civo_lever.url,
            "CIVO_REGION": account.region,
            "CIVO_CLUSTER_ID": account.cluster,
            "KUBECONFIG": str(kubeconfig),
            **({"GPU_AUTOSCALER_DATABASE_URL": database} if database else {}),
        }
        product = Product(self.folder / name, merged(config, self.scenario.config), environ)
        self._ends.callback(product.stop)
        self.product = product
        return product

    def _pool(self) -> dict[str, Any]:
        account = self.civo.account
        return {
            "name": "gpu",
            "civo_pool_id": account.pool,
            "size": account.size,
            "resources": {GPU: 1},
            "price_usd_per_hour": account.price,
            "labels": LABELS,
            "taints": [TAINT],
            "max_nodes": self.scenario.nodes,
            "cooldown": {"grow": "0s", "shrink": "0s"},
            "idle_for": "3s",
        }

    def _sources(self, product: Product) -> dict[str, Any]:
        """Start what the product asks beside Civo and Kubernetes, and return where it is."""
        if self.scenario.monitoring and not (self.place.prometheus and self.place.alertmanager):
            self._monitoring = self._real_monitoring(product.port)
        prometheus, alertmanager = self.place.prometheus, self.place.alertmanager
        if self._monitoring is not None:
            prometheus = prometheus or self._monitoring.prometheus_url
            alertmanager = alertmanager or self._monitoring.alertmanager_url
        if prometheus is None:
            beating = Beating()
            self._ends.callback(beating.close)
            prometheus = beating.url
        self.prometheus_lever = self._lever(prometheus)
        found: dict[str, Any] = {"prometheus": {"url": self.prometheus_lever.url}}
        if alertmanager is not None:
            self.alertmanager_url = alertmanager
            self.alertmanager_lever = self._lever(alertmanager)
            found["alertmanager"] = {"urls": [self.alertmanager_lever.url]}
        return found

    def _real_monitoring(self, port: int) -> Monitoring:
        try:
            monitoring = Monitoring(self.folder / "monitoring", self.cluster, port)
            self._ends.callback(monitoring.stop)
            monitoring.start()
        except (NotStarted, FileNotFoundError) as error:
            raise UnavailableError(f"needs Prometheus and Alertmanager: {error}") from None
        return monitoring

    # --- waiting ---

    def until(self, check: Callable[[], object], what: str, seconds: float = PATIENCE) -> float:
        """Wait until *check* is true and return how many seconds that took. Raises UnmetError naming *what*."""
        begun, seconds = time.monotonic(), seconds * self.place.patience
        while not self._true(check):
            if time.monotonic() - begun > seconds:
                raise UnmetError(f"{what}: not within {seconds:g} s; {self.state()}")
            time.sleep(POLL)
        return time.monotonic() - begun

    def holds(self, check: Callable[[], object], what: str, seconds: float) -> None:
        """Watch that *check* stays true for that long. Raises UnmetError naming *what*."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self._true(check):
                raise UnmetError(f"{what}: no longer so; {self.state()}")
            time.sleep(POLL)

    def _true(self, check: Callable[[], object]) -> bool:
        try:
            return bool(check())
        except NOT_ANSWERING:
            return False
        except ApiRefused as refused:  # an API server that starts or is busy
            if refused.status < 500 and refused.status != 429:
                raise
            return False

    def state(self) -> str:
        """Return in a line how things stand."""
        with suppress(*NOT_ANSWERING, ApiRefused):
            pods = dict(Counter(part(p, "status").get("phase", "") for p in self.cluster.pods().values()))
            pool = self.product.pool() if hasattr(self, "product") else {}
            said = {k: pool.get(k) for k in ("required", "ready", "building", "held_by", "because")}
            counts = f"Civo has {self.civo.required()} required, {len(self.civo.instances())} instances"
            return f"{counts}; pods {pods}; cordoned {self.cluster.cordoned()}; the product says {said}"
        return "a source does not answer"

    # --- what happens meanwhile ---

    def have_nodes(self, count: int) -> list[str]:
        """Bring the pool to *count* usable nodes without the product, and return their names."""
        self.civo.set_count(count)
        self.until(lambda: len(self.cluster.usable()) == count, f"{count} usable nodes", 60.0)
        self._look()
        return self.cluster.usable()

    def instance_of(self, node: str) -> str:
        """Return the id of the instance of *node*. Raises UnmetError where there is no such Node."""
        found = self.cluster.nodes().get(node)
        if found is None:
            raise UnmetError(f"node {node} has no Node object; {self.state()}")
        return str(part(found, "spec").get("providerID") or "").removeprefix("civo://")

    def node_of(self, pod: str) -> str:
        """Return the node of *pod*. Raises UnmetError where it has none."""
        found = part(self.cluster.pods().get(pod, {}), "spec").get("nodeName")
        if not found:
            raise UnmetError(f"pod {pod} is on no node; {self.state()}")
        return str(found)

    def resizes(self) -> list[int]:
        """Return the counts that the product asked Civo for, in order."""
        return [c.json["count"] for c in self.civo_lever.sent("PUT", RESIZE)]

    def removals(self) -> list[str]:
        """Return the instances whose deletion the product asked Civo for, in order."""
        calls = self.civo_lever.sent("DELETE", REMOVAL)
        return [re.split(r"[/?]", c.path.partition("/instances/")[2])[0] for c in calls]

    def levered(self) -> Simulator:
        """Return the simulated Civo. Raises UnavailableError where it is the real one."""
        if self.simulator is None:
            raise UnavailableError("needs the simulated Civo (CIVO=stub)")
        return self.simulator

    def own_alertmanager(self) -> None:
        """Raise UnavailableError where Alertmanager is the user's, which does not deliver to this product."""
        if self.place.alertmanager is not None:
            raise UnavailableError("needs an Alertmanager that delivers here: leave out --alertmanager")

    def _watch_civo(self) -> None:
        while not self._done.wait(0.3):
            with suppress(*NOT_ANSWERING):
                self._look()

    def _look(self) -> None:
        self.bought.update(self.civo.instances())

    def _note_civo_call(self, call: Call) -> None:
        """Hold what must never happen against each write, right before it takes effect."""
        with suppress(*NOT_ANSWERING, ApiRefused):
            if call.method == "PUT":
                asked, had = int(call.json["count"]), self.civo.required()
                if asked < had:
                    self.broken.append(f"the count was lowered from {had} to {asked}")
                if asked > self.scenario.nodes:
                    self.broken.append(f"{asked} nodes were asked for, and the maximum is {self.scenario.nodes}")
            elif call.method == "DELETE":
                instance = re.split(r"[/?]", call.path.partition("/instances/")[2])[0]
                if pods := self.cluster.gpu_pods_on(instance):
                    self.broken.append(f"a node was deleted with {', '.join(pods)} on it")
