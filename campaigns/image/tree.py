"""What is wrong with the files of an image, compared with those of its base: sentences, none when all is well."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

VENV = "opt/gpu-autoscaler"
DATA = "var/lib/gpu-autoscaler"
USER = 10001  # and group
OWNERS = {"data": (USER, USER), "program": (0, 0)}
COMPILERS = frozenset(
    {"as", "c++", "c89", "c99", "cc", "clang", "clang++", "cmake", "cargo", "cpp", "g++", "gcc", "gfortran", "go", "ld"}
    | {"make", "ninja", "rustc", "tcc"}
)
INSTALLERS = ("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack")
# Folders that engines put into every image, empty.
MOUNT_POINTS = frozenset({"dev", "etc", "proc", "run", "sys", "tmp"})


def troubles(root: Path, base: Path) -> Iterator[str]:
    """Yield what is wrong with the file system at *root* of an image that was made on the one at *base*."""
    yield from _compilers(root)
    yield from _beyond(root, base)
    yield from _ours(root)
    packages = list((root / VENV / "lib").glob("python3.*/site-packages"))
    if len(packages) != 1:
        yield f"{VENV} has {len(packages)} folders of packages"
    for folder in packages:
        yield from (
            f"{found.name} is installed" for name in INSTALLERS for found in folder.glob(f"{name}*") if _is(found, name)
        )
        if not list((folder / "receiver").rglob("*.pyc")):
            yield "our modules are not compiled, so each start compiles them anew"


def _is(found: Path, name: str) -> bool:
    """Whether *found* is the package *name* or its metadata, not one whose name merely begins alike."""
    return found.name == name or (found.name.startswith(f"{name}-") and found.name.endswith(".dist-info"))


def _compilers(root: Path) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        if Path(folder).name in ("bin", "sbin"):
            for name in names:
                plain = name.rpartition("-linux-gnu-")[2].rstrip("0123456789.-") or name
                if plain in COMPILERS or name in COMPILERS:
                    yield f"{folder.removeprefix(str(root))}/{name} is a compiler or builds programs"


def _beyond(root: Path, base: Path) -> Iterator[str]:
    """What the image adds to its base outside our two folders, or takes away from it."""
    ours, theirs = _names(root), _names(base)
    for name in sorted(ours - theirs):
        around = any(f"{name}/".startswith(f"{own}/") or f"{own}/".startswith(f"{name}/") for own in (VENV, DATA))
        if not around and name not in MOUNT_POINTS:
            yield f"/{name} is in the image and not in its base"
    yield from (f"/{name} of the base is gone" for name in sorted(theirs - ours))


def _names(root: Path) -> set[str]:
    return {
        str((Path(folder) / name).relative_to(root))
        for folder, folders, files in os.walk(root)
        for name in (*folders, *files)
    }


def _ours(root: Path) -> Iterator[str]:
    """Owners and rights: the data folder belongs to the user of the image, all else to root and only root writes."""
    data = root / DATA
    if not data.is_dir():
        yield f"/{DATA} is missing"
    elif (data.stat().st_uid, data.stat().st_gid) != OWNERS["data"]:
        yield f"/{DATA} belongs to {data.stat().st_uid}:{data.stat().st_gid}"
    elif any(data.iterdir()):
        yield f"/{DATA} is not empty"
    for path in (root / VENV, *(root / VENV).rglob("*")):
        said = path.lstat()
        where = f"/{path.relative_to(root)}"
        if (said.st_uid, said.st_gid) != OWNERS["program"]:
            yield f"{where} belongs to {said.st_uid}:{said.st_gid}"
        if stat.S_ISLNK(said.st_mode):
            continue
        if said.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            yield f"{where} can be written by others than root"
        if said.st_mode & (stat.S_ISUID | stat.S_ISGID):
            yield f"{where} runs as somebody else"
