"""Builds the image without a daemon and without a registry: Debian's buildah, Debian's Python as the base."""

import hashlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from campaigns.image.bundle import Image, read_image
from tools.image.__main__ import ROOT, built_with
from tools.image.debian import Unpacked, unpacked_base, unpacked_engine
from tools.image.engines import build_words
from tools.make_venv import pip

BASE = "localhost/debian-python:3.11"
TAG = "localhost/gpu-autoscaler:check"
LOCKS = ("run", "build")
# What Debian 12 and the image that the Dockerfile names by default can load.
PLATFORMS = ("manylinux_2_36", "manylinux_2_34", "manylinux_2_31", "manylinux_2_28", "manylinux_2_17", "manylinux2014")


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was built: what it says, where its files and those of its base are, how large it is."""

    engine: Unpacked
    image: Image
    root: Path
    base: Path
    sizes: tuple[str, str]  # of the base and of the image, as buildah prints them
    seconds: float  # of the build, with all packages here already


def build(folder: Path) -> Built:
    """Build the image below *folder*, a ``.build``. Raises AptFailed, CalledProcessError."""
    engine, base = unpacked_engine(folder), unpacked_base(folder)
    wheels = wheelhouse(folder)
    forget(engine)
    container = said(engine, "from", "--pull-never", "scratch")
    said(engine, "add", container, str(base), "/")
    said(engine, "config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
    said(engine, "commit", "--rm", container, BASE)
    begun = time.monotonic()
    arguments = built_with() | {"BASE": BASE, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    options = ("--pull-never", "--volume", f"{wheels}:/wheels:ro")
    said(engine, *build_words("buildah", TAG, arguments, options), str(ROOT))
    seconds = time.monotonic() - begun
    config = json.loads(said(engine, "inspect", "--type", "image", TAG))["Docker"]["config"]
    root = Path(said(engine, "mount", said(engine, "from", "--pull-never", TAG)))
    sizes = [said(engine, "images", "--format", "{{.Size}}", tag) for tag in (BASE, TAG)]
    return Built(engine, read_image(config), root, base, (sizes[0], sizes[1]), seconds)


def forget(engine: Unpacked) -> None:
    """Remove every container and image that was made here."""
    said(engine, "rm", "--all")
    said(engine, "rmi", "--all", "--force")


def said(engine: Unpacked, *arguments: str) -> str:
    """Return what buildah prints for *arguments*; what it complained of is printed when it fails."""
    ran = subprocess.run(engine.buildah(*arguments), capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd="/")
    if ran.returncode != 0:
        sys.stderr.write(f"{ran.stdout[-4000:]}\n{ran.stderr[-4000:]}\n")
    ran.check_returncode()
    return ran.stdout.strip()


def wheelhouse(folder: Path) -> Path:
    """Return a folder with the wheels of both locks for the base's Python, fetched with their hashes once."""
    tags = [f"{name}_{platform.machine()}" for name in PLATFORMS]
    at = [word for tag in tags for word in ("--platform", tag)]
    return _fetched(folder / "image" / "wheels", ["--python-version", "3.11", "--implementation", "cp", *at])


def own_wheelhouse(folder: Path) -> Path:
    """The same for the Python that runs this."""
    return _fetched(folder / "image" / f"wheels-{sys.implementation.cache_tag}", [])


def _fetched(wheels: Path, options: Sequence[str]) -> Path:
    wheels = wheels.resolve()
    stamp = wheels / "made-from"
    locks = [ROOT / "requirements" / f"{name}.lock" for name in LOCKS]
    made_from = hashlib.sha256(repr([options, *(lock.read_bytes() for lock in locks)]).encode()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != made_from:
        wheels.mkdir(parents=True, exist_ok=True)
        for lock in locks:
            download = [*pip(), "download", "--quiet", "--quiet", "--require-hashes", "--no-deps"]
            where = ["--only-binary=:all:", *options, "--dest", str(wheels)]
            subprocess.run([*download, *where, "--requirement", str(lock)], check=True)
        stamp.write_text(made_from)
    return wheels
