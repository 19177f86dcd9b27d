"""The product as operators run it: `gpu-autoscaler serve` in a process of its own, seen over HTTP."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests
import yaml

from demo.configs import ROOT, plain_environment
from demo.processes import Process, answers, free_port
from receiver.adapters.clock import SystemClock

WEBHOOK_TOKEN = "webhook-token-of-this-run"  # noqa: S105 (made up, for loopback only)
OPERATOR_TOKEN = "operator-token-of-this-run"  # noqa: S105 (made up, for loopback only)
LONGEST_LINE = 300  # characters of the log's lines, some of which are whole messages


class Product:
    """One installation on a free loopback port: a configuration, a store, a process that may be started again."""

    def __init__(self, folder: Path, config: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file, self.port = folder / "config.yaml", free_port()
        self._config = dict(config)
        self.url = f"http://127.0.0.1:{self.port}"
        self._pool = config["pools"][0]["civo_pool_id"]
        self._session = requests.Session()
        self._session.trust_env = False
        given = {
            "GPU_AUTOSCALER_CONFIG": str(self._file),
            "GPU_AUTOSCALER_LISTEN": f"127.0.0.1:{self.port}",
            "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{folder / 'ledger.db'}",
            "GPU_AUTOSCALER_WEBHOOK_TOKEN": WEBHOOK_TOKEN,
            "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR_TOKEN,
            **environ,
        }
        command = (sys.executable, "-m", "receiver.cli.main", "serve")
        ready = answers(f"{self.url}/readyz")
        self.process = Process("product", command, ready, folder / "output", {**plain_environment(), **given}, ROOT)

    def start(self, **changes: Any) -> None:
        """Start it and wait until it is ready; *changes* are added to its configuration. Raises NotStarted."""
        self._config |= changes
        self._file.write_text(yaml.safe_dump(self._config), encoding="utf-8")
        self.process.start()

    def kill(self) -> None:
        """SIGKILL every process of it, as the end of its machine would."""
        self.process.kill()

    def stop(self) -> None:
        """End it as Kubernetes does."""
        self.process.stop()
        self._session.close()

    def get(self, path: str) -> Any:
        """Return what it answers to GET *path*. Raises requests.RequestException."""
        answer = self._session.get(self.url + path, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what it answers to POST *path* with the operator's token. Raises requests.RequestException."""
        headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
        answer = self._session.post(self.url + path, json=dict(body), headers=headers, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def beat(self) -> None:
        """Deliver the sign of life, as the Alertmanager of an installation does."""
        labels = {"alertname": "GpuAutoscalerHeartbeat", "component": "gpu-autoscaler", "action": "heartbeat"}
        began = SystemClock().now().isoformat()
        alert = {"status": "firing", "labels": labels, "annotations": {}, "startsAt": began, "fingerprint": "beat"}
        body = {"version": "4", "groupKey": "beat", "status": "firing", "receiver": "gpu-autoscaler", "alerts": [alert]}
        headers = {"Authorization": f"Bearer {WEBHOOK_TOKEN}"}
        self._session.post(f"{self.url}/webhook", json=body, headers=headers, timeout=30).raise_for_status()

    def loop(self) -> str:
        """Return what its loop does (``leading``, ``waiting``), empty while it does not answer."""
        with suppress(requests.RequestException):
            return str(self.get("/healthz")["loop"])
        return ""

    def pool(self) -> dict[str, Any]:
        """Return the pool as its last step found it; empty before the first."""
        with suppress(requests.RequestException):
            return dict(self.get(f"/api/v1/pools/{self._pool}"))
        return {}

    def held_by(self) -> list[str]:
        """Return the guardrails that hold the pool back."""
        return list(self.pool().get("held_by") or ())

    def waits(self, direction: str) -> list[str]:
        """Return what the pool waits for before it grows or shrinks (*direction*: ``grow``, ``shrink``)."""
        return [w["kind"] for w in self.pool().get("waits") or () if w["direction"] == direction]

    def settled(self) -> bool:
        """True if no action is open; False also while it does not answer."""
        with suppress(requests.RequestException):
            return all(action["outcome"] is not None for action in self.get("/api/v1/actions"))
        return False

    def said(self) -> str:
        """Return the end of its log."""
        return "\n".join(line[:LONGEST_LINE] for line in self.process.last_lines(8).splitlines())
