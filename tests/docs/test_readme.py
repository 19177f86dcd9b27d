"""The README's commands, run: its values, and a server over a life of the configuration that they make."""

import json
import re
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from click.testing import CliRunner
from werkzeug.serving import make_server

from receiver.adapters.store import SqlStore, open_store
from receiver.cli.main import main
from receiver.config import load_text
from receiver.core.model.policy import Taint
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts
from receiver.replay.world.objects import WorldPool
from receiver.web.app import create_app
from tests.clocks import FixedClock
from tests.docs.commands import fenced, words_of
from tests.docs.pages import ROOT, text_of
from tests.given.life import Life, a_job, a_world
from tests.manifests.built import read, the
from tests.web.builders import OPERATOR, Bench
from tools.install_manifests import helm

PAGE = text_of("README.md")
[VALUES] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = {" ".join(words_of(line)[:3]): words_of(line) for line in fenced(PAGE)}
POOL_AT_CIVO = "5f3c77aa-2b1e-4c6d-9a55-0d6f0a1b2c3d"
L40S = "an.g1.l40s.kube.x1"
TAINT = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
FACTS = PoolFacts(  # what Civo says of the pool of the README
    pools={POOL_AT_CIVO: PoolAtCivo(size=L40S, labels={"gpu": "on-demand"}, taints=(TAINT,))}, gpus={L40S: 1}
)
# What each command must say; a new one in the README needs its line here.
SAY = {
    "gpu-autoscaler explain pod": "pod ml/train-0 has been waiting",
    "gpu-autoscaler status": "l40s",
    "gpu-autoscaler explain l40s": "GPU pool l40s",
    "gpu-autoscaler pause l40s": "pause of l40s",
    "gpu-autoscaler budget show": "cluster budget",
    "gpu-autoscaler report": "GPU",
}
ELSEWHERE = {  # run by other tests
    "make demo",
    "make playground",
    "gpu-autoscaler init",
    "helm install gpu-autoscaler",
    "kubectl -n gpu-autoscaler",
    "gpu-autoscaler replay --prometheus",
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the README's installation is served; a pod waits for the pool that the README configures."""
    file = tmp_path_factory.mktemp("values") / "values.yaml"
    file.write_text(VALUES.replace("YOUR_REGISTRY", "registry.example.org"), encoding="utf-8")
    settings = load_text(the(tuple(read(helm("--values", file))), "ConfigMap")["data"]["config.yaml"], facts=FACTS)
    [pool] = settings.policy.pools
    there = WorldPool(id=pool.id, size=pool.size, resources=pool.resources, labels=pool.labels, taints=pool.taints)
    store: SqlStore = open_store(f"sqlite:///{tmp_path_factory.mktemp('readme')}/ledger.db")
    mode = settings.configuration.mode
    life = Life(world=a_world(there), policy=settings.policy, store=store, mode=mode)
    life.submit(a_job())
    life.step()
    bench = Bench(
        store=cast("Any", store), clock=FixedClock(life.now), policy=life.policy, mode=mode, wake=lambda: None
    )
    server = make_server("127.0.0.1", 0, create_app(bench.parts()), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
    store.close()


def test_the_readme_stays_short() -> None:
    assert len(PAGE.splitlines()) <= 90


@pytest.mark.parametrize(("target", "recipe"), [("demo", "-m demo"), ("playground", "-m demo --playground")])
def test_the_targets_of_the_readme_have_recipes(target: str, recipe: str) -> None:
    assert f"make {target}" in COMMANDS
    said = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text_of("Makefile"), re.MULTILINE)
    assert said is not None
    assert recipe in said[1]


def test_the_commands_of_the_readme_are_those_that_are_run_here() -> None:
    assert COMMANDS.keys() == {*SAY, *ELSEWHERE}


@pytest.mark.parametrize("named", SAY)
def test_a_command_of_the_readme_does_what_the_readme_says(named: str, url: str) -> None:
    there = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR}
    done = CliRunner(env=there).invoke(main, COMMANDS[named][1:])
    assert done.exit_code == 0, done.output
    assert SAY[named] in done.output


def test_the_result_of_the_traces_is_that_of_the_benchmark() -> None:
    text = (ROOT / "benchmarks" / "results" / "policy.json").read_text(encoding="utf-8")
    means = {mean["policy"]: mean for mean in json.loads(text)["figures"]["hour, 8-GPU nodes"]["means"]}
    ours, always = means["gpu-autoscaler"], means["always-on"]
    page = " ".join(PAGE.split())
    assert f"{1 - ours['cost']:.0%} cheaper and {1 - ours['wait']:.0%} less waiting".replace("%", " %") in page
    assert 0.18 < ours["cost"] / always["cost"] < 0.22
    assert "about a fifth of the cost of nodes that are always on" in page


def test_the_traces_of_the_result_are_those_of_the_benchmark() -> None:
    text = (ROOT / "benchmarks" / "results" / "policy.json").read_text(encoding="utf-8")
    jobs = {trace["trace"]: trace["jobs"] for trace in json.loads(text)["figures"]["hour, 8-GPU nodes"]["traces"]}
    assert len(jobs) == 9
    assert f"[nine public traces](docs/evidence.md) of {sum(jobs.values()):,} GPU jobs" in " ".join(PAGE.split())
