"""The stack: simulator, Prometheus, Alertmanager peers and the autoscaler, each a process of its own.

    with running(StackPlan(pools=(PoolPlan(name="l40s", id="..."),)), Path("/tmp/here")) as stack:
        stack.simulator_post("/_jobs", {"id": "train", "duration": "20s"})
        stack.wait_until(lambda: stack.state()["finished"], 60, "the job done")

Nothing is printed. Every part is stopped when the block is left, whatever the reason; a signal that ends the
process has to become an exception for that (`signals_end_the_block`).
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from demo.configs import ROOT, plain_environment, receiver_environment, write_configs
from demo.plan import OPERATOR_TOKEN, Places, StackPlan
from demo.processes import Process, answers, free_port, wait_until

HTTP_SECONDS = 15.0
# A tool is of its server's version.
SERVERS = {"promtool": "prometheus", "amtool": "alertmanager", "vmalert": "victoria-metrics"}


def binary(name: str) -> str:
    """Return where *name* is. Raises FileNotFoundError.

    The variable PROMETHEUS names a prometheus, and promtool stands beside it; ALERTMANAGER an alertmanager, and amtool;
    VICTORIA_METRICS a victoria-metrics, and vmalert. Of several, separated by commas, the first counts. Without them it
    is the one in .build or on PATH.
    """
    server = SERVERS.get(name, name)
    variable = server.upper().replace("-", "_")
    if named := os.environ.get(variable, "").partition(",")[0].strip():
        place = ROOT / named if name == server else (ROOT / named).with_name(name)
        if not place.is_file():
            raise FileNotFoundError(f"{place} was not found, and {variable} is {named}")
        return str(place)
    ours = next((p for folder in ("", "victoria") if (p := ROOT / ".build" / folder / "bin" / name).exists()), None)
    found = str(ours) if ours else shutil.which(name)
    if found is None:
        how = "make victoria" if server == "victoria-metrics" else "make binaries"
        raise FileNotFoundError(f"{name} was not found: run `{how}`, or put it on PATH")
    return found


def places_for(plan: StackPlan, folder: Path) -> Places:
    """Return a port for every part. Raises OSError when none is free."""
    parts = ["simulator", "prometheus", "receiver"]
    parts += [f"alertmanager-{n}" for n in range(1, plan.alertmanagers + 1)]
    parts += [f"gossip-{n}" for n in range(1, plan.alertmanagers + 1) if plan.alertmanagers > 1]
    ports = dict(plan.ports)
    for part in parts:
        ports.setdefault(part, free_port(tuple(ports.values())))
    return Places(folder=folder, ports={part: ports[part] for part in parts})


class Stack:
    """The running parts and what to ask them. *parts* maps each part's name to its Process."""

    def __init__(self, plan: StackPlan, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.plan = plan
        self.places = places_for(plan, folder.resolve())
        write_configs(plan, self.places)
        self.parts: dict[str, Process] = {"simulator": self._simulator()}
        for name in self.places.alertmanagers:
            self.parts[name] = self._alertmanager(name)
        self.parts["receiver"] = self._receiver()
        self.parts["prometheus"] = self._prometheus()
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy has no business on the loopback address
        # A server may close a kept connection just as a request leaves on it.
        self._session.mount("http://", HTTPAdapter(max_retries=Retry(total=1, connect=0, redirect=0, status=0)))

    # --- the parts ---

    def _process(self, name: str, command: list[str], ready: Callable[[], bool], env: dict[str, str]) -> Process:
        return Process(name, command, ready, self.places.log(name), env, ROOT)

    def _simulator(self) -> Process:
        config, kubeconfig = str(self.places.config("simulator")), str(self.places.kubeconfig)
        command = [sys.executable, "-m", "simulator", "--config", config, "--kubeconfig", kubeconfig]
        answering = answers(self.places.url("simulator") + "/_state")

        def ready() -> bool:
            return self.places.kubeconfig.exists() and answering()

        return self._process("simulator", command, ready, plain_environment())

    def _alertmanager(self, name: str) -> Process:
        number = name.removeprefix("alertmanager-")
        command = [
            binary("alertmanager"),
            f"--config.file={self.places.config('alertmanager')}",
            f"--storage.path={self.places.folder / f'{name}-data'}",
            f"--web.listen-address={self.places.address(name)}",
        ]
        if self.plan.alertmanagers > 1:
            command.append(f"--cluster.listen-address={self.places.address(f'gossip-{number}')}")
            peers = (f"gossip-{n.removeprefix('alertmanager-')}" for n in self.places.alertmanagers if n != name)
            command += [f"--cluster.peer={self.places.address(peer)}" for peer in peers]
        else:
            command.append("--cluster.listen-address=")
        return self._process(name, command, answers(self.places.url(name) + "/-/ready"), plain_environment())

    def _prometheus(self) -> Process:
        command = [
            binary("prometheus"),
            f"--config.file={self.places.config('prometheus')}",
            f"--storage.tsdb.path={self.places.folder / 'prometheus-data'}",
            f"--web.listen-address={self.places.address('prometheus')}",
        ]
        if self.plan.resend_delay is not None:
            command.append(f"--rules.alert.resend-delay={self.plan.resend_delay}")
        ready = answers(self.places.url("prometheus") + "/-/ready")
        return self._process("prometheus", command, ready, plain_environment())

    def _receiver(self) -> Process:
        """The autoscaler as `gpu-autoscaler serve` starts it: gunicorn takes over the process."""
        command = [sys.executable, "-m", "receiver.cli.main", "serve"]
        ready = answers(self.places.url("receiver") + "/readyz")
        return self._process("receiver", command, ready, receiver_environment(self.plan, self.places))

    # --- from start to stop ---

    def start(self) -> None:
        """Start every part; Prometheus comes last, so that its first alert finds everybody. Raises NotStarted."""
        early = [part for name, part in self.parts.items() if name != "prometheus"]
        self.parts["simulator"].start()  # the autoscaler reads its kubeconfig
        for part in early[1:]:
            part.spawn()
        for part in early[1:]:
            part.wait_ready()
        self.parts["prometheus"].start()

    def stop(self) -> None:
        """Stop every part, the autoscaler first: it must not see the others disappear. Harmless when repeated."""
        order = ("receiver", "prometheus", *self.places.alertmanagers, "simulator")
        with ExitStack() as stopping:  # one that cannot be stopped does not keep the others
            for name in reversed(order):
                stopping.callback(self.parts[name].stop)
        self._session.close()

    def change(self, plan: StackPlan) -> None:
        """Go on with *plan*: the autoscaler restarts, Prometheus rereads its files, the simulator stays as it is."""
        self.plan = plan
        write_configs(plan, self.places)
        self.parts["receiver"].stop()
        self.parts["prometheus"].signal(signal.SIGHUP)
        self.parts["receiver"].start()

    def wait_for_heartbeat(self, seconds: float = 90.0) -> None:
        """Wait until the whole line stands: the first alert has passed through Alertmanager into a step."""

        def all_answer() -> bool:
            lines = self.get("receiver", "/metrics", text=True).splitlines()
            sources = [line for line in lines if line.startswith("gpu_autoscaler_source_up{")]
            return any("heartbeat" in line for line in sources) and all(float(x.split()[-1]) == 1 for x in sources)

        self.wait_until(all_answer, seconds, "every source of the autoscaler answers, heartbeat included")

    def wait_until(self, check: Callable[[], bool], seconds: float, what: str) -> None:
        """Poll *check*. Raises TimeoutError naming *what*, RuntimeError when a part has ended meanwhile."""

        def checked() -> bool:
            self.check_alive()
            return check()

        wait_until(checked, seconds, what)

    def check_alive(self) -> None:
        """Raise RuntimeError with the end of its log when a part that was started has ended by itself."""
        for name, part in self.parts.items():
            if part.ended_by_itself:
                raise RuntimeError(f"{name} has ended:\n{part.last_lines()}")

    # --- asking ---

    def get(self, part: str, path: str, /, *, text: bool = False, **query: Any) -> Any:
        """Return what *part* answers to GET *path*, as JSON unless *text*. Raises requests.RequestException."""
        answer = self._session.get(self.places.url(part) + path, params=query, timeout=HTTP_SECONDS)
        answer.raise_for_status()
        return answer.text if text else answer.json()

    def post(self, part: str, path: str, body: Any, token: str | None = None) -> Any:
        """Return what *part* answers to POST *path* with *body* as JSON. Raises requests.RequestException."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = self._session.post(self.places.url(part) + path, json=body, headers=headers, timeout=HTTP_SECONDS)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def delete(self, part: str, path: str, token: str | None = None) -> None:
        """Send DELETE *path* to *part*. Raises requests.RequestException."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._session.delete(self.places.url(part) + path, headers=headers, timeout=HTTP_SECONDS).raise_for_status()

    def state(self) -> dict[str, Any]:
        """The simulator's summary of the world."""
        state: dict[str, Any] = self.get("simulator", "/_state")
        return state

    def requests(self, **query: Any) -> list[dict[str, Any]]:
        """The simulator's log of calls: all of Civo's, and those that write to Kubernetes."""
        found: list[dict[str, Any]] = self.get("simulator", "/_requests", **query)
        return found

    def submit(self, *jobs: dict[str, Any]) -> list[str]:
        """Submit jobs (fields of receiver.replay.world.objects.Job, durations as text); return their names."""
        pods: list[str] = self.post("simulator", "/_jobs", list(jobs))
        return pods

    def faults(self, *faults: dict[str, Any]) -> None:
        """Let faults stand in the simulator."""
        self.post("simulator", "/_faults", list(faults))

    def override(self, body: dict[str, Any]) -> Any:
        """Post an override with the operator's token."""
        return self.post("receiver", "/api/v1/overrides", body, OPERATOR_TOKEN)


@contextmanager
def running(plan: StackPlan, folder: Path, before: Callable[[Stack], object] = lambda _: None) -> Iterator[Stack]:
    """Do *before* with a stack in *folder*, start it, yield it, stop all of it. Raises NotStarted."""
    stack = Stack(plan, folder)
    before(stack)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


@contextmanager
def signals_end_the_block() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP end the block by KeyboardInterrupt with the signal's name; main thread only.

    Only the first one counts: a second must not keep the parts from being stopped.
    """
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for other in caught:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def until_signalled(main: Callable[[], int]) -> int:
    """Return the exit status of *main*. A signal ends it with everything that it started; 128 and its number then."""
    try:
        with signals_end_the_block():
            return main()
    except KeyboardInterrupt as interrupt:
        name = next((str(a) for a in interrupt.args), "SIGINT")
        return 128 + signal.Signals[name]
