"""Processes that are started, waited for and stopped without a trace; each one's output goes to a file."""

import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import requests

START_SECONDS = 90.0  # a shared machine may be slow; a healthy start takes one to three
STOP_SECONDS = 25.0  # gunicorn's own grace is 20
POLL_SECONDS = 0.05, 0.2  # the shortest and the longest pause: a twentieth of the time that has passed
PORTS = range(20000, 32000)  # below the range from which Linux serves outgoing connections


class NotStarted(Exception):
    """A part ended or stayed unready; the message ends with the last lines of its log."""


_chosen: list[int] = []  # open files whose locks say which ports this process has chosen


def free_port(taken: Sequence[int] = ()) -> int:
    """Return a loopback port that is free, not in *taken*, and chosen by no living process of this user.

    A server is started there only later, so two processes would now and then choose the same. Raises OSError when
    there is none.
    """
    folder = Path(tempfile.gettempdir()) / f"gpu-autoscaler-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for port in random.SystemRandom().sample(PORTS, 200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in taken and _choose(folder / str(port)):
                return port
    raise OSError("no free port was found on the loopback address")


def _choose(lock: Path) -> bool:
    held = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return False
    _chosen.append(held)
    return True


def answers(url: str) -> Callable[[], bool]:
    """Return a check that *url* answers 200."""

    def check() -> bool:
        try:
            return requests.get(url, timeout=5).status_code == 200
        except requests.RequestException:
            return False

    return check


def wait_until(check: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll *check* until it is true. Raises TimeoutError naming *what* after *seconds*."""
    began = time.monotonic()
    while not check():
        passed = time.monotonic() - began
        if passed > seconds:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        shortest, longest = POLL_SECONDS
        time.sleep(min(max(passed / 20, shortest), longest))


class Child(Protocol):
    """What `Process` needs of a child; `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def terminate(self) -> None: ...


class Process:
    """One part of a stack in a session of its own. It may be started again after it was stopped or killed.

    *ready* tells whether it can be used. Its log is appended to by every start.
    """

    def __init__(
        self, name: str, command: Sequence[str], ready: Callable[[], bool], log: Path, env: Mapping[str, str], cwd: Path
    ) -> None:
        self.name, self.log = name, log
        self._command, self._ready, self._env, self._cwd = tuple(command), ready, dict(env), cwd
        self._running: Child | None = None

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when it does not run."""
        if self._running is None:
            raise RuntimeError(f"{self.name} does not run")
        return self._running.pid

    @property
    def alive(self) -> bool:
        """True from `start` until it was stopped or ended by itself."""
        return self._running is not None and self._running.poll() is None

    @property
    def ended_by_itself(self) -> bool:
        """True when it was started, was neither stopped nor killed by us, and runs no more."""
        return self._running is not None and self._running.poll() is not None

    def spawn(self) -> None:
        """Start it without waiting until it is ready."""
        if self.alive:
            raise RuntimeError(f"{self.name} runs already")
        with self.log.open("ab") as out:
            self._running = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )

    def wait_ready(self, seconds: float = START_SECONDS) -> None:
        """Wait until it is ready. Raises NotStarted."""

        def ended_or_ready() -> bool:
            return not self.alive or self._ready()

        try:
            wait_until(ended_or_ready, seconds, f"{self.name} ready")
        except TimeoutError as error:
            raise NotStarted(f"{error}\n{self.last_lines()}") from None
        if not self.alive:
            status = self._running.returncode if self._running else None
            raise NotStarted(f"{self.name} ended with status {status}\n{self.last_lines()}")

    def start(self, seconds: float = START_SECONDS) -> None:
        """Start it and wait until it is ready. Raises NotStarted."""
        self.spawn()
        self.wait_ready(seconds)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process itself, not to its children."""
        os.kill(self.pid, number)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask it to end as Kubernetes does, then kill what is left of its process group. Harmless when repeated."""
        running = self._running
        if running is None:
            return
        if running.poll() is None:
            running.terminate()
            with suppress(subprocess.TimeoutExpired):
                running.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the whole process group at once, as a crash of the machine would. Harmless when repeated."""
        running, self._running = self._running, None
        if running is None:
            return
        with suppress(ProcessLookupError):  # nothing of the group may be left
            os.killpg(running.pid, signal.SIGKILL)
        running.wait(10)

    def last_lines(self, count: int = 15) -> str:
        """Return the end of its log."""
        try:
            return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
        except OSError:
            return ""
