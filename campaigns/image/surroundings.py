"""What a server is put in front of: the simulator, a Prometheus that beats, and the files that an operator writes."""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from demo.plan import API_KEY, REGION
from demo.processes import free_port, wait_until
from simulator.server import Simulator
from tests.e2e.clouds import a_cloud
from tests.e2e.installing import a_beating_prometheus
from tests.e2e.receivers import OPERATOR_TOKEN, WEBHOOK_TOKEN, a_pool
from tests.payloads import a_payload

PATIENCE = 90.0  # seconds until a server on a busy machine has stepped
SECRETS = {"civo-api-key": API_KEY, "webhook-token": WEBHOOK_TOKEN, "operator-token": OPERATOR_TOKEN}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A simulated cloud, where Prometheus is, and the port at which a server shall listen."""

    cloud: Simulator
    prometheus: str
    port: int

    def write(self, folder: Path) -> None:
        """Write configuration, kubeconfig and secrets into *folder*, readable by everybody."""
        folder.mkdir(parents=True, exist_ok=True)
        said = {"mode": "act", "tick": "1s", "prometheus": {"url": self.prometheus}, "pools": [a_pool()]}
        (folder / "config.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
        self.cloud.kubeconfig(folder / "kubeconfig")
        for name, secret in SECRETS.items():
            (folder / name).write_text(f"{secret}\n", encoding="utf-8")
        folder.chmod(0o755)
        for file in folder.iterdir():
            file.chmod(0o644)

    def where(self) -> dict[str, str]:
        """The variables that say where Civo is and where to listen; they are no secrets."""
        return {
            "CIVO_API_URL": self.cloud.url,
            "CIVO_REGION": REGION,
            "CIVO_CLUSTER_ID": self.cloud.config.cluster.id,
            "GPU_AUTOSCALER_LISTEN": f"127.0.0.1:{self.port}",
        }

    def get(self, path: str) -> requests.Response:
        """GET *path* of the server."""
        return requests.get(f"http://127.0.0.1:{self.port}{path}", timeout=10)

    def until_stepped(self, alive: Callable[[], object]) -> tuple[float, Mapping[str, Any]]:
        """Return the seconds until ``/healthz`` was 200 with a step behind it, and what it said.

        Raises TimeoutError, and RuntimeError when *alive* is not true any more.
        """
        begun, last = time.monotonic(), {}

        def stepped() -> bool:
            if not alive():
                raise RuntimeError("the server ended by itself")
            try:
                answer = self.get("/healthz")
            except requests.RequestException:
                return False
            last.update(answer.json())
            return answer.status_code == 200 and last["steps"] >= 1

        wait_until(stepped, PATIENCE, "a first step")
        return time.monotonic() - begun, last

    def deliver(self) -> int:
        """POST an alert; return the status of the answer."""
        headers = {"Authorization": f"Bearer {WEBHOOK_TOKEN}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.port}/webhook"
        return requests.post(url, data=json.dumps(a_payload()), headers=headers, timeout=15).status_code


@contextmanager
def surroundings() -> Iterator[Surroundings]:
    """Yield surroundings of their own; they end with the block."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for each query tells nobody anything
    with a_cloud() as cloud, a_beating_prometheus() as prometheus:
        yield Surroundings(cloud, prometheus, free_port())
