"""`python -m campaigns.faults --engine COMMIT`: today's worlds and checks against the product as it was at *COMMIT*.

The tree of that commit gets today's `campaigns`: what is drawn and what is checked stay as they are, so that a law
which an older product breaks is seen to break. The simulator has known these faults since 09dfef4c.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from campaigns.faults.planted import PARTS, ROOT

WORLDS = Path("campaigns")
STORES = Path("tests/stores.py")  # older commits have it elsewhere
STORE = Path("simulator/store")
NO_STORE = '''"""This product has no store in memory: every world is played on SQLite."""


class MemoryStore:
    """None is ever made."""
'''


def against(commit: str, arguments: list[str]) -> int:
    """Run `campaigns.faults` with *arguments* on the product of *commit*; return its exit code."""
    with tempfile.TemporaryDirectory(prefix="faults-engine-") as name:
        folder = Path(name)
        parts = [part for part in PARTS if part != str(WORLDS)]
        packed = subprocess.run(["git", "archive", commit, *parts], cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        shutil.copytree(ROOT / WORLDS, folder / WORLDS, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / STORES, folder / STORES)
        if not (folder / STORE).exists():
            (folder / STORE).mkdir()
            (folder / STORE / "__init__.py").write_text(NO_STORE, encoding="utf-8")
        command = [sys.executable, "-m", "campaigns.faults", *arguments]
        return subprocess.run(command, cwd=folder, check=False).returncode
