"""Civo as the scenarios see it: its API, played by the simulator with levers of the world, or Civo's own."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from conformance.plan import CLUSTER_ID, GPU, LABELS, POOL, PRICE, REGION, SIZE, TAINT
from simulator.server import Simulator

API_KEY = "SECRET-civo-api-key"
# A node is usable about two seconds after it was ordered, and gone one second after its deletion.
QUICK = {
    "build": "1s",
    "boot": "400ms",
    "driver": "600ms",
    "image_pull": "200ms",
    "warmup": "0s",
    "delete": "600ms",
    "node_lingers": "400ms",
    "terminate": "300ms",
    "fill_retry": "2s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Where Civo answers, and with which account. *pool* is the id of the pool that the scenarios may change."""

    url: str
    api_key: str
    region: str
    cluster: str
    pool: str
    size: str
    price: str


class Civo:
    """One pool at Civo. Calls raise requests.RequestException."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"bearer {account.api_key}"
        self._cluster = f"{account.url}/v2/kubernetes/clusters/{account.cluster}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        query = {"region": self.account.region}
        answer = self._session.request(method, self._cluster + path, params=query, json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def instances(self) -> dict[str, str]:
        """Return the pool's instances: hostnames by id."""
        pools = self._call("GET", "")["pools"]
        return {i["id"]: i["hostname"] for p in pools if p["id"] == self.account.pool for i in p["instances"] or ()}

    def required(self) -> int:
        """Return how many nodes the pool is asked to have."""
        pools = self._call("GET", "")["required_pools"]
        return sum(int(p["count"]) for p in pools if p["id"] == self.account.pool)

    def set_count(self, count: int) -> None:
        """Ask for *count* nodes, as a person does in Civo's dashboard."""
        self._call("PUT", f"/pools/{self.account.pool}", {"count": count, "region": self.account.region})

    def delete(self, instance: str) -> None:
        """Delete one instance, as a person does."""
        self._call("DELETE", f"/pools/{self.account.pool}/instances/{instance}")

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


def simulated(**changes: Any) -> Simulator:
    """Return a simulator, not started, with the pool of the scenarios at zero nodes. *changes* lay over its
    configuration."""
    pool = {"id": POOL, "size": SIZE, "resources": {GPU: 1}, "labels": LABELS, "taints": [TAINT]}
    base: dict[str, Any] = {
        "pools": [{**pool, **changes.pop("pool", {})}],
        "region": REGION,
        "cluster": {"id": CLUSTER_ID, "name": "conformance"},
        "civo": {"api_key": API_KEY},
        "metrics": {"pod_labels": ["*"]},
        "timings": {**QUICK, **changes.pop("timings", {})},
        "seed": int.from_bytes(os.urandom(4)),  # names of nodes differ from those of earlier runs
    }
    return Simulator({**base, **changes})


def of_simulator(simulator: Simulator) -> Civo:
    """Return Civo as *simulator* plays it."""
    return Civo(
        Account(
            url=simulator.url,
            api_key=API_KEY,
            region=REGION,
            cluster=CLUSTER_ID,
            pool=POOL,
            size=SIZE,
            price=PRICE,
        )
    )


def of_environment(environ: Mapping[str, str]) -> Civo:
    """Return Civo's own API for the pool that *environ* names. Raises KeyError for a variable that is missing."""
    return Civo(
        Account(
            url=environ.get("CIVO_API_URL", "https://api.civo.com").rstrip("/"),
            api_key=environ["CIVO_API_KEY"],
            region=environ["CIVO_REGION"],
            cluster=environ["CIVO_CLUSTER_ID"],
            pool=environ["CONFORMANCE_POOL_ID"],
            size=environ["CONFORMANCE_POOL_SIZE"],
            price=environ["CONFORMANCE_USD_PER_HOUR"],
        )
    )
