"""The README's commands, run: its configuration, a server over a life of it, a real Alertmanager."""

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from werkzeug.serving import make_server

from receiver.adapters.store import SqlStore, open_store
from receiver.cli.main import main
from receiver.config import load_text
from receiver.replay.world.objects import WorldPool
from receiver.web import create_app
from tests.docs.commands import fenced, words_of
from tests.docs.pages import ROOT, text_of
from tests.rules.files import run
from tests.rules.servers import running
from tests.step.harness import Life, a_job, a_world
from tests.web.builders import OPERATOR, Bench
from tests.web.fakes import FakeClock

PAGE = text_of("README.md")
[CONFIGURATION] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = {" ".join(words_of(line)[:3]): words_of(line) for line in fenced(PAGE)}
# What each command must say; a new one in the README needs its line here.
SAY = {
    "gpu-autoscaler check-config gpu-autoscaler.yaml": "mode observe",
    "gpu-autoscaler explain pod": "pod ml/train-0 waits",
    "gpu-autoscaler replay --trace": "by cluster-autoscaler",
    "gpu-autoscaler status": "l40s",
    "gpu-autoscaler explain l40s": "GPU pool l40s",
    "gpu-autoscaler explain decision": "decision 1",
    "gpu-autoscaler override pause": "pause of l40s",
    "gpu-autoscaler override list": "new driver",
    "gpu-autoscaler budget show": "cluster budget",
    "gpu-autoscaler report": "GPU",
}
MONTH = "job_id,submit_s,duration_s,gpus,pods,gpus_per_pod\na,30,1200,4,4,1\n"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the README's installation is served; a pod waits for the pool that the README configures."""
    settings = load_text(CONFIGURATION)
    [pool] = settings.policy.pools
    there = WorldPool(id=pool.id, size=pool.size, resources=pool.resources, labels=pool.labels, taints=pool.taints)
    store: SqlStore = open_store(f"sqlite:///{tmp_path_factory.mktemp('readme')}/ledger.db")
    mode = settings.configuration.mode
    life = Life(world=a_world(there), policy=settings.policy, store=store, mode=mode)
    life.submit(a_job())
    life.step()
    bench = Bench(store=cast("Any", store), clock=FakeClock(life.now), policy=life.policy, mode=mode, wake=lambda: None)
    server = make_server("127.0.0.1", 0, create_app(bench.parts()), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
    store.close()


def test_the_readme_stays_short() -> None:
    assert len(PAGE.splitlines()) < 150


@pytest.mark.parametrize(("target", "recipe"), [("demo", "-m demo"), ("test", "-m tools.run_checks")])
def test_the_targets_of_the_readme_have_recipes(target: str, recipe: str) -> None:
    assert f"`make {target}`" in PAGE
    said = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text_of("Makefile"), re.MULTILINE)
    assert said is not None
    assert recipe in said[1]


def test_the_commands_of_the_readme_are_those_that_are_run_here() -> None:
    assert COMMANDS.keys() == {*SAY, "gpu-autoscaler serve", "amtool silence add"}


@pytest.mark.parametrize("named", SAY)
def test_a_command_of_the_readme_does_what_the_readme_says(
    named: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gpu-autoscaler.yaml").write_text(CONFIGURATION, encoding="utf-8")
    Path("month.csv").write_text(MONTH, encoding="utf-8")
    there = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR}
    done = CliRunner(env=there).invoke(main, COMMANDS[named][1:])
    assert done.exit_code == 0, done.output
    assert SAY[named] in done.output


def test_the_server_starts_with_the_configuration_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the moment at which gunicorn takes over the process; tests/e2e goes on from there."""
    file = tmp_path / "gpu-autoscaler.yaml"
    file.write_text(CONFIGURATION, encoding="utf-8")
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    there = {
        "CIVO_API_KEY": "k" * 32,
        "CIVO_REGION": "LON1",
        "CIVO_CLUSTER_ID": "c1a55e5e-0000-4000-8000-000000000001",
        "GPU_AUTOSCALER_CONFIG": str(file),
        "GPU_AUTOSCALER_WEBHOOK_TOKEN": "w" * 32,
    }
    done = CliRunner(env=there).invoke(main, COMMANDS["gpu-autoscaler serve"][1:])
    assert done.exit_code == 0, done.output
    assert [command[2] for command in started] == ["gunicorn"]


def test_the_silence_of_the_readme_is_taken_by_a_real_alertmanager(tmp_path: Path) -> None:
    paths = (f"--config.file={ROOT / 'rules' / 'alertmanager.yml'}", f"--storage.path={tmp_path}")
    with running("alertmanager", tmp_path / "log", *paths, "--cluster.listen-address=") as url:
        words = [
            re.sub(r"^--alertmanager\.url=.*", f"--alertmanager.url={url}", w) for w in COMMANDS["amtool silence add"]
        ]
        added: subprocess.CompletedProcess[str] = run(*words)
        assert added.returncode == 0, added.stderr
        there = run("amtool", "silence", "query", f"--alertmanager.url={url}")
    assert 'pool="l40s"' in there.stdout
