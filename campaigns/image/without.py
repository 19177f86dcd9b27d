"""The installation without an image, as docs/vm.md says it: its commands are run, and what its unit starts is asked."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from campaigns.image.building import own_wheelhouse
from campaigns.image.claims import Claims, tell
from campaigns.image.surroundings import Surroundings, surroundings
from campaigns.image.unit import FOLDER, ROOT, credentials, environment_file, lines, variables
from tests.docs.commands import fenced
from tests.docs.pages import section, text_of

PROGRAM = "/opt/gpu-autoscaler"
CHECKOUT = ("LICENSE", "README.md", "pyproject.toml", "receiver", "requirements")


def installed(claims: Claims, scratch: Path) -> None:
    """Install below *scratch* as the page says, and prove what the server does that the unit starts."""
    begun = time.monotonic()
    done = _install(scratch)
    claims.holds(
        "a checkout is installed without an index, as docs/vm.md says", done, f"{time.monotonic() - begun:.0f} s"
    )
    if done:
        with surroundings() as around:
            around.write(scratch / "etc")
            _served(claims, scratch, around)


def _install(scratch: Path) -> bool:
    """Run the commands of step 1 with *scratch* in the place of /opt. Returns whether each of them succeeded."""
    checkout = scratch / "checkout"
    checkout.mkdir(parents=True)
    for name in CHECKOUT:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, checkout / name)
    wheels = own_wheelhouse(ROOT / ".build")
    environ = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    for said in commands_of_step_one():
        command = said.replace(PROGRAM, str(scratch / "opt")).replace("python3 ", f"{sys.executable} ", 1)
        ran = subprocess.run(["sh", "-c", command], cwd=checkout, env=environ, capture_output=True, text=True)
        if ran.returncode != 0:
            tell(f"{said}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
            return False
    return True


def commands_of_step_one() -> list[str]:
    """What the page says to type for the program."""
    text = text_of("docs/vm.md")
    block = text[text.index("## 1. The program") : text.index("## 2. ")]
    assert section(text, "1. The program")
    return list(fenced(block))


def _served(claims: Claims, scratch: Path, around: Surroundings) -> None:
    """Start what the unit starts, with its variables and the files of the page, and stop it as systemd does."""
    data, etc = scratch / "data", scratch / "etc"
    data.mkdir()
    given = {name: etc / Path(source).name for name, source in credentials().items()}
    credential = scratch / "credentials"
    credential.mkdir()
    for name, source in given.items():
        shutil.copy(source, credential / name)
    start = lines("ExecStart")[0].replace(PROGRAM, str(scratch / "opt")).split()
    said = {name: value.replace(FOLDER, str(etc)) for name, value in variables(str(credential)).items()}
    environ = {"PATH": "/usr/bin:/bin", **environment_file(), **around.where(), **said}
    environ["GPU_AUTOSCALER_DATABASE_URL"] = f"sqlite:///{data}/ledger.db"  # the unit's own is in /var/lib
    checked = subprocess.run([start[0], "check-config"], env=environ, capture_output=True, text=True, cwd=data)
    claims.holds("`gpu-autoscaler check-config` takes the unit's variables", checked.returncode == 0,
                 (checked.stderr or checked.stdout).strip().partition("\n")[0])  # fmt: skip
    with _notified() as (name, notify), _running(start, {**environ, "NOTIFY_SOCKET": name}, data) as server:
        seconds, health = around.until_stepped(lambda: server.poll() is None)
        claims.holds("`/healthz` is 200 with a step behind it", True, f"after {seconds:.1f} s, {health['loop']}")
        claims.holds("systemd is told that it is ready", "READY=1" in notify.recv(4096).decode().splitlines())
        claims.holds("an alert is taken", around.deliver() == 202)
        begun = time.monotonic()
        server.send_signal(signal.SIGTERM)
        grace = float(lines("TimeoutStopSec")[0].removesuffix("s"))
        code = server.wait(grace)
        figure = f"exit {code} after {time.monotonic() - begun:.1f} s"
        claims.holds(f"SIGTERM ends it within {grace:.0f} s", code == 0, figure)


@contextmanager
def _notified() -> Iterator[tuple[str, socket.socket]]:
    """Yield the socket at which a service says how it is, and its name as systemd writes it."""
    name = f"gpu-autoscaler-check-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(10)
        yield f"@{name}", listening


@contextmanager
def _running(command: list[str], environ: Mapping[str, str], folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Run *command* in *folder* until the block ends."""
    with (folder.parent / "output").open("wb") as output:
        server = subprocess.Popen(
            command, cwd=folder, env=dict(environ), stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield server
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait(10)
