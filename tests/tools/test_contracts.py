"""The import contracts of pyproject.toml refuse what they are for, in every package, and leave none out."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

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
    """True when *graph* keeps the contract of that id."""
    [options] = [c for c in CONFIGURED["contracts_options"] if c["id"] == contract]
    made: Any = TYPES[options["type"]](options["name"], CONFIGURED["session_options"], options)
    return bool(made.check(deepcopy(graph), verbose=False).kept)


def planted(graph: grimp.ImportGraph, importer: str, imported: str) -> grimp.ImportGraph:
    """*graph* with one more import."""
    changed = deepcopy(graph)
    changed.add_import(importer=importer, imported=imported)
    return changed


def deepest(package: str, graph: grimp.ImportGraph) -> str:
    """The module furthest down in *package*."""
    return max(graph.find_descendants(package), key=lambda name: (name.count("."), name))


@pytest.mark.parametrize("package", [p for p in PACKAGES if p != "adapters"])
def test_a_client_of_the_outside_is_refused_outside_the_adapters(package: str, sound: grimp.ImportGraph) -> None:
    module = deepest(f"receiver.{package}", sound)
    allowed = [c for c in CLIENTS if kept("clients-in-adapters", planted(sound, module, c))]
    assert allowed == [], f"{module} may import them"


@pytest.mark.parametrize("package", [p for p in PACKAGES if p not in ("web", "server")])
def test_flask_is_refused_outside_the_web_side(package: str, sound: grimp.ImportGraph) -> None:
    assert not kept("flask-in-web", planted(sound, deepest(f"receiver.{package}", sound), "flask"))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_its_layer(package: str, sound: grimp.ImportGraph) -> None:
    [layers] = [c["layers"] for c in CONFIGURED["contracts_options"] if c["id"] == "layers"]
    named = [name.strip() for layer in layers for name in layer.split("|")]
    assert sorted(named) == PACKAGES
    above = named[: named.index(package)]
    for other in above:
        if not any({package, other} <= {n.strip() for n in layer.split("|")} for layer in layers):
            wrong = planted(sound, deepest(f"receiver.{package}", sound), deepest(f"receiver.{other}", sound))
            assert not kept("layers", wrong), f"{package} may import {other}"


def test_a_package_that_no_layer_names_is_refused(sound: grimp.ImportGraph) -> None:
    changed = deepcopy(sound)
    changed.add_module("receiver.helpers")
    assert not kept("layers", changed)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_of_the_core_reads_no_room_above_it(room: str, sound: grimp.ImportGraph) -> None:
    for above in ROOMS[ROOMS.index(room) + 1 :]:
        wrong = planted(sound, deepest(f"receiver.core.{room}", sound), deepest(f"receiver.core.{above}", sound))
        assert not kept("rooms", wrong), f"{room} may read {above}"
