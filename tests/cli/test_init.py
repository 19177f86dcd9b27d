"""`gpu-autoscaler init`: the chart's values from what Civo says, and one sentence where Civo says nothing usable."""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from click.testing import CliRunner, Result

from receiver.cli import init as command
from receiver.cli.main import main
from receiver.config.prices import shipped
from receiver.config.starter import ClusterAtCivo, NoGpuPoolError, chart_values
from receiver.core.model.policy import Taint
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts
from receiver.server.bootstrap import EXTENSION, create_app, stop
from simulator.http_faults import HttpFault
from simulator.server import Simulator
from tests.adapters.wire import unused_url
from tests.config.builders import ENVIRONMENT
from tests.manifests.built import read, the
from tests.simulator.builders import CLUSTER, CPU_POOL, GPU_POOL, KEY, starting
from tools.install_manifests import NotRendered, helm

L40S, CPU = "an.g1.l40s.kube.x1", "g4s.kube.medium"


@pytest.fixture
def civo() -> Iterator[Simulator]:
    with starting() as start:
        yield start()


def init(url: str, *words: str | Path, **more: str) -> Result:
    env = {"CIVO_API_KEY": KEY, "CIVO_REGION": "LON1", "CIVO_CLUSTER_ID": CLUSTER, "CIVO_API_URL": url, **more}
    return CliRunner(env=env).invoke(main, ["init", *map(str, words)], catch_exceptions=False)


def refused(done: Result) -> tuple[int, str]:
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.exit_code, done.stderr.strip()


def test_the_gpu_pools_are_written_with_what_only_a_person_can_decide(civo: Simulator) -> None:
    done = init(civo.url)
    assert (done.exit_code, done.stderr) == (0, "")
    assert (
        re.sub(r"20\d\d-\d\d-\d\d", "TODAY", done.stdout)
        == f"""\
# Helm values of the chart k8s/chart, written by `gpu-autoscaler init` on TODAY.
# Civo's cluster {CLUSTER}, region LON1. Only you know what is marked `to decide`.

image:
  repository: YOUR_REGISTRY/civo-gpu-autoscaler # to decide: where you pushed the image

# Civo says name, size, GPUs, labels and taints of each pool. What you write here goes first.
pools:
  # l40s: an.g1.l40s.kube.x1 with 1 GPU, 1 node now
  # labels: gpu=on-demand
  # taints: gpu=true:NoSchedule
  - civo_pool_id: {GPU_POOL}
    max_nodes: 1 # to decide: the most nodes, $1.29 an hour each
  # without GPUs, so left out: {CPU_POOL} ({CPU})

config:
  # to decide: USD a month. The nodes above, never off, cost $941.70 a month.
  budget: {{monthly_usd: 100}}
"""
    )


def test_helm_refuses_the_file_until_the_image_is_named(civo: Simulator, tmp_path: Path) -> None:
    init(civo.url, "--out", tmp_path / "values.yaml")
    with pytest.raises(NotRendered, match=r"image/repository.*YOUR_REGISTRY"):
        helm("--values", tmp_path / "values.yaml")


def test_a_server_observes_with_exactly_what_was_written(civo: Simulator, tmp_path: Path, own_logs: None) -> None:
    """From Civo to a step: init, the chart's ConfigMap, the server; only what is no pool's is changed for the test."""
    values = tmp_path / "values.yaml"
    assert init(civo.url, "--out", values).exit_code == 0
    objects = tuple(read(helm("--values", values, "--set", "image.repository=registry.example.org/gpu-autoscaler")))
    written = yaml.safe_load(the(objects, "ConfigMap")["data"]["config.yaml"])
    assert written["pools"] == [{"civo_pool_id": GPU_POOL, "max_nodes": 1}]
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({**written, "kubernetes": {"enabled": False}}))  # no cluster runs here
    at_civo = {"CIVO_API_KEY": KEY, "CIVO_CLUSTER_ID": CLUSTER, "CIVO_API_URL": civo.url}
    store = {"GPU_AUTOSCALER_CONFIG": str(file), "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{tmp_path}/store.db"}
    app = create_app({**ENVIRONMENT, **at_civo, **store})
    running = app.extensions[EXTENSION]
    running.pools.look()
    running.reloader.look()
    running.loop._step(running.loop._clock.now())
    [pool] = cast("list[dict[str, Any]]", app.test_client().get("/api/v1/pools").json)
    stop(app)
    assert (pool["name"], pool["mode"], pool["required"], pool["max_nodes"]) == ("l40s", "observe", 1, 1)
    assert {entry["method"] for entry in civo.log.entries()} == {"GET"}


def test_an_address_without_a_scheme_is_told_with_civos_own(civo: Simulator) -> None:
    done = init("api.civo.com")
    assert "CIVO_API_URL: is not an http or https URL; write it whole, such as https://api.civo.com" in done.stderr


def test_a_file_that_exists_is_not_touched_and_civo_is_not_asked(civo: Simulator, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("mine")
    assert refused(init(civo.url, "--out", file)) == (
        2,
        f"{file} exists: move it away, or write to another file",
    )
    assert file.read_text() == "mine"
    assert civo.log.calls() == {}


def test_a_file_that_appears_meanwhile_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("mine")
    with pytest.raises(FileExistsError):
        command.written(file, "text")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("values.yaml", "mine")]


def test_a_folder_that_is_not_there_is_named_and_nothing_is_left(civo: Simulator, tmp_path: Path) -> None:
    status, said = refused(init(civo.url, "--out", tmp_path / "none" / "values.yaml"))
    assert (status, said.endswith("No such file or directory: write to another file")) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_the_disk_refuses_is_no_crash(civo: Simulator, tmp_path: Path) -> None:
    status, said = refused(init(civo.url, "--out", tmp_path / ("n" * 300)))
    assert (status, said.endswith("File name too long: write to another file")) == (2, True)


def test_a_link_that_leads_nowhere_is_not_replaced(civo: Simulator, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").symlink_to(tmp_path / "nowhere")
    assert refused(init(civo.url, "--out", tmp_path / "values.yaml"))[1].endswith(
        "move it away, or write to another file"
    )
    assert civo.log.calls() == {}


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    assert init(unused_url(), "--out", tmp_path / "values.yaml").exit_code == 3
    assert list(tmp_path.iterdir()) == []


def test_every_variable_that_is_missing_is_named() -> None:
    done = CliRunner(env=dict.fromkeys(("CIVO_API_KEY", "CIVO_REGION", "CIVO_CLUSTER_ID"))).invoke(main, ["init"])
    assert done.exit_code == 2
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()[1:-1]] == [
        "CIVO_API_KEY",
        "CIVO_REGION",
        "CIVO_CLUSTER_ID",
    ]


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (
            {"CIVO_API_KEY": "wrong"},
            2,
            "Civo refused the key (authentication_invalid_key): set CIVO_API_KEY to a key of this account",
        ),
        ({"CIVO_REGION": "NYC1"}, 2, "region_unavailable (The region NYC1 is not available): check CIVO_REGION"),
        (
            {"CIVO_CLUSTER_ID": "other"},
            1,
            "(Failed to find the Kubernetes cluster): check CIVO_CLUSTER_ID and CIVO_REGION",
        ),
    ],
)
def test_a_refusal_of_civo_names_the_variable(civo: Simulator, more: dict[str, str], status: int, said: str) -> None:
    found, text = refused(init(civo.url, **more))
    assert (found, text.endswith(said)) == (status, True), text


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_without_civos_words_is_one_of_the_key(civo: Simulator, status: int) -> None:
    civo.faults.add(HttpFault(kind="not_json", status=status, times=None))
    found, text = refused(init(civo.url))
    assert (found, "set CIVO_API_KEY to a key of this account" in text) == (2, True)


def test_a_cluster_without_gpus_says_what_it_has(civo: Simulator) -> None:
    with starting() as start:
        cpu = {"id": CPU_POOL, "size": CPU, "resources": {}, "cpu_cores": 2, "ram_mb": 4096, "disk_gb": 50}
        found, text = refused(init(start(pools=[cpu]).url))
    assert (found, text) == (
        1,
        (
            f"the cluster {CLUSTER} in region LON1 has no GPU pool, only {CPU_POOL} ({CPU}): create a GPU pool "
            "(docs/getting-started.md, A new cluster), or check CIVO_CLUSTER_ID"
        ),
    )


@pytest.mark.parametrize("fault", ["timeout", "hang"])
def test_a_civo_that_is_late_is_not_waited_for(civo: Simulator, monkeypatch: pytest.MonkeyPatch, fault: Any) -> None:
    monkeypatch.setattr(command, "CALL_TIMEOUTS", (1, 0.2))
    civo.faults.add(HttpFault(kind=fault, times=None))
    found, text = refused(init(civo.url))
    assert (found, "try again, and check CIVO_API_URL" in text) == (3, True)


@pytest.mark.parametrize("path", ["clusters", "sizes"])
def test_half_an_answer_writes_nothing(civo: Simulator, path: str) -> None:
    civo.faults.add(HttpFault(kind="not_json", status=200, path=path, times=None))
    assert refused(init(civo.url))[0] == 3


def test_an_error_of_a_moment_is_overcome(civo: Simulator) -> None:
    civo.faults.add(HttpFault(kind="error", status=503, times=2))
    assert init(civo.url).exit_code == 0


def written(pools: dict[str, PoolAtCivo], nodes: dict[str, int] | None = None) -> str:
    facts = PoolFacts(
        pools=pools, gpus={L40S: 1, CPU: 0, "an.g1.b200sxm.kube.x8": 8, "new": None, "of two\nlines: 1": 1}
    )
    at = ClusterAtCivo(id="c", region="LON1", facts=facts, nodes=nodes or {})
    return chart_values(at, shipped(), date(2026, 11, 30))


def test_what_civo_does_not_say_is_asked_and_not_guessed() -> None:
    found = written({"gpu-a": PoolAtCivo(size=L40S), "odd": PoolAtCivo(size="new"), "dumb": PoolAtCivo()})
    for line in (
        "  # l40s: an.g1.l40s.kube.x1 with 1 GPU, Civo does not say how many nodes it has",
        "    # Civo does not say its labels. If its nodes have any, so that pods select them:",
        "    # labels: {KEY: VALUE}",
        "    # Civo does not say its taints. If its nodes have any:",
        "  # Civo does not say the GPUs of new of pool odd. If it has GPUs:",
        '  # - {civo_pool_id: "odd", max_nodes: 1, resources: {nvidia.com/gpu: GPUS_OF_A_NODE}}',
        "  # Civo does not say the size of pool dumb. If it has GPUs:",
        '  # - {civo_pool_id: "dumb", max_nodes: 1, size: SIZE, resources: {nvidia.com/gpu: GPUS_OF_A_NODE}}',
    ):
        assert line in found.splitlines()
    assert yaml.safe_load(found)["pools"] == [{"civo_pool_id": "gpu-a", "max_nodes": 1}]


def test_a_size_without_a_price_is_asked_for_and_not_counted() -> None:
    found = written({"gpu-a": PoolAtCivo(size=L40S), "gpu-b": PoolAtCivo(size="an.g1.b200sxm.kube.x8")}, {"gpu-b": 2})
    assert "    # price_usd_per_hour: USD" in found.splitlines()
    assert "cost $941.70 a month, an.g1.b200sxm.kube.x8 not counted." in found


@pytest.mark.parametrize("pool", ["1e5", "true", "a: b", "5f3c77aa-0000-4000-8000-000000000001", "x # y", 'a"b'])
def test_an_id_is_text_to_yaml(pool: str) -> None:
    [found] = yaml.safe_load(written({pool: PoolAtCivo(size=L40S)}))["pools"]
    assert found["civo_pool_id"] == pool


def test_words_of_civo_stay_in_their_comment() -> None:
    taint = Taint(key="a\nmode: act", value="x")
    found = written(
        {
            "gpu-a": PoolAtCivo(size=L40S, labels={"b": "c\npools: []"}, taints=(taint,)),
            "gpu-b": PoolAtCivo(size="of two\nlines: 1"),
        }
    )
    assert yaml.safe_load(found).keys() == {"image", "pools", "config"}


def test_a_pool_whose_gpus_civo_does_not_say_is_not_called_one_without() -> None:
    with pytest.raises(NoGpuPoolError, match=r"only odd \(new\), whose GPUs Civo does not say"):
        written({"odd": PoolAtCivo(size="new")})


def test_no_pool_is_an_error() -> None:
    with pytest.raises(NoGpuPoolError, match="has no GPU pool, only no pool"):
        written({})
