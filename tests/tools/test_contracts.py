"""The import contracts of pyproject.toml refuse what they are for, in every package, and leave none out."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

from tests.lint import none_of

ROOT = Path(__file__).parents[2]
CLIENTS = ("requests", "kubernetes", "prometheus_api_client", "sqlalchemy", "apprise")
PACKAGES = sorted(p.name for p in (ROOT / "receiver").iterdir() if (p / "__init__.py").exists())
ROOMS = ("model", "money", "scaling", "idle", "report", "explain", "notices")  # each reads those before it
CONFIGURED = read_configuration(str(ROOT / "pyproject.toml"))
TYPES = {"forbidden": ForbiddenContract, "layers": LayersContract}


@pytest.fixture(scope="module")
def sound() -> grimp.ImportGraph:
    """The imports as they are."""
    return grimp.build_graph("receiver", "simulator", include_external_packages=True, cache_dir=None)


def kept(contract: str, graph: grimp.ImportGraph) -> bool:
    """True when *graph*, which is not to be used again, keeps the contract of that id."""
    [options] = [c for c in CONFIGURED["contracts_options"] if c["id"] == contract]
    made: Any = TYPES[options["type"]](options["name"], CONFIGURED["session_options"], options)
    return bool(made.check(graph, verbose=False).kept)


def planted(graph: grimp.ImportGraph, importer: str, imported: str) -> grimp.ImportGraph:
    """*graph* with one more import."""
    changed = deepcopy(graph)
    changed.add_import(importer=importer, imported=imported)
    return changed


def deepest(package: str, graph: grimp.ImportGraph) -> str:
    """The module furthest down in *package*."""
    return max(graph.find_descendants(package), key=lambda name: (name.count("."), name))


def taken(contract: str, graph: grimp.ImportGraph, pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each import of *pairs* that the contract allows in the deepest module of a package; *graph* keeps it."""
    assert kept(contract, deepcopy(graph)), contract
    for importer, imported in pairs:
        module = deepest(importer, graph)
        other = deepest(imported, graph) if "." in imported else imported
        if kept(contract, planted(graph, module, other)):
            yield f"{module} may import {other}"


def test_a_client_of_the_outside_is_refused_outside_the_adapters(sound: grimp.ImportGraph) -> None:
    packages = [f"receiver.{p}" for p in PACKAGES if p != "adapters"]
    none_of(taken("clients-in-adapters", sound, product(packages, CLIENTS)))


def test_flask_is_refused_outside_the_web_side(sound: grimp.ImportGraph) -> None:
    packages = [f"receiver.{p}" for p in PACKAGES if p not in ("web", "server")]
    none_of(taken("flask-in-web", sound, ((package, "flask") for package in packages)))


def test_every_package_has_its_layer_and_reads_none_above_or_beside_it(sound: grimp.ImportGraph) -> None:
    [layers] = [c["layers"] for c in CONFIGURED["contracts_options"] if c["id"] == "layers"]
    named = [[f"receiver.{name.strip()}" for name in layer.split("|")] for layer in layers]
    assert sorted(package for layer in named for package in layer) == [f"receiver.{p}" for p in PACKAGES]
    above = [(low, high) for n, layer in enumerate(named) for low in layer for over in named[:n] for high in over]
    beside = [pair for layer in named for pair in permutations(layer, 2)]
    none_of(taken("layers", sound, [*above, *beside]))


def test_a_package_that_no_layer_names_is_refused(sound: grimp.ImportGraph) -> None:
    changed = deepcopy(sound)
    changed.add_module("receiver.helpers")
    assert not kept("layers", changed)


def test_a_room_of_the_core_reads_no_room_above_it(sound: grimp.ImportGraph) -> None:
    none_of(taken("rooms", sound, combinations([f"receiver.core.{room}" for room in ROOMS], 2)))
