"""`python -m tests.faults --engine COMMIT`: today's worlds and checks against the product as it was at *COMMIT*.

The tree of that commit gets today's `tests/faults`: what is drawn and what is checked stay as they are, so that a law
which an older product breaks is seen to break. The simulator has known these faults since 09dfef4c.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.faults.planted import PARTS, ROOT

WORLDS = Path("tests/faults")
STORE = Path("simulator/store")
NO_STORE = '''"""This product has no store in memory: every world is played on SQLite."""


class MemoryStore:
    """None is ever made."""
'''


def against(commit: str, arguments: list[str]) -> int:
    """Run `tests.faults` with *arguments* on the product of *commit*; return its exit code."""
    with tempfile.TemporaryDirectory(prefix="faults-engine-") as name:
        folder = Path(name)
        packed = subprocess.run(["git", "archive", commit, *PARTS], cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        shutil.rmtree(folder / WORLDS)
        shutil.copytree(ROOT / WORLDS, folder / WORLDS, ignore=shutil.ignore_patterns("__pycache__"))
        if not (folder / STORE).exists():
            (folder / STORE).mkdir()
            (folder / STORE / "__init__.py").write_text(NO_STORE, encoding="utf-8")
        return subprocess.run([sys.executable, "-m", "tests.faults", *arguments], cwd=folder, check=False).returncode
