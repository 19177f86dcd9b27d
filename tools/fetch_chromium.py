"""Find a Chromium for the tests of the pages: on PATH, else Playwright's own, else from Debian packages.

Run as ``python3 -m tools.fetch_chromium`` from the checkout; quick when it is there already. What was found is
said in .build/chromium.json: where it is, its version, and whether it runs in its sandbox.
"""

import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tools.private_apt import AptFailed, fetch

BUILD = Path(__file__).resolve().parent.parent / ".build"
FOUND = BUILD / "chromium.json"
TREE = BUILD / "chromium"

FORMAT = 1  # grows when this file makes something else of the same packages
OLDEST = 115  # the first that is the same browser with a window and without
KNOWN_AS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chromium-headless-shell")
# Debian's second one is the same browser without what only a window needs; older releases lack it.
PACKAGES = ("chromium-headless-shell", "chromium")
FONTS = "fonts-dejavu-core"
SECONDS = 90

_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{tree}/usr/share/fonts</dir>
  <cachedir>{tree}/fontcache</cachedir>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""

REMEDY = """\
The tests of the pages need Chromium, version {oldest} or newer.
{why}Put one on PATH ({names}), or let Playwright fetch its own
(.venv/bin/playwright install chromium-headless-shell; Ubuntu has no package of it, only a snap), and run the same
command again. The other tests run without it: .venv/bin/pytest --ignore tests/browser
"""


class Unusable(Exception):
    """A Chromium that does not run or is too old; the text says which and why."""


def main() -> int:
    """Write .build/chromium.json and say in one line what was found. Returns the exit code."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once fetch once
        if _done():
            return 0
        try:
            place, version, sandbox = _found()
        except (AptFailed, Unusable) as error:
            print(error, file=sys.stderr)
            return 1
        stamp = {"format": FORMAT, "build": str(BUILD), "root": _is_root(), "at": str(place), "sandbox": sandbox}
        FOUND.write_text(json.dumps({**stamp, "version": version}))
        without = "" if sandbox else " (without its sandbox: not for root, or not on this kernel)"
        print(f"chromium {version}: {place}{without}")
    return 0


def _done() -> bool:
    """True when what the last run found is still in place and was found by the same kind of user."""
    try:
        stamp = json.loads(FOUND.read_text())
    except (OSError, ValueError):
        return False
    same = (stamp.get("format"), stamp.get("build"), stamp.get("root")) == (FORMAT, str(BUILD), _is_root())
    return same and os.access(stamp["at"], os.X_OK)


def _is_root() -> bool:
    return os.geteuid() == 0


def _found() -> tuple[Path, str, bool]:
    """The first that serves: place, version, whether in its sandbox. Raises Unusable with every reason."""
    notes: list[str] = []
    for place in _installed():
        try:
            return place, *check(place)
        except Unusable as error:
            notes.append(str(error))
    for package in PACKAGES:
        try:
            print(f"fetching {package} and what it needs (about 200 MB of packages, nothing is installed)", flush=True)
            place = _unpacked(package)
            return place, *check(place)
        except (AptFailed, Unusable) as error:
            notes.append(f"{package}: {error}")
    why = "".join(f"  - {note}\n" for note in notes)
    raise Unusable(REMEDY.format(oldest=OLDEST, why=why, names=", ".join(KNOWN_AS[:3])))


def _installed() -> Iterator[Path]:
    """Those on PATH, then those that Playwright has fetched for this user, newest first."""
    for name in KNOWN_AS:
        if (place := shutil.which(name)) is not None:
            yield Path(place)
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    patterns = ("chromium*/*/headless_shell", "chromium*/*/chrome-headless-shell", "chromium*/*/chrome")
    yield from sorted((p for pattern in patterns for p in cache.glob(pattern)), reverse=True)


def _unpacked(package: str) -> Path:
    """Fetch *package* with all it needs and return what starts it. Raises AptFailed, Unusable."""
    fresh = Path(tempfile.mkdtemp(dir=BUILD, prefix="chromium-"))
    try:
        fetch([package, FONTS], BUILD / "apt", fresh, with_dependencies=True)
        shutil.rmtree(TREE, ignore_errors=True)
        fresh.chmod(0o755)
        fresh.rename(TREE)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    program = TREE / "usr/lib/chromium" / package
    if not program.exists():
        raise Unusable(f"the package brought no {program.relative_to(TREE)}")
    return write_launcher(program, TREE)


def write_launcher(program: Path, tree: Path) -> Path:
    """Write what starts *program* with the libraries and fonts below *tree*, and return it."""
    libraries = sorted({p.parent for p in tree.glob("**/lib/*-linux-gnu*/**/lib*.so*") if "share" not in p.parts})
    fonts = tree / "fonts.conf"
    fonts.write_text(_FONTS.format(tree=escape(str(tree))))
    launcher = tree / "chromium.sh"
    launcher.write_text(
        "#!/bin/sh\n"
        f"export LD_LIBRARY_PATH={shlex.quote(os.pathsep.join(map(str, libraries)))}\n"
        f"export FONTCONFIG_FILE={shlex.quote(str(fonts))}\n"
        f'exec {shlex.quote(str(program))} "$@"\n'
    )
    launcher.chmod(0o755)
    return launcher


def check(place: Path) -> tuple[str, bool]:
    """Let *place* render a page; return its version and whether it did so in its sandbox. Raises Unusable."""
    said = re.search(r"((\d+)(?:\.\d+)+)", _said([place, "--version"]))
    if said is None:
        raise Unusable(f"{place} does not say its version")
    if int(said[2]) < OLDEST:
        raise Unusable(f"{place} is {said[1]}, older than {OLDEST}")
    if not _is_root():  # Chromium refuses its sandbox to root; elsewhere the kernel may
        try:
            _render(place)
            return said[1], True
        except Unusable:
            pass
    _render(place, "--no-sandbox")
    return said[1], False


def _render(place: Path, *options: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:  # its children may still write there
        page = "data:text/html,<title>it renders</title>"
        flags = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
        if "it renders" not in _said([place, *flags, *options, "--dump-dom", page]):
            raise Unusable(f"{place} shows no page")


def _said(command: Sequence[str | Path]) -> str:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"{command[0]} does not run: {error}") from error
    if ran.returncode != 0:
        last = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
        raise Unusable(f"{command[0]} ended with {ran.returncode}: {' '.join(last)[:300]}")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
