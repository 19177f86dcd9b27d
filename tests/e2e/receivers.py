"""The receiver as operators run it: `gpu-autoscaler serve` in processes of its own, on a free loopback port."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import requests
import yaml

from demo.configs import ROOT, plain_environment
from demo.plan import API_KEY, REGION
from demo.processes import Process, free_port
from tests.e2e.forked import Forked
from tests.e2e.waiting import PATIENCE, until

WEBHOOK_TOKEN = "SECRET-webhook-token-of-the-tests"
OPERATOR_TOKEN = "SECRET-operator-token-of-the-tests"
POOL = "5f3c0000-0000-4000-8000-0000000000a1"
POLLS_AT_REST = 8  # of `until`, in a row
READABLE_PATHS = (
    "/",
    f"/pools/{POOL}",
    "/decisions/1",
    "/costs",
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/v1/pools",
    f"/api/v1/pools/{POOL}",
    "/api/v1/decisions",
    "/api/v1/actions",
    "/api/v1/budget",
    "/api/v1/overrides",
    "/api/v1/openapi.json",
)


def a_pool(**changes: Any) -> dict[str, Any]:
    """One pool of one-GPU nodes, as the configuration file says it; no cooldown hides that it is asked twice."""
    return {
        "name": "l40s",
        "civo_pool_id": POOL,
        "size": "an.g1.l40s.kube.x1",
        "resources": {"nvidia.com/gpu": 1},
        "max_nodes": 8,
        "cooldown": {"grow": "0s"},
        **changes,
    }


def is_running(pid: int) -> bool:
    """True while *pid* runs; a zombie that nobody reaps does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


class Server(Process):
    """One start of a server, whose exit status counts. Not *forked*, it is what operators start."""

    def __init__(
        self, output: Path, environ: Mapping[str, str], *, forked: bool, ready: Callable[[], bool] = lambda: True
    ) -> None:
        command = (sys.executable, "-m", "receiver.cli.main", "serve")
        super().__init__("receiver", command, ready, output, environ, ROOT)
        self._forked = forked

    def spawn(self) -> None:
        """Start it without waiting."""
        if self._forked:
            self._running = Forked(self._env, self.log)
        else:
            super().spawn()

    def wait(self, seconds: float) -> int:
        """Return the exit status of the process itself, not of its children. Raises TimeoutExpired."""
        assert self._running is not None
        return self._running.wait(seconds)


class Receiver:
    """One installation: a configuration, a store, a port. It may be started again after its end."""

    def __init__(self, folder: Path, config: Mapping[str, Any], environ: Mapping[str, str], store: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.store = store
        self.output = folder / "output"
        file = folder / "config.yaml"
        file.write_text(yaml.safe_dump({"warm_up": "0s", **config}), encoding="utf-8")  # its own test lets it look
        self.address = f"127.0.0.1:{free_port()}"
        self.environ = {
            **plain_environment(),
            "GPU_AUTOSCALER_CONFIG": str(file),
            "GPU_AUTOSCALER_LISTEN": self.address,
            "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{store}",
            "GPU_AUTOSCALER_WEBHOOK_TOKEN": WEBHOOK_TOKEN,
            "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR_TOKEN,
            "CIVO_API_KEY": API_KEY,
            "CIVO_REGION": REGION,
            **environ,
        }
        self._starts: list[Server] = []

    # --- the processes ---

    def start(self, *, forked: bool = True) -> "Receiver":
        """Start gunicorn, by the command line unless *forked*, in a process group of its own; returns at once."""
        server = Server(self.output, self.environ, forked=forked)
        self._starts.append(server)
        server.spawn()
        return self

    def serve(self, *, forked: bool = True) -> "Receiver":
        """Start and wait until the loop leads and has stepped once."""
        self.start(forked=forked)
        self.until_loop("leading")
        until(lambda: self.health()["steps"] >= 1, "a first step")
        return self

    @property
    def server(self) -> Server:
        """The last start."""
        return self._starts[-1]

    @property
    def worker(self) -> int:
        """The process id of the worker that was booted last."""
        return int(re.findall(r"Booting worker with pid: (\d+)", self.said())[-1])

    def kill_worker(self) -> None:
        """SIGKILL the worker alone."""
        os.kill(self.worker, signal.SIGKILL)

    def kill_master(self) -> None:
        """SIGKILL gunicorn's master alone: its worker is an orphan then."""
        self.server.signal(signal.SIGKILL)
        self.server.wait(10)

    def terminate(self, patience: float) -> int:
        """SIGTERM the master as Kubernetes does; return the exit status. Raises TimeoutExpired."""
        self.server.signal(signal.SIGTERM)
        return self.server.wait(patience)

    def end(self) -> None:
        """End every process of every start, an orphaned worker too."""
        for server in self._starts:
            server.kill()

    # --- what it says ---

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.address}"

    def get(self, path: str) -> requests.Response:
        """GET *path*."""
        return requests.get(self.url + path, timeout=60)

    def health(self) -> dict[str, Any]:
        """Return what /healthz says."""
        found: dict[str, Any] = self.get("/healthz").json()
        return found

    def until_loop(self, state: str, patience: float = PATIENCE) -> None:
        """Wait until /healthz says that the loop is *state*."""
        until(lambda: self.health()["loop"] == state, f"a loop that is {state}", patience)

    def until_at_rest(self) -> None:
        """Wait until no step follows the last one by itself; after a start a second one does."""
        steps: list[int] = []

        def rests() -> bool:
            steps.append(self.health()["steps"])
            return steps[-1] >= 2 and steps[-POLLS_AT_REST:] == [steps[-1]] * POLLS_AT_REST

        until(rests, "a loop at rest")

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
        return requests.post(f"{self.url}/webhook", data=data, headers=headers, timeout=60)

    def deliver(self, body: Any) -> int:
        """POST *body*, which must be taken; return the delivery's number."""
        answer = self.post(body)
        assert answer.status_code == 202, answer.text
        number: int = answer.json()["delivery"]
        return number

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Read the store from outside, whether or not a server runs."""
        url = self.environ["GPU_AUTOSCALER_DATABASE_URL"]
        if url.startswith("postgresql:"):
            with psycopg.connect(url, connect_timeout=5) as asked:
                return asked.execute(query.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=60)) as connection:
            return connection.execute(query).fetchall()

    def unconsidered(self) -> list[int]:
        """Return the deliveries that no finished step has considered."""
        return [row[0] for row in self.rows("SELECT id FROM deliveries WHERE considered_at IS NULL")]

    def until_considered(self, patience: float = PATIENCE) -> None:
        """Wait until every delivery was considered."""
        until(lambda: not self.unconsidered(), "every delivery considered", patience)

    def said(self) -> str:
        """Return what every start wrote to standard output and error."""
        return self.output.read_text(encoding="utf-8")

    def log(self, event: str) -> list[dict[str, Any]]:
        """Return the log's lines of *event*."""
        lines = [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]
