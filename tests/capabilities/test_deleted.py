"""Each capability can be left out: without its folder and its line in the registry the rest imports, serves, buys
a node for work and gives it back. `python -m campaigns.without` plays the core's tests without each."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from receiver.capabilities import registry
from receiver.capabilities.capability import Capability
from receiver.cli.added import value_at
from tests.given.without import ROOT, product_without

PAGES = ("/", "/decisions", "/sources")
HELPS = (("--all",), ("explain",), ("explain", "decision"), ("replay", "--all"))
# Alembic runs these when it migrates, and gunicorn its configuration: neither can be imported.
RUN_BY_OTHERS = ("receiver.adapters.migrations.", "receiver.server.gunicorn_conf")
LOOK = """
import gc, json, pkgutil, sys
from importlib import import_module

gc.disable()  # a tenth of the time, for a process that ends at once

import receiver

run_by_others, pages, helps = json.loads(sys.argv[1])
for module in pkgutil.walk_packages(receiver.__path__, "receiver."):
    if not module.name.startswith(tuple(run_by_others)):
        import_module(module.name)

from click.testing import CliRunner
from receiver.capabilities import registry
from receiver.cli.main import main
from tests.web.builders import Bench

from simulator.store import MemoryStore
from tests.quiet import silence
from tests.given import lives
from tests.given.life import a_job
from tests.core.builders import HOUR, MINUTE

silence()
life = lives.waiting(MemoryStore(), a_job())
life.run(5 * MINUTE, tick=MINUTE)
sizes = [life.required()]
life.run(HOUR, tick=MINUTE)
sizes.append(life.required())

client = Bench().client()
answers = {page: client.get(page) for page in pages}
print(json.dumps({
    "sizes": sizes,
    "finished": [job.id for job in life.world.finished],
    "installed": [capability.name for capability in registry.installed()],
    "requests": list(client.get("/api/v1/openapi.json").get_json()["paths"]),
    "pages": {page: answer.status_code for page, answer in answers.items()},
    "links": [link for answer in answers.values() for link in answer.text.split('href="')[1:]],
    "helps": " ".join(CliRunner().invoke(main, [*words, "--help"]).stdout for words in helps),
}))
"""


def seen_in(folder: Path) -> dict[str, Any]:
    """What a process sees that imports every module of the product in *folder*."""
    ran = subprocess.run(
        [sys.executable, "-c", LOOK, json.dumps([RUN_BY_OTHERS, PAGES, HELPS])],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
    )
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout)
    return seen


@pytest.mark.parametrize("capability", registry.installed(), ids=lambda capability: capability.name)
def test_the_product_does_without_it(capability: Capability, tmp_path: Path) -> None:
    product_without(capability.name, tmp_path)
    seen = seen_in(tmp_path)
    assert seen["installed"] == [name for name in registry.NAMES if name != capability.name]
    assert (seen["sizes"], seen["finished"]) == ([1, 0], ["train"])
    assert seen["pages"] == dict.fromkeys(PAGES, 200)
    assert not {f"/api/v1/{request.path}" for request in capability.web.requests} & set(seen["requests"])
    assert not [link for link in seen["links"] if any(f">{added.words}<" in link for added in capability.web.links)]
    folder = f".{capability.name}."
    commands = [command.says for command in registry.commands().values() if folder in command.place]
    places = [place for places in registry.options().values() for place in places if folder in place]
    options = [option.opts[0] for place in places for option in value_at(place).options]
    assert not [words for words in (*commands, *options) if words in seen["helps"]]
