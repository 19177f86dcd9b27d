"""Debian packages without root: apt with lists and a cache of its own, unpacked beside the checkout.

Nothing on the machine changes: no package is installed, no service starts, no hook of the machine's
apt configuration runs, and the machine's own lists and cache are neither read nor written.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_SECONDS = 600

# Must fit the loader and the kernel interfaces of the machine: its own is used, never an unpacked one.
_OF_THE_MACHINE = ("libc6_",)

# `apt-get update` would run the machine's own hooks, which clean caches or wake other services.
_NO_HOOKS = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class AptFailed(Exception):
    """apt or dpkg is missing, or did not deliver; the text says which and why."""


def fetch(
    packages: Sequence[str],
    state: Path,
    into: Path,
    *,
    with_dependencies: bool = False,
    whole: bool = False,
    suite: str | None = None,
) -> None:
    """Download *packages* from the machine's apt sources and unpack them into the directory *into*.

    With a *suite*, as sid, it is that of Debian, from the mirror which the machine uses for its own.

    *state* keeps apt's lists and downloads; it is created when missing. *with_dependencies* brings everything
    they depend on too, as for a machine on which nothing but the C library is installed. *whole* brings that as
    well: *into* becomes a root file system of its own.
    Raises AptFailed.
    """
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise AptFailed(f"{tool} is not on this machine")
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    hooks = state / "no-hooks.conf"
    hooks.write_text(_NO_HOOKS)
    options = ["-q", "-c", str(hooks)] + [
        part
        for setting in (
            f"Dir::State::lists={state / 'lists'}",
            f"Dir::Cache={state / 'cache'}",
            "Dir::State::status=/dev/null",
            "Debug::NoLocking=1",
            "APT::Sandbox::User=",  # as root apt would drop to a user that may not enter the checkout
            "Acquire::Retries=3",
            "Acquire::http::Timeout=60",
        )
        for part in ("-o", setting)
    ]
    if suite:
        sources = state / "sources.list"
        sources.write_text(_source(_mirror(options, state), suite))
        options += ["-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null"]
    # Some third-party source may be down while ours is not: only the download decides.
    updated = _run(["apt-get", *options, "update"], cwd=state)
    with tempfile.TemporaryDirectory(dir=state) as downloads:
        how = _with_dependencies(Path(downloads)) if with_dependencies or whole else ["download"]
        got = _run(["apt-get", *options, *how, *packages], cwd=Path(downloads))
        left_out = () if whole else _OF_THE_MACHINE
        debs = [deb for deb in sorted(Path(downloads).glob("*.deb")) if not deb.name.startswith(left_out)]
        if got.returncode != 0 or len(debs) < len(packages):
            raise AptFailed(_last_words(got) or _last_words(updated) or "apt-get download brought nothing")
        into.mkdir(parents=True, exist_ok=True)
        for deb in debs:
            unpacked = _run(["dpkg", "-x", str(deb), str(into)], cwd=state)
            if unpacked.returncode != 0:
                raise AptFailed(_last_words(unpacked))


def _mirror(options: Sequence[str], state: Path) -> str:
    """Return the URL of Debian's archive that the machine's sources name. Raises AptFailed."""
    asked = _run(["apt-get", *options, "--print-uris", "update"], cwd=state)
    found = re.search(r"'(\S+/debian)/dists/", asked.stdout)
    if found is None:
        raise AptFailed("no source of this machine's apt is an archive of Debian")
    return found[1]


def _source(mirror: str, suite: str) -> str:
    """Return the line for apt, with Debian's own key where the machine has it at its usual place."""
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    return f"deb {signed}{mirror} {suite} main\n"


def _with_dependencies(downloads: Path) -> list[str]:
    """Return the options with which apt resolves an installation on an empty machine and only downloads it."""
    (downloads / "partial").mkdir()
    return ["-o", f"Dir::Cache::archives={downloads}", "install", "--download-only", "--yes", "--no-install-recommends"]


def _run(command: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AptFailed(f"{command[0]}: {error}") from error


def _last_words(result: subprocess.CompletedProcess[str]) -> str:
    """The errors a failed command ended with, in one line."""
    errors = [line for line in result.stderr.splitlines() if line.startswith(("E:", "dpkg"))]
    return " ".join(errors[-2:] or result.stderr.splitlines()[-1:])
