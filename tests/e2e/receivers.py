"""The receiver as operators run it: `gpu-autoscaler serve` in processes of its own, on a free loopback port."""

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.e2e.waiting import until

ROOT = Path(__file__).resolve().parents[2]
WEBHOOK_TOKEN = "SECRET-webhook-token-of-the-tests"
OPERATOR_TOKEN = "SECRET-operator-token-of-the-tests"
CIVO_KEY = "SECRET-civo-api-key"
POOL = "5f3c0000-0000-4000-8000-0000000000a1"
OURS = ("CIVO_", "GPU_AUTOSCALER_", "KUBECONFIG")


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def a_pool(**changes: Any) -> dict[str, Any]:
    """One pool of one-GPU nodes, as the configuration file says it."""
    return {
        "name": "l40s",
        "civo_pool_id": POOL,
        "size": "an.g1.l40s.kube.x1",
        "resources": {"nvidia.com/gpu": 1},
        "max_nodes": 8,
        **changes,
    }


def bare_environ(**given: str) -> dict[str, str]:
    """Return this process' environment without anything of ours, and *given*."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    return {**kept, "NO_PROXY": "*", "no_proxy": "*", **given}


def is_running(pid: int) -> bool:
    """True while *pid* runs; a zombie that nobody reaps does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


class Receiver:
    """One installation: a configuration, a store, a port. It may be started again after its end."""

    def __init__(self, folder: Path, config: Mapping[str, Any], environ: Mapping[str, str], store: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.store = store
        self.port = free_port()
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        self.environ = bare_environ(
            GPU_AUTOSCALER_CONFIG=str(self.config),
            GPU_AUTOSCALER_LISTEN=f"127.0.0.1:{self.port}",
            GPU_AUTOSCALER_DATABASE_URL=f"sqlite:///{store}",
            GPU_AUTOSCALER_WEBHOOK_TOKEN=WEBHOOK_TOKEN,
            GPU_AUTOSCALER_OPERATOR_TOKEN=OPERATOR_TOKEN,
            CIVO_API_KEY=CIVO_KEY,
            CIVO_REGION="LON1",
            **environ,
        )
        self.process: subprocess.Popen[bytes] | None = None
        self._groups: list[int] = []
        self._starts = 0

    # --- the processes ---

    def start(self) -> "Receiver":
        """Start gunicorn as the command line does, in a process group of its own; returns at once."""
        self._starts += 1
        with self.stdout.open("ab") as out, self.stderr.open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "receiver.cli", "serve"],
                cwd=ROOT,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._groups.append(self.process.pid)
        return self

    def serve(self) -> "Receiver":
        """Start and wait until the loop leads and has stepped once."""
        self.start()
        self.until_loop("leading")
        until(lambda: self.health()["steps"] >= 1, "a first step")
        return self

    @property
    def stdout(self) -> Path:
        """What every start said on standard output."""
        return self.folder / "stdout"

    @property
    def stderr(self) -> Path:
        """What every start said on standard error."""
        return self.folder / "stderr"

    @property
    def master(self) -> int:
        """The process id of gunicorn's master."""
        assert self.process is not None
        return self.process.pid

    @property
    def worker(self) -> int:
        """The process id of the worker that was booted last."""
        return int(re.findall(r"Booting worker with pid: (\d+)", self.stderr.read_text())[-1])

    def kill(self, *pids: int) -> None:
        """SIGKILL *pids*, or the whole process group when none are named."""
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if not pids:
            os.killpg(self.master, signal.SIGKILL)
        if self.process is not None and (not pids or self.master in pids):
            self.process.wait(10)

    def terminate(self, patience: float) -> int:
        """SIGTERM the master as Kubernetes does; return the exit status. Raises TimeoutExpired."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(patience)

    def wait(self, patience: float = 20) -> int:
        """Return the exit status of a server that ends by itself."""
        assert self.process is not None
        return self.process.wait(patience)

    def end(self) -> None:
        """End every process of every start, an orphaned worker too."""
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(10)

    # --- what it says ---

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> requests.Response:
        """GET *path*."""
        return requests.get(self.url + path, timeout=10)

    def health(self) -> dict[str, Any]:
        """Return what /healthz says."""
        found: dict[str, Any] = self.get("/healthz").json()
        return found

    def until_loop(self, state: str, patience: float = 25.0) -> None:
        """Wait until /healthz says that the loop is *state*."""
        until(lambda: self.health()["loop"] == state, f"a loop that is {state}", patience)

    def pool(self) -> dict[str, Any]:
        """Return the one pool as the last step found it."""
        found: dict[str, Any] = self.get(f"/api/v1/pools/{POOL}").json()
        return found

    def post(self, body: Any, token: str | None = WEBHOOK_TOKEN) -> requests.Response:
        """POST *body* (bytes, chunks, or what JSON can say) to the webhook."""
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = json.dumps(body).encode() if isinstance(body, dict | list) else body
        return requests.post(f"{self.url}/webhook", data=data, headers=headers, timeout=15)

    def deliver(self, body: Any) -> int:
        """POST *body*, which must be taken; return the delivery's number."""
        answer = self.post(body)
        assert answer.status_code == 202, answer.text
        number: int = answer.json()["delivery"]
        return number

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Read the store from outside, whether or not a server runs."""
        with contextlib.closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=5)) as connection:
            return connection.execute(query).fetchall()

    def unconsidered(self) -> list[int]:
        """Return the deliveries that no finished step has considered."""
        return [row[0] for row in self.rows("SELECT id FROM deliveries WHERE considered_at IS NULL")]

    def until_considered(self, patience: float = 25.0) -> None:
        """Wait until every delivery was considered."""
        until(lambda: not self.unconsidered(), "every delivery considered", patience)

    def log(self, event: str) -> list[dict[str, Any]]:
        """Return the log's lines of *event*."""
        lines = [json.loads(line) for line in self.stdout.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]
