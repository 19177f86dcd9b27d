"""What the check of an image sees: each fault is planted into a small tree of files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns.image import tree
from campaigns.image.tree import DATA, VENV, troubles

PACKAGES = f"{VENV}/lib/python3.11/site-packages"


@pytest.fixture(autouse=True)
def _owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs the tests stands for the user of the image, and for root where files are ours."""
    ours = (os.getuid(), os.getgid())
    monkeypatch.setattr(tree, "OWNERS", {"data": ours, "program": ours})


def trees(folder: Path) -> tuple[Path, Path]:
    """A base with Python and an image that adds what it may."""
    root, base = folder / "root", folder / "base"
    for place in (root, base):
        _file(place / "usr/bin/python3.11")
        _file(place / "usr/bin/passwd")
    _file(root / PACKAGES / "receiver/__pycache__/cli.cpython-311.pyc")
    _file(root / PACKAGES / "pipeline.py")
    (root / DATA).mkdir(parents=True)
    (root / "proc").mkdir()
    return root, base


def _file(path: Path, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(mode)


def test_a_sound_image_has_no_troubles(tmp_path: Path) -> None:
    assert list(troubles(*trees(tmp_path))) == []


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (lambda root: _file(root / "usr/bin/x86_64-linux-gnu-gcc-12"), "is a compiler"),
        (lambda root: _file(root / "usr/bin/make"), "is a compiler or builds programs"),
        (lambda root: _file(root / "usr/local/lib/left-over"), "left-over is in the image and not in its base"),
        (lambda root: _file(root / "secret"), "/secret is in the image and not in its base"),
        (lambda root: (root / "usr/bin/passwd").unlink(), "/usr/bin/passwd of the base is gone"),
        (lambda root: (root / PACKAGES / "pip").mkdir(), "pip is installed"),
        (lambda root: (root / PACKAGES / "setuptools-84.2.1.dist-info").mkdir(), "setuptools-84.2.1.dist-info is"),
        (lambda root: _file(root / PACKAGES / "receiver/cli/main.py", 0o666), "can be written by others than root"),
        (lambda root: _file(root / VENV / "bin/tool", 0o4755), "runs as somebody else"),
        (lambda root: _file(root / DATA / "ledger.db"), "is not empty"),
        (lambda root: (root / DATA).rmdir(), "is missing"),
        (lambda root: next((root / PACKAGES).rglob("*.pyc")).unlink(), "not compiled"),
    ],
)  # fmt: skip
def test_a_fault_is_told(tmp_path: Path, planted: Callable[[Path], object], told: str) -> None:
    root, base = trees(tmp_path)
    planted(root)
    found = list(troubles(root, base))
    assert any(told in trouble for trouble in found), found


def test_wrong_owners_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, base = trees(tmp_path)
    monkeypatch.setattr(tree, "OWNERS", {"data": (4711, 4711), "program": (4711, 4711)})
    found = list(troubles(root, base))
    ours = f"{os.getuid()}:{os.getgid()}"
    assert {f"/{DATA} belongs to {ours}", f"/{VENV} belongs to {ours}", f"/{PACKAGES} belongs to {ours}"} <= set(found)
