"""The simulator as a server in threads of its own: for tests a context manager, and what ``-m simulator`` runs."""

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from flask import Flask, Response
from werkzeug.routing import Rule

from simulator.civo import civo_face
from simulator.clocks import Clock, SystemClock
from simulator.config import Config, parse
from simulator.connections import Server
from simulator.control import add_fault, control_face
from simulator.gate import Gate, RequestLog
from simulator.http_faults import HttpFaults
from simulator.kubernetes_api import kubernetes_face
from simulator.live import Live
from simulator.metrics import metrics_face
from simulator.world import World

TICK_SECONDS = 0.1


class _Rule(Rule):
    """A path that is only matched: its URL is never built, and preparing that would be most of a start's work."""

    def _compile_builder(
        self,
        append_unknown: bool = True,  # noqa: ARG002 (werkzeug's signature)
    ) -> Callable[..., tuple[str, str]]:
        def unknown(*_: object, **__: object) -> tuple[str, str]:
            raise NotImplementedError("the simulator builds no URLs")

        return unknown


class Simulator:
    """One region, one cluster, one port. Use it as a context manager, or call `start` and `stop`.

    *config* is a Config or what its YAML says. *clock* is the wall clock unless given; with a ManualClock the
    world stands still between two turns. Raises Unreadable for a config that is none, OSError when the
    address cannot be listened on.
    """

    def __init__(self, config: Config | Mapping[str, Any], clock: Clock | None = None) -> None:
        self.config = config if isinstance(config, Config) else parse(config)
        self.clock = clock or SystemClock()
        self.live = Live(self.config, self.clock)
        self.faults = HttpFaults()
        self.log = RequestLog()
        self._server: Server | None = None
        self._threads: list[threading.Thread] = []

    # --- running ---

    def start(self) -> "Simulator":
        """Listen and serve in the background; returns when the port is open."""
        host, port = self.config.address
        app = Flask("simulator", static_folder=None)
        app.url_rule_class = _Rule
        app.url_map.strict_slashes = False
        for face in (
            control_face(self.live, self.faults, self.log),
            civo_face(self.live),
            metrics_face(self.live),
            kubernetes_face(self.live),
        ):
            app.register_blueprint(face)
        app.register_error_handler(404, lambda _: Response("404 page not found\n", 404, content_type="text/plain"))
        gate = Gate(app.wsgi_app, self.live, self.faults, self.log)
        self._server = Server(host, port, gate)
        self._run("serve", self._serve)
        self._run("tick", self._tick)
        return self

    def stop(self) -> None:
        """Let every call go, close the port and end the threads."""
        self.live.stop()
        self.faults.clear()
        if self._server is not None:
            with suppress(OSError):  # the thread that serves waits for a call: this is one
                socket.create_connection(self._server.socket.getsockname()[:2], timeout=1).close()
        for thread in self._threads:
            thread.join(timeout=10)
        if self._server is not None:
            self._server.hang_up()
            self._server.server_close()

    def __enter__(self) -> "Simulator":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- what tests and the demo use ---

    @property
    def url(self) -> str:
        """The base URL: ``http://127.0.0.1:40001``."""
        if self._server is None:
            raise RuntimeError("the simulator was not started")
        host = self.config.address[0]
        shown = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self._server.port}"

    @property
    def world(self) -> World:
        """The world; hold `lock` while you look at it, or use `moved`."""
        return self.live.world

    @property
    def lock(self) -> threading.RLock:
        """The lock that every access to the world takes."""
        return self.live.lock

    def moved(self) -> Any:
        """Return a context manager that locks the world and brings it to the clock's time."""
        return self.live.moved()

    def fault(self, **given: Any) -> None:
        """Let a fault stand, as ``POST /_faults`` does. Raises Unreadable."""
        add_fault(self.live, self.faults, given)

    def addresses(self) -> Mapping[str, str]:
        """Return where each face is."""
        return {
            "url": self.url,
            "civo": self.url,
            "kubernetes": self.url,
            "kube_state_metrics": f"{self.url}/metrics/kube-state-metrics",
            "dcgm_sd": f"{self.url}/sd/dcgm",
            "cluster_id": self.config.cluster.id,
        }

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for the official client to *path* and return it."""
        token = self.config.kubernetes.token or "any-token-will-do"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "simulator",
            "clusters": [{"name": "simulator", "cluster": {"server": self.url}}],
            "users": [{"name": "simulator", "user": {"token": token}}],
            "contexts": [{"name": "simulator", "context": {"cluster": "simulator", "user": "simulator"}}],
        }
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    # --- threads ---

    def _run(self, name: str, what: Any) -> None:
        thread = threading.Thread(target=what, name=f"simulator-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        assert self._server is not None
        while not self.live.stopping.is_set():
            self._server.handle_request()

    def _tick(self) -> None:
        """Let time pass for those who only watch."""
        while not self.live.stopping.wait(TICK_SECONDS):
            self.live.tick()
