"""Write what the image is made of: ``python sbom.py FOLDER``, with the Python whose packages are meant.

- ``sbom.cdx.json``: a CycloneDX 1.6 bill of materials.
- ``third-party-licences.txt``: each package with its licence and the texts that it ships.

Both come from the metadata of the installed packages, which are the locked ones. Standard library only: it runs in the
image's build stage. It fails for a package that names no licence.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

OURS = "civo-gpu-autoscaler"
BILL, LICENCES = "sbom.cdx.json", "third-party-licences.txt"
LONGEST_NAME = 60  # characters: some packages put the whole text where the name belongs
TEXTS = ("licen", "copying", "notice", "copyright")  # names of files with texts begin so
HEAD = """\
Packages in this image beside {ours}, each with its licence and the texts that it ships.

They are the unchanged wheels of PyPI, each in files of its own below /opt/gpu-autoscaler/lib: any of them can be
replaced by another build of it. Their sources are at the addresses below. The base image has the licences of Python
and Debian's packages, below /usr/local/lib and /usr/share/doc.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """An installed package; *licence* is an SPDX expression where *is_expression*, else words."""

    name: str
    version: str
    licence: str
    is_expression: bool
    texts: Sequence[tuple[str, str]] = field(default=(), repr=False)  # file names with contents

    @property
    def normal(self) -> str:
        """Its name as PyPI's addresses have it."""
        return self.name.lower().replace("_", "-").replace(".", "-")

    @property
    def page(self) -> str:
        return f"https://pypi.org/project/{self.normal}/{self.version}/"


def packages(found: Iterable[Distribution]) -> list[Package]:
    """Return the packages of *found* by name. Raises ValueError for those that name no licence."""
    read = sorted((_package(one) for one in found), key=lambda package: package.normal)
    nameless = [package.name for package in read if not package.licence]
    if nameless:
        raise ValueError(f"no licence is named by {', '.join(nameless)}")
    return read


def _package(found: Distribution) -> Package:
    told: Any = found.metadata  # an email.message.Message, as its stubs do not say
    expression = told.get("License-Expression") or ""
    short = " ".join((told.get("License") or "").split())
    classes = [c.rpartition(" :: ")[2] for c in told.get_all("Classifier", []) if c.startswith("License ::")]
    words = short if short and len(short) <= LONGEST_NAME else ", ".join(classes)
    return Package(
        name=told["Name"],
        version=found.version,
        licence=expression or words,
        is_expression=bool(expression),
        texts=tuple(_texts(found)),
    )


def _texts(found: Distribution) -> Iterator[tuple[str, str]]:
    for file in found.files or ():
        in_metadata = any(part.endswith(".dist-info") for part in file.parts)
        if in_metadata and file.name.lower().startswith(TEXTS):
            yield file.name, file.read_text(encoding="utf-8")


def bill(read: Sequence[Package]) -> Mapping[str, Any]:
    """Return *read* as CycloneDX; without times and random numbers, so that equal images have equal files."""
    every = {package.normal: _component(package) for package in read}
    ours = every.pop(OURS, {"type": "application", "name": OURS})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**ours, "type": "application"}},
        "components": list(every.values()),
    }


def _component(package: Package) -> dict[str, Any]:
    named = {"expression": package.licence} if package.is_expression else {"license": {"name": package.licence}}
    address = f"pkg:pypi/{package.normal}@{package.version}"
    return {
        "type": "library",
        "bom-ref": address,
        "name": package.name,
        "version": package.version,
        "licenses": [named],
        "purl": address,
        "externalReferences": [{"type": "distribution", "url": package.page}],
    }


def licences(read: Sequence[Package]) -> str:
    """Return the names, licences and texts of *read*, a table first."""
    others = [package for package in read if package.normal != OURS]
    table = "".join(f"{p.name} {p.version}: {p.licence}\n    {p.page}\n" for p in others)
    texts = "".join(
        f"\n{'=' * 80}\n{p.name} {p.version}: {name}\n{'=' * 80}\n\n{text.strip()}\n"
        for p in others
        for name, text in p.texts
    )
    return HEAD.format(ours=OURS) + table + texts


def main(folder: Path) -> None:
    read = packages(distributions())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BILL).write_text(json.dumps(bill(read), indent=1) + "\n", encoding="utf-8")
    (folder / LICENCES).write_text(licences(read), encoding="utf-8")
    print(f"{len(read)} packages listed in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
