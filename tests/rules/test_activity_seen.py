"""From the exporter's page to a verdict: simulator, a real Prometheus with the shipped rules, the adapter, the core."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from receiver.adapters.monitoring.prometheus import PrometheusTelemetry
from receiver.core.model.usage import Use, judge, was_idle
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.lint import load_yaml
from tests.rules.files import RULE_FILES
from tests.rules.servers import running
from tests.rules.versions import Chosen
from tests.simulator.builders import GPU_POOL, START, config

WINDOW = timedelta(seconds=5)
Found = TypeVar("Found")


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    """Three nodes with a GPU each: one trains, one holds a model and does nothing, one is nobody's."""
    pool = {"id": GPU_POOL, "size": "an.g1.l40s.kube.x1", "resources": {"nvidia.com/gpu": 1}, "count": 3}
    with Simulator(config(pools=[pool]), clock=ManualClock(START)) as simulator:
        simulator.live.submit([a_job("train", 0.8), a_job("parked", 0.0)])
        simulator.live.turn(timedelta(seconds=30))
        yield simulator


def a_job(name: str, utilization: float) -> dict[str, object]:
    return {"id": name, "duration": "10h", "gpu_util": utilization}


@contextmanager
def watched(sim: Simulator, folder: Path, honored: bool) -> Iterator[PrometheusTelemetry]:
    """Let a Prometheus scrape *sim* every second and evaluate the rules as often; yield the adapter that asks it."""
    folder.mkdir()
    for file in RULE_FILES:
        content = load_yaml(file.read_text())
        for group in content["groups"]:
            group["interval"] = "1s"
        (folder / file.name).write_text(json.dumps(content))
    scrape = {
        "job_name": "dcgm-exporter",
        "honor_labels": honored,
        "http_sd_configs": [{"url": f"{sim.url}/sd/dcgm", "refresh_interval": "1s"}],
    }
    timing = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    whole = {"global": timing, "rule_files": [f"{folder}/*.yaml"], "scrape_configs": [scrape]}
    (folder / "prometheus.yml").write_text(json.dumps(whole))
    paths = (f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}")
    with running("prometheus", folder / "log", *paths) as url:
        telemetry = PrometheusTelemetry(url)
        yield telemetry
        telemetry.close()


@pytest.fixture(scope="module")
def telemetries(
    each_prometheus: Chosen, sim: Simulator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[bool, PrometheusTelemetry]]:
    """Two that watch *sim* side by side, since each takes its time, by whether they honor the labels of its pages."""
    folder = tmp_path_factory.mktemp("watched")
    with watched(sim, folder / "plain", False) as plain, watched(sim, folder / "honored", True) as honored:
        yield {False: plain, True: honored}


def once(look: Callable[[], Found], wanted: Callable[[Found], bool]) -> Found:
    """Look until it is *wanted*; a scrape, a rule and a window have to pass first."""
    deadline = time.monotonic() + 60
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


@pytest.mark.parametrize("honored", [False, True])
def test_nodes_and_pods_are_judged_by_what_their_gpus_show(
    sim: Simulator, telemetries: Mapping[bool, PrometheusTelemetry], honored: bool
) -> None:
    telemetry = telemetries[honored]
    held = {s.pod[1] if s.pod else "nobody": s.node for s in sim.world.gpu_samples()}

    def in_use() -> Mapping[str, Use]:
        return {node: judge(activity) for node, activity in telemetry.look().nodes.items()}

    def idle() -> Mapping[str, Use]:
        sim.live.turn(timedelta(seconds=31))  # to the exporter's next reading: power that stands still is not believed
        return {pod: was_idle(course) for pod, course in telemetry.courses(WINDOW).items()}

    nodes = once(in_use, lambda n: len(n) == 3 and Use.UNKNOWN not in n.values())
    pods = once(idle, lambda p: len(p) == 2 and Use.UNKNOWN not in p.values())

    assert nodes == {held["train-0"]: Use.ACTIVE, held["parked-0"]: Use.ACTIVE, held["nobody"]: Use.QUIET}
    assert pods == {"default/train-0": Use.ACTIVE, "default/parked-0": Use.QUIET}
