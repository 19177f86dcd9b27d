"""A small region for tests: one L40S pool, one CPU pool, quick and exact timings, a clock that the test turns."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import requests
from kubernetes import client
from kubernetes import config as kubernetes_config

from simulator.clocks import Clock
from simulator.server import Simulator

# Every field of the official client's models may be None; checking that in each assertion would hide the test.
k8s: Any = client
kubeconfigs: Any = kubernetes_config

Starter = Callable[..., Simulator]

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
CLUSTER = "c1a55e5e-0000-4000-8000-000000000001"
GPU_POOL = "pool-gpu"
CPU_POOL = "pool-cpu"
KEY = "SECRET-civo-api-key"
GPU = "nvidia.com/gpu"


@contextmanager
def starting(clock: Callable[[], Clock | None] = lambda: None) -> Iterator[Starter]:
    """Start simulators with `config` and changes, each by its own clock (None: the wall's); end them at last."""
    running: list[Simulator] = []

    def begin(**changes: Any) -> Simulator:
        running.append(Simulator(config(**changes), clock=clock()).start())
        return running[-1]

    try:
        yield begin
    finally:
        for simulator in running:
            simulator.stop()


def config(**changes: Any) -> Mapping[str, Any]:
    """Return a simulator's configuration: GPU nodes take 60 s to build, 10 s to boot, 30 s for the driver."""
    return {
        "pools": [
            {
                "id": GPU_POOL,
                "size": "an.g1.l40s.kube.x1",
                "resources": {GPU: 1},
                "labels": {"gpu": "on-demand"},
                "taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}],
                "count": 1,
            },
            {"id": CPU_POOL, "size": "g4s.kube.medium", "resources": {}, "cpu_cores": 2, "ram_mb": 4096, "disk_gb": 50},
        ],
        "timings": {"build": "60s", "boot": "10s", "driver": "30s", "delete": "10s", "node_lingers": "5s"},
        **changes,
    }


class Civo:
    """Calls Civo's face as a client would."""

    def __init__(self, url: str, key: str = KEY) -> None:
        self.url = url
        self.headers = {"Authorization": f"bearer {key}"}
        self.cluster = f"/v2/kubernetes/clusters/{CLUSTER}"

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        """Send one call with key and region."""
        headers = {**self.headers, **more.pop("headers", {})}
        params = {"region": "LON1", **more.pop("params", {})}
        return requests.request(method, self.url + path, headers=headers, params=params, **{"timeout": 60, **more})

    def get(self, path: str, **more: Any) -> Any:
        """GET and decode, for calls that must succeed."""
        response = self.call("GET", path, **more)
        assert response.status_code == 200, response.text
        return response.json()

    def pool(self, pool: str = GPU_POOL) -> Any:
        """GET one pool."""
        return self.get(f"{self.cluster}/pools/{pool}")

    def required(self, pool: str = GPU_POOL) -> Any:
        """Return a pool's required count, as the cluster shows it."""
        found = self.get(self.cluster)["required_pools"]
        return next(p["count"] for p in found if p["id"] == pool)

    def resize(self, count: int, pool: str = GPU_POOL, **more: Any) -> requests.Response:
        """PUT a pool's count."""
        return self.call("PUT", f"{self.cluster}/pools/{pool}", json={"count": count, "region": "LON1"}, **more)


def a_pod_manifest(name: str, gpus: int = 1, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> Any:
    """Return a pod as people write it: GPUs as a limit alone, and a toleration of the GPU pool's taint."""
    container = {"name": "main", "image": "x", "resources": {"limits": {GPU: str(gpus)}} if gpus else {}}
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [container], "tolerations": [{"key": "gpu", "operator": "Exists"}], **spec},
    }
