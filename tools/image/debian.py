"""Debian's buildah, crun and python3 as a base image: unpacked below .build, for machines without an engine.

Both are root file systems of their own, so neither the libraries nor the configuration of this machine matter. The
engine runs in one of them, in a mount namespace that ends with it. It needs root.
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.private_apt import fetch

# Increase it when this file makes something else of the same packages, so that old results are rebuilt.
FORMAT = 1
ENGINE = ("base-passwd", "buildah", "crun")
# Debian's Python where python:3-slim has one from source; what that image has besides is Debian's smallest system.
_SYSTEM = ("base-files", "base-passwd", "ca-certificates", "coreutils", "dash", "netbase")
BASE = (*_SYSTEM, "python3", "python3-pip", "python3-venv")
MACHINE = (*_SYSTEM, "python3", "systemd", "systemd-sysv", "login", "mount", "util-linux")

# `/` becomes a mount, or nothing inside could be mounted apart; and an engine that sees one kind of control groups
# only does not stumble over machines that have two. $1 is its root, then come folders that it shall see, then `--`.
_ENTER = """\
root=$1; shift
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/sys" "$root/dev"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup" || mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --bind "$1" "$root$1"; shift; done
shift
exec chroot "$root" "$@"
"""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An engine below *folder*, that sees *folder* and the folders *seen* under their own names."""

    folder: Path
    seen: tuple[Path, ...]

    def buildah(self, *arguments: str) -> list[str]:
        """Return the command that runs buildah; images are kept below *folder* as plain folders."""
        store = ["--root", str(self.folder / "store"), "--runroot", str(self.folder / "run"), "--storage-driver", "vfs"]
        return self.enter("/usr/bin/buildah", *store, *arguments)

    def crun(self, *arguments: str) -> list[str]:
        """Return the command that runs crun, the runtime; it makes no control groups."""
        own = ["--root", str(self.folder / "state"), "--cgroup-manager=disabled"]
        return self.enter("/usr/bin/crun", *own, *arguments)

    def enter(self, *command: str) -> list[str]:
        """Return what runs *command* in the engine's own root file system."""
        own = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "BUILDAH_ISOLATION=chroot", "HOME=/nonexistent"]
        namespace = ["unshare", "--mount", "--propagation", "private", "sh", "-eu", "-c", _ENTER, "enter"]
        seen = [str(path) for path in (self.folder, *self.seen)]
        return [*own, *namespace, str(self.folder / "engine"), *seen, "--", *command]


def unpacked_engine(build: Path, seen: Sequence[Path] = ()) -> Unpacked:
    """Return the engine below *build*, fetched when it is not there. Raises AptFailed."""
    folder = build.resolve() / "image"
    _root(folder / "engine", ENGINE, build)
    policy = folder / "engine" / "etc" / "containers" / "policy.json"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))  # as docker does
    checkout = Path(__file__).resolve().parents[2]
    return Unpacked(folder, tuple(dict.fromkeys((checkout, *(path.resolve() for path in seen)))))


def unpacked_base(build: Path) -> Path:
    """Return the root file system of a base image, fetched when it is not there. Raises AptFailed."""
    base = build.resolve() / "image" / "base"
    _root(base, BASE, build)
    return base


def unpacked_machine(build: Path) -> Path:
    """Return the root file system of a machine with systemd, fetched when it is not there. Raises AptFailed."""
    machine = build.resolve() / "image" / "machine"
    _root(machine, MACHINE, build)
    return machine


def _root(root: Path, packages: Sequence[str], build: Path) -> None:
    """Unpack *packages* with all that they depend on as the root file system *root*; no script of theirs runs."""
    stamp = root.with_name(f"{root.name}.made-from")
    made_from = json.dumps([FORMAT, *packages])
    if stamp.is_file() and stamp.read_text() == made_from and root.is_dir():
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=root.parent, prefix=f"{root.name}-"))
    try:
        fetch(packages, build.resolve() / "apt", fresh, whole=True)
        # What the packages' scripts would have done, as far as it is needed here.
        for name in ("passwd", "group"):
            shutil.copy(fresh / "usr/share/base-passwd" / f"{name}.master", fresh / "etc" / name)
        for link, target in (("bin/sh", "dash"), ("usr/bin/python", "python3")):
            if (fresh / link).with_name(target).exists() and not (fresh / link).exists():
                (fresh / link).symlink_to(target)
        for name in ("tmp", "var/tmp"):
            (fresh / name).mkdir(parents=True, exist_ok=True)
            (fresh / name).chmod(0o1777)
        fresh.chmod(0o755)
        shutil.rmtree(root, ignore_errors=True)
        fresh.rename(root)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    stamp.write_text(made_from)
