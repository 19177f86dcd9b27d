"""The engines that build the image: the one of docker, podman and buildah that works on this machine."""

import shutil
import subprocess
from collections.abc import Iterable, Mapping

# How each says, without changing anything, whether it could build now: docker's command line alone cannot.
ENGINES: Mapping[str, tuple[str, ...]] = {
    "docker": ("docker", "info"),
    "podman": ("podman", "info"),
    "buildah": ("buildah", "info"),
}


class NoEngine(Exception):
    """Nothing here can build an image; the text says what was tried."""


def usable_engine() -> str:
    """Return the name of the first engine that works. Raises NoEngine."""
    tried = []
    for name, asks in ENGINES.items():
        if shutil.which(name) is None:
            tried.append(f"{name} is not installed")
            continue
        asked = subprocess.run(asks, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if asked.returncode == 0:
            return name
        tried.append(f"{name}: {(asked.stderr.strip().splitlines() or ['does not work'])[-1]}")
    raise NoEngine("; ".join(tried))


def build_words(engine: str, tag: str, arguments: Mapping[str, str], options: Iterable[str] = ()) -> list[str]:
    """Return the arguments with which *engine* builds a Dockerfile as *tag*; its directory follows."""
    verb = "bud" if engine == "buildah" else "build"
    # Engines that write OCI images by default leave the health check out of them.
    form = [] if engine == "docker" else ["--format", "docker"]
    said = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    return [verb, *form, *options, *said, "--tag", tag]
