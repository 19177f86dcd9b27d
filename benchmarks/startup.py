"""The time from the autoscaler's start to the first 200 of /readyz, with a new store and with an existing one; and the
CPU time of the shortest commands."""

import http.client
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import spread
from benchmarks.serving import a_stack
from demo.configs import ROOT
from demo.processes import START_SECONDS, Process

STARTS = 5
POLL_SECONDS = 0.01


def _ready(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _seconds(receiver: Process, address: str) -> float:
    """Start *receiver* and return the seconds until it is ready. Raises TimeoutError, RuntimeError."""
    began = time.perf_counter()
    receiver.spawn()
    while not _ready(address):
        if not receiver.alive:
            raise RuntimeError(f"the receiver ended: {receiver.last_lines()}")
        if time.perf_counter() - began > START_SECONDS:
            raise TimeoutError(f"the receiver was not ready within {START_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - began


def _cpu_seconds(option: str) -> float:
    """Run ``gpu-autoscaler OPTION`` and return its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "receiver.cli.main", option]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Start it again and again and return the result to keep; say the figures."""
    samples: dict[str, list[float]] = {"new store": [], "own store": []}
    for number in range(STARTS):
        with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder:
            stack = a_stack(Path(folder))
            receiver, address = stack.parts["receiver"], stack.places.address("receiver")
            try:
                stack.parts["simulator"].start()
                for name in samples:
                    samples[name].append(_seconds(receiver, address))
                    receiver.stop()
            finally:
                stack.stop()
        say(f"startup: {number + 1} of {STARTS}: " + ", ".join(f"{n} {s[-1]:.2f} s" for n, s in samples.items()))
    figures = {name: spread(found) for name, found in samples.items()}
    for name, figure in figures.items():
        say(f"startup: {name}: p50 {figure['p50']} s, max {figure['max']} s of {figure['n']}")
    commands = {option: spread([_cpu_seconds(option) for _ in range(STARTS)]) for option in ("--version", "--help")}
    for option, figure in commands.items():
        say(f"startup: {option}: p50 {figure['p50']} s, max {figure['max']} s of CPU of {figure['n']}")
    return {
        "what": "seconds from the start of the process to the first 200 of /readyz; of commands, seconds of CPU",
        "settings": {"starts": STARTS},
        "figures": figures,
        "commands": commands,
        "samples": {name: [round(s, 3) for s in found] for name, found in samples.items()},
    }
