"""Each capability can be left out: without its folder and its line in the registry the rest imports, serves, buys a
node for work and gives it back. `python -m campaigns.without` plays the core's tests without each."""

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from receiver.capabilities import registry
from receiver.capabilities.capability import Capability
from receiver.cli.added import value_at
from tests.given.without import product_without

OURS = ("receiver", "simulator", "tests")


def seen_in(folder: Path) -> dict[str, Any]:
    """What a process sees in which the product in *folder* is imported anew (`tests.given.seen_without`). It is a copy
    of this one, so that the libraries need not be loaded once more."""
    found = folder / "seen"
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, found.read_text(encoding="utf-8")
        seen: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
        return seen
    try:
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        sys.path.insert(0, str(folder))
        found.write_text(json.dumps(import_module("tests.given.seen_without").seen()), encoding="utf-8")
        os._exit(0)
    except BaseException:  # noqa: BLE001  # whatever it is: pytest's own handlers belong to the parent
        found.write_text(traceback.format_exc(), encoding="utf-8")
        os._exit(1)


@pytest.mark.parametrize("capability", registry.installed(), ids=lambda capability: capability.name)
def test_the_product_does_without_it(capability: Capability, tmp_path: Path) -> None:
    product_without(capability.name, tmp_path)
    seen = seen_in(tmp_path)
    assert seen["from"].startswith(str(tmp_path))
    assert seen["installed"] == [name for name in registry.NAMES if name != capability.name]
    assert (seen["sizes"], seen["finished"]) == ([1, 0], ["train"])
    assert set(seen["pages"].values()) == {200}
    assert not {f"/api/v1/{request.path}" for request in capability.web.requests} & set(seen["requests"])
    assert not [link for link in seen["links"] if any(f">{added.words}<" in link for added in capability.web.links)]
    folder = f".{capability.name}."
    commands = [command.says for command in registry.commands().values() if folder in command.place]
    places = [place for places in registry.options().values() for place in places if folder in place]
    options = [option.opts[0] for place in places for option in value_at(place).options]
    assert not [words for words in (*commands, *options) if words in seen["helps"]]
