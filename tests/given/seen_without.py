"""What a process sees of a product from which a capability was deleted: it imports everything, lives and serves."""

import gc
import pkgutil
from importlib import import_module
from typing import Any

from click.testing import CliRunner

import receiver
from receiver.capabilities import registry
from receiver.cli.main import main
from simulator.store import MemoryStore
from tests.core.builders import HOUR, MINUTE
from tests.given import lives
from tests.given.life import a_job
from tests.quiet import silence
from tests.web.builders import Bench

PAGES = ("/", "/decisions", "/sources")
HELPS = (("--all",), ("explain",), ("explain", "decision"), ("replay", "--all"))
# Alembic runs these when it migrates, and gunicorn its configuration: neither can be imported.
RUN_BY_OTHERS = ("receiver.adapters.migrations.", "receiver.server.gunicorn_conf")


def seen() -> dict[str, Any]:
    """Import every module, let a node be bought for a job and given back, and ask pages and the command line."""
    gc.disable()  # a tenth of the time, for a process that ends at once
    for module in pkgutil.walk_packages(receiver.__path__, "receiver."):
        if not module.name.startswith(RUN_BY_OTHERS):
            import_module(module.name)
    silence()
    life = lives.waiting(MemoryStore(), a_job())
    life.run(5 * MINUTE, tick=MINUTE)
    sizes = [life.required()]
    life.run(HOUR, tick=MINUTE)
    client = Bench().client()
    answers = {page: client.get(page) for page in PAGES}
    return {
        "from": receiver.__file__,
        "sizes": [*sizes, life.required()],
        "finished": [job.id for job in life.world.finished],
        "installed": [capability.name for capability in registry.installed()],
        "requests": list(client.get("/api/v1/openapi.json").get_json()["paths"]),
        "pages": {page: answer.status_code for page, answer in answers.items()},
        "links": [link for answer in answers.values() for link in answer.text.split('href="')[1:]],
        "helps": " ".join(CliRunner().invoke(main, [*words, "--help"]).stdout for words in HELPS),
    }
