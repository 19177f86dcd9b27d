"""Put prometheus, promtool, alertmanager and amtool into .build/bin: from PATH, else from Debian packages.

Run as ``python3 -m tools.fetch_binaries`` from the checkout; quick when everything is there already. With ``--newer``
those of Debian unstable go into .build/newer/bin, and the tests that depend on the version run with both from then on.
"""

import argparse
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.private_apt import AptFailed, fetch

BUILD = Path(__file__).resolve().parent.parent / ".build"

# Increase it when this file makes something else of the same packages, so that old results are rebuilt.
FORMAT = 1


@dataclass(frozen=True)
class Binary:
    """A program we need: its names on PATH, the Debian package that has it, the oldest version that serves."""

    name: str
    known_as: tuple[str, ...]
    package: str
    oldest: tuple[int, int]


BINARIES = (
    Binary("prometheus", ("prometheus",), "prometheus", (2, 42)),
    Binary("promtool", ("promtool",), "prometheus", (2, 42)),
    # Debian calls it prometheus-alertmanager; on other machines `alertmanager` is the name.
    Binary("alertmanager", ("alertmanager", "prometheus-alertmanager"), "prometheus-alertmanager", (0, 25)),
    Binary("amtool", ("amtool",), "prometheus-alertmanager", (0, 25)),
)

# Debian builds these two to read pages and notification templates from below this absolute path, and
# Alertmanager does not start without them. In our unpacked copy the path is replaced by one of the same
# length: a directory that the launcher opens as file descriptor 9 before it starts the program.
_SHARE = b"/usr/share/prometheus"
_SHARE_BY_DESCRIPTOR = b"/proc/self/fd/9/././."


NEWER_SUITE = "sid"
NEWER_PACKAGES = ("prometheus", "promtool", "prometheus-alertmanager")  # there promtool has a package of its own


class Unusable(Exception):
    """A program that does not run or is too old; the text says which and why."""


def main() -> int:
    """Fill .build/bin or .build/newer/bin, and say where each program came from. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--newer", action="store_true", help="those of Debian unstable, to test with both")
    newer = parser.parse_args().newer
    where = BUILD / "newer" if newer else BUILD
    (where / "bin").mkdir(parents=True, exist_ok=True)
    with (where / "bin.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once fetch once
        if _done(where):
            return 0
        notes: list[str] = []
        found = {} if newer else _on_path(notes)
        missing = [binary for binary in BINARIES if binary.name not in found]
        if missing:
            packages = NEWER_PACKAGES if newer else sorted({binary.package for binary in missing})
            whose = "Debian unstable" if newer else "this machine's distribution"
            print(f"fetching {' and '.join(packages)} (packages of {whose}, nothing is installed)")
            try:
                found |= _unpacked(missing, packages, where, suite=NEWER_SUITE if newer else None)
            except (AptFailed, Unusable) as error:
                print(f"No newer version: {error}" if newer else _remedy([*notes, str(error)]), file=sys.stderr)
                return 1
        for name, (target, version) in found.items():
            _link(where / "bin" / name, target)
            print(f"{name} {version}: {target}")
        at = {name: str(target) for name, (target, _) in found.items()}
        (where / "bin.json").write_text(json.dumps({"format": FORMAT, "build": str(where), "at": at}))
    return 0


def _done(where: Path) -> bool:
    """True when the last run's programs are all still in place."""
    try:
        stamp = json.loads((where / "bin.json").read_text())
    except (OSError, ValueError):
        return False
    links = [where / "bin" / binary.name for binary in BINARIES]
    return (stamp.get("format"), stamp.get("build")) == (FORMAT, str(where)) and all(
        os.access(link, os.X_OK) and stamp["at"].get(link.name) == str(link.readlink()) for link in links
    )


def _on_path(notes: list[str]) -> dict[str, tuple[Path, str]]:
    """The programs on PATH that serve: name -> (path, version); why others do not is added to *notes*."""
    places = [p for p in os.environ.get("PATH", os.defpath).split(os.pathsep) if p and Path(p) != BUILD / "bin"]
    found: dict[str, tuple[Path, str]] = {}
    for binary in BINARIES:
        for name in binary.known_as:
            place = shutil.which(name, path=os.pathsep.join(places))
            if place is None:
                continue
            try:
                found[binary.name] = Path(place), check_version(binary, Path(place))
                break
            except Unusable as error:
                notes.append(str(error))
    return found


def _unpacked(
    missing: Sequence[Binary], packages: Sequence[str], where: Path, suite: str | None
) -> dict[str, tuple[Path, str]]:
    """Fetch *packages* of *suite* and return the *missing* programs from them: name -> (path, version)."""
    fresh = Path(tempfile.mkdtemp(dir=where, prefix="debs-"))
    try:
        fetch(packages, where / "apt", fresh, suite=suite)
        debs = where / "debs"
        shutil.rmtree(debs, ignore_errors=True)
        fresh.chmod(0o755)
        fresh.rename(debs)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    found: dict[str, tuple[Path, str]] = {}
    for binary in missing:
        places = [debs / "usr/bin" / name for name in binary.known_as]
        place = next((p for p in places if p.exists()), None)
        if place is None:
            raise Unusable(f"the package {binary.package} brought no {binary.name}")
        runs = with_own_share(place, debs / "usr/share/prometheus")
        found[binary.name] = runs, check_version(binary, runs)
    return found


def with_own_share(program: Path, share: Path) -> Path:
    """Return what to start so that *program* reads *share* in place of /usr/share/prometheus.

    A program that does not name that path is returned as it is; else its file is changed in place and a
    launcher is written beside it.
    """
    code = program.read_bytes()
    if _SHARE not in code:
        return program
    program.write_bytes(code.replace(_SHARE, _SHARE_BY_DESCRIPTOR))
    launcher = program.with_name(f"{program.name}.sh")
    launcher.write_text(f'#!/bin/sh\nexec 9< {shlex.quote(str(share))}\nexec {shlex.quote(str(program))} "$@"\n')
    launcher.chmod(0o755)
    return launcher


def check_version(binary: Binary, place: Path) -> str:
    """Run ``--version`` and return the version as printed. Raises Unusable."""
    try:
        ran = subprocess.run([place, "--version"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"{place} does not run: {error}") from error
    # "prometheus, version 2.42.0+ds (branch: ...": alike for all four, on stdout or (older ones) stderr
    said = re.search(r"version v?((\d+)\.(\d+)[^\s)]*)", ran.stdout + ran.stderr)
    if ran.returncode != 0 or said is None:
        raise Unusable(f"{place} --version failed: {(ran.stderr or ran.stdout).strip()[:200]}")
    if (int(said[2]), int(said[3])) < binary.oldest:
        raise Unusable(f"{place} is {said[1]}, older than {binary.oldest[0]}.{binary.oldest[1]}")
    return said[1]


def _link(link: Path, target: Path) -> None:
    """Point *link* at *target*, atomically."""
    fresh = link.with_name(f".{link.name}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _remedy(why: list[str]) -> str:
    names: Mapping[str, str] = {b.name: f"{b.name} >= {b.oldest[0]}.{b.oldest[1]}" for b in BINARIES}
    return (
        f"Checking the rules and running the demo need {', '.join(names.values())}.\n"
        + "".join(f"  - {reason}\n" for reason in why)
        + "Put them on PATH (releases of Prometheus and Alertmanager, or the Debian or Ubuntu packages\n"
        "`prometheus` and `prometheus-alertmanager`) and run the same command again."
    )


if __name__ == "__main__":
    sys.exit(main())
