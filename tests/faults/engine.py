"""`python -m tests.faults --engine COMMIT`: today's worlds and checks against the product as it was at *COMMIT*.

A copy of the tree gets the `receiver` package of that commit. The simulated world and what is checked stay as they are
today, so a law that an older product breaks is seen to break.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.faults.planted import PARTS, ROOT

WORLD = Path("receiver/replay/world")
PODS = Path("receiver/replay/kubernetes.py")
BOUND = "        return PodPhase.STARTING\n"
NOMINATED = "    if pod.nominated:\n        return PodPhase.OTHER\n"  # as every release of the adapters reads a pod


def against(commit: str, arguments: list[str]) -> int:
    """Run `tests.faults` with *arguments* on the product of *commit*; return its exit code."""
    with tempfile.TemporaryDirectory(prefix="faults-engine-") as name:
        folder = Path(name)
        for part in PARTS:
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.rmtree(folder / "receiver")
        packed = subprocess.run(["git", "archive", commit, "receiver"], cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        shutil.rmtree(folder / WORLD)
        shutil.copytree(ROOT / WORLD, folder / WORLD, ignore=shutil.ignore_patterns("__pycache__"))
        pods = (folder / PODS).read_text(encoding="utf-8")
        if "pod.nominated" not in pods:
            (folder / PODS).write_text(pods.replace(BOUND, BOUND + NOMINATED, 1), encoding="utf-8")
        return subprocess.run([sys.executable, "-m", "tests.faults", *arguments], cwd=folder, check=False).returncode
