"""Make .venv with exactly what requirements/dev.lock names, and the checkout itself in editable form.

Run as ``python3 -m tools.make_venv`` from the checkout with the Python the environment shall have; quick
when nothing changed. With ``--run`` it gets what the product needs to run, a third of that, unless it has more already.
An argument names another folder of the checkout than .venv. Where Python came without ensurepip (Debian without
python3-venv), pip is taken from the distribution's package, unpacked under .build.
"""

import argparse
import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.private_apt import AptFailed, fetch

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build"
VENV = ROOT / ".venv"
OLDEST = (3, 11)
DEVELOP, RUN = ("dev",), ("run", "build")  # names of locks; the checkout is installed by what build.lock names


class NotMade(Exception):
    """The environment could not be made; the text says why and what to do."""


def main() -> int:
    """Bring .venv, or the folder that the command line names, up to date. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.make_venv")
    parser.add_argument("folder", nargs="?", default=VENV.name, help="of the checkout")
    parser.add_argument("--run", action="store_true", help="only what runs the product, not the tools of developers")
    asked = parser.parse_args()
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            bring_up_to_date(ROOT / asked.folder, only_run=asked.run)
        except NotMade as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def bring_up_to_date(venv: Path, *, only_run: bool = False) -> None:
    """Install what changed since the last time: everything when the lock did, else only the checkout."""
    stamp, name = venv / "made-from", venv.relative_to(ROOT)
    names: Sequence[str] = DEVELOP
    locked = _locked(names)
    if only_run and not (stamp.is_file() and stamp.read_text().startswith(locked)):
        names = RUN
        locked = _locked(names)
    project = "project " + _digest(ROOT / "pyproject.toml")
    made_from = stamp.read_text().splitlines() if stamp.is_file() else []
    if made_from == [locked, project] and _runs(venv):
        return
    if sys.version_info < OLDEST:
        raise NotMade(f"Python {sys.version.split()[0]} is too old: 3.11 or newer is needed (make PYTHON=python3.12)")
    stamp.unlink(missing_ok=True)
    if not _runs(venv):
        _create(venv)
    installer = pip(venv)
    if made_from[:1] != [locked]:
        files = [str(path) for path in _locks(names)]
        print(f"installing {' and '.join(f'requirements/{n}.lock' for n in names)} into {name}", flush=True)
        _install([*installer, "install", "-q", "--require-hashes", *(x for path in files for x in ("-r", path))])
    print(f"installing the checkout into {name}", flush=True)
    _install([*installer, "install", "-q", "--no-deps", "--no-build-isolation", "-e", str(ROOT)])
    stamp.write_text(f"{locked}\n{project}\n")


def install_beside(lock: Path, folder: Path) -> None:
    """Install what *lock* names into *folder*, for PYTHONPATH, beside what .venv has. Raises NotMade."""
    stamp = folder / "made-from"
    if stamp.is_file() and stamp.read_text() == _digest(lock):
        return
    shutil.rmtree(folder, ignore_errors=True)
    print(f"installing {lock.relative_to(ROOT)} into {folder.relative_to(ROOT)}", flush=True)
    _install([*pip(), "install", "-q", "--require-hashes", "--target", str(folder), "-r", str(lock)])
    stamp.write_text(_digest(lock))


def _locks(names: Sequence[str]) -> list[Path]:
    return [ROOT / "requirements" / f"{name}.lock" for name in names]


def _locked(names: Sequence[str]) -> str:
    return f"lock {' '.join(_digest(path) for path in _locks(names))}"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _python(venv: Path) -> Path:
    return venv / "bin" / "python"


def _runs(venv: Path) -> bool:
    """True when *venv* has a Python that starts and is new enough."""
    asks = f"import sys; sys.exit(sys.version_info < {OLDEST})"
    try:
        return subprocess.run([_python(venv), "-c", asks], capture_output=True).returncode == 0
    except OSError:
        return False


def _create(venv: Path) -> None:
    print(f"creating {venv.relative_to(ROOT)} with Python {sys.version.split()[0]}", flush=True)
    shutil.rmtree(venv, ignore_errors=True)
    bare = [] if importlib.util.find_spec("ensurepip") else ["--without-pip"]
    if subprocess.run([sys.executable, "-m", "venv", *bare, str(venv)]).returncode != 0:
        raise NotMade(f"{sys.executable} -m venv failed: install your distribution's python3-venv package")


def pip(venv: Path = VENV) -> list[str]:
    """The command that runs pip inside *venv*. Raises NotMade."""
    python = str(_python(venv))
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return [python, "-m", "pip"]
    unpacked = BUILD / "pip"
    try:
        if not list(unpacked.rglob("pip-*.whl")):
            print("fetching pip (this Python came without ensurepip)", flush=True)
            fetch(["python3-pip-whl"], BUILD / "apt", unpacked)
        wheel = next(unpacked.rglob("pip-*.whl"))
    except (AptFailed, StopIteration) as error:
        raise NotMade(
            f"This Python came without ensurepip, and pip could not be fetched: {error or 'no wheel in the package'}\n"
            "Install python3-venv (Debian, Ubuntu), or name another Python: make PYTHON=python3.12"
        ) from error
    return [python, str(wheel / "pip")]  # a wheel is a zip file that Python can run


def _install(command: list[str]) -> None:
    if subprocess.run([*command, "--disable-pip-version-check", "--no-input"], cwd=ROOT).returncode != 0:
        raise NotMade("pip failed, see above; the environment is incomplete and the next run starts over")


if __name__ == "__main__":
    sys.exit(main())
