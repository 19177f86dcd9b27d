"""What an OCI runtime is told: the container of an image as in a restricted pod, but on the machine's network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOBODY_ADDS = ("bounding", "effective", "permitted", "inheritable", "ambient")


@dataclass(frozen=True, slots=True)
class Image:
    """What an image says of its containers, as ``inspect`` shows it."""

    user: str
    words: tuple[str, ...]  # entry point and command
    environment: tuple[str, ...]
    folder: str
    volumes: tuple[str, ...]
    health: tuple[str, ...]
    labels: Mapping[str, str]


def read_image(config: Mapping[str, Any]) -> Image:
    """Return the image of Docker's *config*. KeyError where something is not said at all."""
    return Image(
        user=config["User"],
        words=(*config["Entrypoint"], *config["Cmd"]),
        environment=tuple(config["Env"]),
        folder=config["WorkingDir"],
        volumes=tuple(config["Volumes"]),
        health=tuple(config["Healthcheck"]["Test"]),
        labels=config["Labels"],
    )


def runtime_config(
    image: Image, root: Path, mounts: Mapping[str, tuple[Path, str]], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return config.json for *image* whose files are at *root*.

    The root file system is read-only, /tmp is in memory, there is no capability and no way to get one. *mounts* are
    folders of this machine by their place inside, with ``ro`` or ``rw``. The network is the machine's: what is served
    on loopback outside is reached inside.
    """
    user, _, group = image.user.partition(":")
    memory = ("nosuid", "nodev", "mode=1777", "size=64m")
    return {
        "ociVersion": "1.0.0",
        "hostname": "gpu-autoscaler",
        "root": {"path": str(root), "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": int(user), "gid": int(group)},
            "args": list(image.words),
            "env": [*image.environment, *(f"{name}={value}" for name, value in environment.items())],
            "cwd": image.folder,
            "capabilities": {kind: [] for kind in NOBODY_ADDS},
            "noNewPrivileges": True,
        },
        "mounts": [
            _mount("/proc", "proc", "proc", ()),
            _mount("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=64k")),
            _mount("/dev/shm", "tmpfs", "shm", (*memory, "noexec")),  # the pod's own, as kubelets give it
            _mount("/tmp", "tmpfs", "tmpfs", memory),
            *(_mount(inside, "bind", str(path), ("bind", how)) for inside, (path, how) in mounts.items()),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
            "readonlyPaths": ["/proc/sys", "/proc/irq", "/proc/bus"],
        },
    }


def _mount(inside: str, kind: str, source: str, options: Sequence[str]) -> dict[str, Any]:
    return {"destination": inside, "type": kind, "source": source, "options": list(options)}
