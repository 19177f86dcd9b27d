"""Put prometheus, promtool, alertmanager and amtool into .build/bin: from PATH, else from Debian packages.

Run as ``python3 -m tools.fetch_binaries`` from the checkout; quick when everything is there already. With ``--newer``
those of Debian unstable go into .build/newer/bin, and the tests that depend on the version run with both from then on.
With ``--victoria-metrics`` Debian unstable's victoria-metrics and vmalert go into .build/victoria/bin.
"""

import argparse
import fcntl
import gzip
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


# Of the packages in Debian stable, vmalert is too old for keep_firing_for.
VICTORIA = (
    Binary("victoria-metrics", ("victoria-metrics",), "victoria-metrics", (1, 90)),
    Binary("vmalert", ("vmalert",), "victoria-metrics", (1, 90)),
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What one run brings into *folder*/bin: from PATH too unless a *suite* of Debian is named."""

    folder: Path
    binaries: tuple[Binary, ...] = BINARIES
    packages: tuple[str, ...] = ()  # else those of the binaries that are missing
    suite: str | None = None


OURS = Wanted(folder=BUILD)
NEWER = Wanted(
    folder=BUILD / "newer",
    packages=("prometheus", "promtool", "prometheus-alertmanager"),  # there promtool has a package of its own
    suite="sid",
)
VICTORIA_METRICS = Wanted(folder=BUILD / "victoria", binaries=VICTORIA, suite="sid")


class Unusable(Exception):
    """A program that does not run or is too old; the text says which and why."""


def main() -> int:
    """Fill .build/bin or .build/newer/bin, and say where each program came from. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    chosen = parser.add_mutually_exclusive_group()
    for option, choice, why in (
        ("--newer", NEWER, "those of Debian unstable, to test with both"),
        ("--victoria-metrics", VICTORIA_METRICS, "VictoriaMetrics and vmalert, of Debian unstable"),
    ):
        chosen.add_argument(option, dest="wanted", action="store_const", const=choice, default=OURS, help=why)
    wanted: Wanted = parser.parse_args().wanted
    where = wanted.folder
    (where / "bin").mkdir(parents=True, exist_ok=True)
    with (where / "bin.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once fetch once
        if _done(wanted):
            return 0
        notes: list[str] = []
        found = {} if wanted.suite else _on_path(notes)
        missing = [binary for binary in wanted.binaries if binary.name not in found]
        if missing:
            packages = wanted.packages or sorted({binary.package for binary in missing})
            whose = "Debian unstable" if wanted.suite else "this machine's distribution"
            print(f"fetching {' and '.join(packages)} (packages of {whose}, nothing is installed)")
            try:
                found |= _unpacked(missing, packages, where, wanted.suite)
            except (AptFailed, Unusable) as error:
                print(f"Not fetched: {error}" if wanted.suite else _remedy([*notes, str(error)]), file=sys.stderr)
                return 1
        for name, (target, version) in found.items():
            _link(where / "bin" / name, target)
            print(f"{name} {version}: {target}")
        at = {name: str(target) for name, (target, _) in found.items()}
        (where / "bin.json").write_text(json.dumps({"format": FORMAT, "build": str(where), "at": at}))
    return 0


def _done(wanted: Wanted) -> bool:
    """True when the last run's programs are all still in place."""
    where = wanted.folder
    try:
        stamp = json.loads((where / "bin.json").read_text())
    except (OSError, ValueError):
        return False
    links = [where / "bin" / binary.name for binary in wanted.binaries]
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
        found[binary.name] = runs, check_version(binary, runs, _packaged(debs, binary.package))
    return found


def _packaged(debs: Path, package: str) -> str:
    """Return the version of an unpacked package, such as ``1.145.0+ds1-2``, or an empty text."""
    try:
        with gzip.open(debs / "usr/share/doc" / package / "changelog.Debian.gz", "rt", encoding="utf-8") as changelog:
            return changelog.readline().partition("(")[2].partition(")")[0]
    except OSError:
        return ""


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


def check_version(binary: Binary, place: Path, packaged: str = "") -> str:
    """Run ``--version`` and return the version as printed. Raises Unusable.

    A program that runs and prints nothing, as Debian builds VictoriaMetrics, has that of its package, *packaged*.
    """
    try:
        ran = subprocess.run([place, "--version"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"{place} does not run: {error}") from error
    # "prometheus, version 2.42.0+ds (branch: ...": alike for all four, on stdout or (older ones) stderr
    printed = (ran.stdout + ran.stderr).strip() or f"version {packaged}"
    said = re.search(r"version v?((\d+)\.(\d+)[^\s)]*)", printed)
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
