"""The configuration file, the example, and the command."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from simulator.clocks import ManualClock, SystemClock
from simulator.config import CivoFace, Config, KubernetesFace, MetricsFace, Unreadable, load, parse
from simulator.server import Simulator
from tests.e2e.waiting import until
from tests.simulator.builders import START, a_pod_manifest, config

EXAMPLE = Path(__file__).parents[2] / "simulator/example.yaml"


def test_the_example_is_readable() -> None:
    found = load(EXAMPLE)
    assert [p.count for p in found.pools] == [0, 0, 1]
    assert found.timings.quota_lag == timedelta(seconds=30)
    assert found.world().price["an.g1.l40s.kube.x1"] == Decimal("1.29")


def test_the_example_names_every_key() -> None:

    given = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    parts = {"": Config, "civo": CivoFace, "kubernetes": KubernetesFace, "metrics": MetricsFace}
    commented_out = {"token", "packing", "journal_limit"}
    for part, cls in parts.items():
        here = given if not part else given[part]
        assert {f.name for f in fields(cls)} - commented_out <= set(here), part or "the whole"


def test_every_error_is_told_at_once_with_its_path() -> None:
    wrong = {
        "pools": [{"id": "p", "resources": {"nvidia.com/gpu": "many"}}],
        "timings": {"build": "soon"},
        "behaviour": {"decrement": "maybe"},
        "metrics": {"node_label": "HOST"},
        "colour": "blue",
    }
    with pytest.raises(Unreadable) as refused:
        parse(wrong)
    told = refused.value.errors
    for start in (
        "pools.0.size: ",
        "pools.0.resources.nvidia.com/gpu: ",
        "timings.build: is no duration such as 90s",
        "behaviour.decrement: ",
        "metrics.node_label: ",
        "colour: Extra inputs",
    ):
        assert any(line.startswith(start) for line in told), (start, told)


@pytest.mark.parametrize(
    "change, error",
    [
        ({"listen": "nowhere"}, "listen: 'nowhere' is no host:port"),
        ({"pools": []}, "pools: at least one is needed"),
        ({"pools": [{"id": "p", "size": "s", "resources": {}}] * 2}, "pools: the id 'p' is used twice"),
        ({"workload": {"builtin": "demo", "csv": "x.csv"}}, "workload: builtin and csv exclude each other"),
    ],
)
def test_contradictions_are_refused(change: dict[str, Any], error: str) -> None:
    with pytest.raises(Unreadable) as refused:
        parse(config(**change))
    assert refused.value.errors == [error]


def test_a_trace_is_found_beside_the_file_and_submitted_on_time(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(
        "job_id,submit_s,duration_s,gpus,pods,gpus_per_pod\na,0,30,1,1,1\nb,60,30,1,1,1\n", encoding="utf-8"
    )
    path = tmp_path / "sim.yaml"
    path.write_text(yaml.safe_dump({**config(), "workload": {"csv": "trace.csv"}}), encoding="utf-8")
    with Simulator(load(path), clock=ManualClock(START)) as sim:
        with sim.moved() as world:
            assert {p.owner_name for p in world.pods.values() if p.owner_kind == "Job"} == {"a"}
        sim.live.turn(timedelta(seconds=61))
        assert {p.owner_name for p in sim.world.pods.values() if p.owner_kind == "Job"} == {"a", "b"}


def test_a_trace_that_is_none_is_refused_with_its_lines(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,duration_s,gpus,pods,gpus_per_pod\na,x,30,1,1,1\n", encoding="utf-8")
    with pytest.raises(Unreadable, match=r"workload\.csv: line 2, submit_s"):
        Simulator(parse({**config(), "workload": {"csv": str(trace)}}))


def test_the_wall_clock_moves_the_world() -> None:
    with Simulator({**config(), "timings": {"build": 0.1, "boot": 0, "driver": 0}}, clock=SystemClock()) as sim:
        with sim.moved() as world:
            world.resize("pool-cpu", 1)
            began = world.now
        until(lambda: len(sim.world.nodes) == 2, "the node")
        assert sim.world.now > began


class _BackwardsClock:
    """A wall clock that somebody sets back."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> datetime:
        return self.moment


def test_a_clock_that_is_set_back_only_stops_the_world() -> None:
    clock = _BackwardsClock()
    with Simulator(config(), clock=clock) as sim:
        clock.moment = START - timedelta(hours=1)
        assert requests.get(f"{sim.url}/api/v1/nodes", timeout=60).status_code == 200
        assert sim.world.now == START


def test_a_job_that_comes_to_a_pod_name_in_use_does_not_stop_the_world() -> None:
    pod = a_pod_manifest("late-0", gpus=0)
    jobs = [{"id": "late", "duration": "1m", "after": "1m"}, {"id": "later", "duration": "1m", "after": "2m"}]
    with Simulator({**config(), "manifests": [pod], "jobs": jobs}, clock=ManualClock(START)) as sim:
        sim.live.turn(timedelta(minutes=3))
        assert {p.owner_name for p in sim.world.pods.values() if p.owner_kind != "DaemonSet"} == {"", "later"}


def test_a_manifest_that_is_none_is_refused() -> None:
    with pytest.raises(Unreadable, match=r"manifests\.0: Pod is invalid"):
        Simulator(parse({**config(), "manifests": [{"metadata": {"name": "x"}}]}))


# --- the command ------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str], Path]]:
    """The command, running: the process, the addresses it printed, and the kubeconfig it wrote."""
    path, kubeconfig = tmp_path / "sim.yaml", tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(dict(config())), encoding="utf-8")
    command = [sys.executable, "-m", "simulator", "--config", str(path), "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline()), kubeconfig
        finally:
            process.kill()


def test_the_command_prints_its_addresses_and_serves_until_told_to_stop(
    served: tuple["subprocess.Popen[str]", dict[str, str], Path],
) -> None:
    process, addresses, kubeconfig = served
    assert requests.get(f"{addresses['kubernetes']}/version", timeout=60).status_code == 200
    assert requests.get(addresses["kube_state_metrics"], timeout=60).status_code == 200
    assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == addresses["url"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_the_command_refuses_a_wrong_file_with_every_error(tmp_path: Path) -> None:
    path = tmp_path / "sim.yaml"
    path.write_text("pools: 3\ncolour: blue\n", encoding="utf-8")
    command = [sys.executable, "-m", "simulator", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pools: " in done.stderr
    assert "colour: " in done.stderr
    assert "Traceback" not in done.stderr
