"""The unit of systemd/ under a real systemd: the first process of a container, with the program of the image."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from campaigns.image.building import Built
from campaigns.image.claims import Claims, tell
from campaigns.image.surroundings import SECRETS, surroundings
from campaigns.image.unit import FOLDER, UNIT, lines
from tools.image.__main__ import ROOT
from tools.image.debian import unpacked_machine

NAME = UNIT.name
# systemd has to mount, change users and hand out capabilities; the unit takes all of them away from the service.
POWERS = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT SYS_ADMIN "
    "SYS_PTRACE MKNOD SETFCAP AUDIT_WRITE"
)
# Only the journal and the service are started: nothing of a whole machine's boot is needed, or works in here.
TARGET = f"[Unit]\nDefaultDependencies=no\nRequires=systemd-journald.service {NAME}\nAllowIsolate=yes\n"
DROP_IN = "[Unit]\nDefaultDependencies=no\nAfter=\nWants=\n"


def started_by_systemd(claims: Claims, built: Built, scratch: Path) -> None:
    """Start, ask, stop and spoil the service of the unit, and prove what systemd makes of it."""
    machine = scratch / "root"
    shutil.copytree(unpacked_machine(ROOT / ".build"), machine, symlinks=True)
    shutil.copytree(built.root / "opt" / "gpu-autoscaler", machine / "opt" / "gpu-autoscaler", symlinks=True)
    with surroundings() as around:
        etc = machine / FOLDER.lstrip("/")
        around.write(etc)
        for name in (*SECRETS, "kubeconfig"):
            (etc / name).chmod(0o600)
        (etc / "environment").write_text("".join(f"{name}={said}\n" for name, said in around.where().items()))
        units = machine / "etc" / "systemd" / "system"
        (units / f"{NAME}.d").mkdir(parents=True)
        shutil.copy(UNIT, units / NAME)
        (units / f"{NAME}.d" / "alone.conf").write_text(DROP_IN)
        (units / "check.target").write_text(TARGET)
        with _booted(built, scratch, machine) as first:
            try:
                seconds, _ = around.until_stepped(lambda: Path(f"/proc/{first}").exists())
            except (RuntimeError, TimeoutError) as error:
                tell(_inside(first, "journalctl", "--no-pager", "-n", "40"))
                claims.holds("systemd starts it", False, error)
                return
            claims.holds("systemd starts it, `/healthz` is 200", True, f"after {seconds:.1f} s")
            claims.holds("an alert is taken", around.deliver() == 202)
            _stopped(claims, first)
            (etc / "config.yaml").write_text("mode: perhaps\n")
            _inside(first, "systemctl", "start", NAME)
            shown = _shown(first)
            refused = (shown["ActiveState"], shown["ExecMainStatus"], shown["NRestarts"])
            claims.holds("what cannot be used is not started again", refused == ("failed", "2", "0"), refused)


def _stopped(claims: Claims, first: int) -> None:
    """What the kernel says of the service, and its end."""
    pid = _shown(first)["MainPID"]
    said = _inside(first, "cat", f"/proc/{pid}/status")
    kernel = {name: value.strip() for name, _, value in (line.partition(":") for line in said.splitlines())}
    user = int(kernel["Uid"].split()[0])
    claims.holds("as a user that exists only while it runs", 61184 <= user <= 65519, user)
    powers = (int(kernel["CapBnd"], 16), kernel["NoNewPrivs"], kernel["Seccomp"])
    claims.holds("without capabilities, with its list of system calls", powers == (0, "1", "2"), powers)
    begun = time.monotonic()
    _inside(first, "systemctl", "stop", NAME)
    seconds, shown = time.monotonic() - begun, _shown(first)
    grace = float(lines("TimeoutStopSec")[0].removesuffix("s"))
    ended = (shown["ActiveState"], shown["Result"], shown["ExecMainStatus"])
    well = ended == ("inactive", "success", "0") and seconds < grace
    claims.holds("`systemctl stop` ends it", well, f"{ended[1]} after {seconds:.1f} s")


def _shown(first: int) -> dict[str, str]:
    """What systemd says of the service."""
    names = "ActiveState,ExecMainStatus,MainPID,NRestarts,Result"
    said = _inside(first, "systemctl", "show", NAME, f"--property={names}")
    return dict(line.split("=", 1) for line in said.splitlines())


def _inside(first: int, *words: str) -> str:
    """What *words* print among the processes of systemd, whose process is *first* on this machine."""
    joins = ["nsenter", "--target", str(first), "--mount", "--pid", "--ipc", "--uts", "--root", "--wd", "--"]
    ran = subprocess.run([*joins, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    return ran.stdout


@contextmanager
def _booted(built: Built, scratch: Path, machine: Path) -> Iterator[int]:
    """Yield the process of a systemd that runs on *machine*, in a control group of its own; both end with the block."""
    (scratch / "config.json").write_text(json.dumps(_config(machine)))
    group = _control_groups() / scratch.parent.name
    group.mkdir()
    name = f"{scratch.parent.name}-systemd"
    run = built.engine.crun("run", "--bundle", str(scratch), name)
    joins = ["sh", "-eu", "-c", 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"', "join", str(group), *run]
    running = subprocess.Popen(joins, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/")
    first = 0
    try:
        deadline = time.monotonic() + 20
        while not first and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
            asked = subprocess.run(built.engine.crun("state", name), capture_output=True, text=True, cwd="/")
            first = json.loads(asked.stdout)["pid"] if asked.returncode == 0 else 0
        yield first
    finally:
        if first:
            with suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)  # SIGTERM makes systemd start itself anew
        else:
            running.kill()
        running.wait(30)
        for folder, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()


def _control_groups() -> Path:
    """Where the second version of control groups is mounted. RuntimeError when it is nowhere."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    raise RuntimeError("no control groups of version 2 are mounted")


def _config(machine: Path) -> dict[str, Any]:
    powers = [f"CAP_{name}" for name in POWERS.split()]
    mounts = [
        ("/proc", "proc", []),
        ("/dev", "tmpfs", ["mode=755", "size=64k"]),
        ("/dev/shm", "tmpfs", ["mode=1777"]),
        ("/run", "tmpfs", ["mode=755", "shared"]),
        ("/tmp", "tmpfs", ["mode=1777"]),
        ("/sys", "sysfs", ["ro"]),
        ("/sys/fs/cgroup", "cgroup2", ["rw"]),
    ]
    return {
        "ociVersion": "1.0.0",
        "hostname": "machine",
        "root": {"path": str(machine), "readonly": False},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": ["/lib/systemd/systemd", "--unit=check.target", "--log-target=journal"],
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "container=oci"],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), powers),
        },
        "mounts": [{"destination": d, "type": kind, "source": kind, "options": o} for d, kind, o in mounts],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "cgroup")],
            "readonlyPaths": ["/proc/sys"],
            "rootfsPropagation": "shared",  # credentials are mounted by a child of systemd, for all to see
        },
    }
