"""The bill of materials and the licences of the image, from the packages that are installed here."""

import json
import re
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from tools.image.sbom import BILL, LICENCES, bill, licences, packages

ROOT = Path(__file__).parents[3]
LOCKED = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements" / "run.lock").read_text(), re.MULTILINE))
RUN = packages([distribution(name) for name in LOCKED])


class Installed(Distribution):
    """A package with *metadata* as text and no files."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


def test_every_locked_package_is_in_the_bill_with_version_and_licence() -> None:
    found = bill(RUN)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    components = {c["name"].lower().replace("_", "-"): c for c in found["components"]}
    assert {name: c["version"] for name, c in components.items()} == LOCKED
    assert all(c["licenses"] and c["purl"] == f"pkg:pypi/{name}@{c['version']}" for name, c in components.items())
    assert components["psycopg"]["licenses"] == [{"expression": "LGPL-3.0-only"}]


def test_the_list_has_each_package_and_the_text_of_its_licence() -> None:
    text = licences(RUN)
    assert [name for name in LOCKED if f"/{name}/{LOCKED[name]}/" not in text] == []
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text
    assert "psycopg 3" in text


def test_a_package_that_names_no_licence_fails_the_build() -> None:
    with pytest.raises(ValueError, match="no licence is named by odd"):
        packages([Installed("Name: odd\nVersion: 1\n")])


@pytest.mark.parametrize(
    ("told", "licence"),
    [
        ("License-Expression: MIT\nLicense: other\n", "MIT"),
        ("License: BSD 3-Clause\n", "BSD 3-Clause"),
        ("Classifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        (f"License: {'a whole text ' * 20}\nClassifier: License :: OSI Approved :: BSD License\n", "BSD License"),
    ],
)
def test_the_licence_is_the_expression_else_the_short_name_else_the_classifier(told: str, licence: str) -> None:
    [found] = packages([Installed(f"Name: one\nVersion: 1\n{told}")])
    assert found.licence == licence


def test_it_runs_without_the_project_and_writes_the_same_twice(tmp_path: Path) -> None:
    script, folders = ROOT / "tools" / "image" / "sbom.py", (tmp_path / "a", tmp_path / "b")
    installed = tmp_path / "installed"  # as in the image: without the packages of the tests
    installed.mkdir()
    for name in (*LOCKED, "civo-gpu-autoscaler"):
        metadata = Path(str(distribution(name)._path))  # type: ignore[attr-defined]  # of a folder
        (installed / metadata.name).symlink_to(metadata)
    for folder in folders:
        command = [sys.executable, "-S", "-P", str(script), str(folder)]
        subprocess.run(command, check=True, cwd=tmp_path, env={"PYTHONPATH": str(installed)}, capture_output=True)
    one, other = ([(folder / name).read_bytes() for name in (BILL, LICENCES)] for folder in folders)
    assert one == other
    assert json.loads(one[0])["metadata"]["component"]["name"] == "civo-gpu-autoscaler"
