"""Undoing what acting left, in a cluster where a server did act."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from receiver.adapters.kubernetes.cluster import ClusterOptions, connect
from receiver.adapters.kubernetes.installations import Own
from receiver.cli.main import main
from receiver.core.model.policy import Taint
from receiver.core.scaling.packing import IDLE
from simulator.server import Simulator
from tests.adapters.wire import unused_url
from tests.doctor.builders import document, environ, listening
from tests.doctor.cluster import a_cluster_queue, a_flavor, install_kueue, node_of, put, well_kept
from tests.simulator.builders import CPU_POOL, Starter
from tests.web.builders import Bench, a_full_store

GPU_TAINT = Taint(key="gpu", value="true", effect="NoSchedule")


@contextmanager
def acted(sim: Simulator, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Let the cluster be as acting leaves it, in the product's own way; yield an environment without a server."""
    kubeconfig = str(sim.kubeconfig(tmp_path / "kubeconfig"))
    install_kueue(sim, a_flavor(), a_cluster_queue(4))
    cluster = connect(kubeconfig)
    cluster.cordon(node_of(sim), "a-1")
    cluster.cordon_for_budget(node_of(sim), "cluster 2026-11")
    cluster.set_soft_taints(node_of(sim), (IDLE,))
    cluster.hold_namespace("ml", ["nvidia.com/gpu"], [])
    cluster.hold_queue("gpus")
    cluster.close()
    yield environ(tmp_path, KUBECONFIG=kubeconfig, CIVO_API_URL=sim.url, GPU_AUTOSCALER_URL=unused_url())


def release(env: dict[str, str], *arguments: str, said: str = "") -> Result:
    return CliRunner(env=env).invoke(main, ["doctor", "release", *arguments], input=said)


def left(sim: Simulator) -> list[Any]:
    """Return everything of ours that is still there."""
    with sim.moved() as world:
        node = world.nodes[node_of(sim)]
        queues = [q["spec"].get("stopPolicy") for q in sim.live.custom.objects("kueue.x-k8s.io", "clusterqueues")]
        soft = [t for t in node.taints if t.key.startswith("gpu-autoscaler.io/")]
        stops = [q for q in queues if q not in (None, "None")]
        return [node.unschedulable, dict(node.annotations), soft, sim.live.quotas.every(), stops]


CLEAN = [False, {}, [], [], []]


def test_everything_of_ours_is_listed_and_undone(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start, hosts_us=False)
    with acted(sim, tmp_path) as env:
        assert left(sim) != CLEAN
        done = release(env, "--yes")
        name = node_of(sim)
    assert done.exit_code == 0
    assert left(sim) == CLEAN
    for line in (
        f"node {name}: cordoned for removal, gpu-autoscaler.io/cordoned-for=a-1",
        "namespace ml",
        "ClusterQueue gpus",
    ):
        assert line in done.stderr
    assert "WARN  release.server" in done.stdout
    assert done.stdout.splitlines()[-1] == "5 passed, 1 warning, 0 failed, 0 skipped"


def test_the_former_option_undoes_the_same_and_names_the_command(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start, hosts_us=False)
    with acted(sim, tmp_path) as env:
        done = CliRunner(env=env).invoke(main, ["doctor", "--release", "--yes"])
    assert (done.exit_code, left(sim)) == (0, CLEAN)
    assert done.stderr.startswith("`gpu-autoscaler doctor --release` is now `gpu-autoscaler doctor release`; ")


def test_nothing_is_undone_without_a_yes(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start, hosts_us=False)
    with acted(sim, tmp_path) as env:
        before = left(sim)
        done = release(env, said="n\n")
    assert done.exit_code == 1
    assert left(sim) == before


def test_a_server_in_mode_act_keeps_everything_and_one_that_observes_does_not(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start, hosts_us=False)
    with acted(sim, tmp_path) as env:
        before = left(sim)
        with listening(Bench(store=a_full_store())) as url:
            done = release({**env, "GPU_AUTOSCALER_URL": url}, "--yes")
        assert done.exit_code == 1
        assert "FAIL  release.server" in done.stdout
        assert "--replicas=0" in done.stdout
        assert left(sim) == before
        with listening(Bench(store=a_full_store(), mode="observe")) as url:
            assert release({**env, "GPU_AUTOSCALER_URL": url}, "--yes").exit_code == 0
    assert left(sim) == CLEAN


def test_a_pod_of_ours_that_lives_and_does_not_answer_keeps_everything(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start)
    with acted(sim, tmp_path) as env:
        before = left(sim)
        done = release(env, "--yes")
    assert done.exit_code == 1
    assert "gpu-autoscaler/gpu-autoscaler-0 runs in the cluster, and its mode is unknown" in done.stdout
    assert "port-forward" in done.stdout
    assert left(sim) == before


def test_what_may_not_be_seen_is_not_taken_for_undone(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start, hosts_us=False, kubernetes={"denied": ["list resourcequotas"]})
    kubeconfig = str(sim.kubeconfig(tmp_path / "kubeconfig"))
    done = release(environ(tmp_path, KUBECONFIG=kubeconfig, GPU_AUTOSCALER_URL=unused_url()))
    assert done.exit_code == 1
    assert "namespaces and queues could not be read" in done.stdout
    assert "no changes of the autoscaler on nodes\n" in done.stdout


def test_the_cordon_and_the_taints_of_others_stay(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start, hosts_us=False)
    with sim.moved() as world:
        theirs = next(n.name for n in world.nodes.values() if n.pool == CPU_POOL)
        world.nodes[theirs] = replace(world.nodes[theirs], unschedulable=True)
    with acted(sim, tmp_path) as env:
        release(env, "--yes")
    with sim.moved() as world:
        assert world.nodes[theirs].unschedulable
        assert GPU_TAINT in world.nodes[node_of(sim)].taints


def test_where_nothing_is_left_nobody_is_asked(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start, hosts_us=False)
    kubeconfig = str(sim.kubeconfig(tmp_path / "kubeconfig"))
    done = release(environ(tmp_path, KUBECONFIG=kubeconfig, GPU_AUTOSCALER_URL=unused_url()))
    assert done.exit_code == 0
    assert "no changes of the autoscaler on nodes" in done.stdout


def test_a_right_that_is_missing_fails_by_name_and_keeps_no_other_from_being_undone(
    start: Starter, tmp_path: Path
) -> None:
    sim = well_kept(start, hosts_us=False)
    with acted(sim, tmp_path) as env:
        sim.fault(kind="deny", right="delete resourcequotas")
        done = release(env, "--yes")
    assert done.exit_code == 1
    assert 'grant the verb "delete" on "resourcequotas"' in done.stdout
    unschedulable, annotations, soft, quotas, stops = left(sim)
    assert (unschedulable, annotations, soft, len(quotas), stops) == (False, {}, [], 1, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--smoke", "--release"], "cannot be combined"),
        (
            ["--release", "--send-test-message"],
            "--release runs nothing else, so --send-test-message would have no effect",
        ),
        (["--smoke", "--only", "civo"], "--smoke runs nothing else, so --only would have no effect"),
        (["--pool", "l40s", "--timeout", "5m"], "--pool and --timeout would have no effect without `doctor smoke`"),
        (["--problems", "release"], "--problems would have no effect before release; write options behind it"),
        (["--only", "civo", "--send-test-alert"], "--send-test-alert also needs --only alertmanager"),
        (["--only", "civo", "--send-test-message"], "--send-test-message also needs --only messages"),
    ],
)
def test_an_option_that_would_be_passed_over_is_a_wrong_command_line(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = CliRunner(env=environ(tmp_path, document())).invoke(main, ["doctor", *arguments])
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_what_another_installation_holds_and_marks_stays(start: Starter, tmp_path: Path) -> None:
    sim = well_kept(start, hosts_us=False)
    pools = json.dumps({"pools": [{"id": CPU_POOL, "name": "cpu"}]})
    labels = {"gpu-autoscaler.io/installation": "true"}
    metadata = {
        "namespace": "theirs",
        "name": "own",
        "labels": labels,
        "annotations": {"gpu-autoscaler.io/pools": pools},
    }
    spec = {"renewTime": "2999-01-01T00:00:00Z", "leaseDurationSeconds": 180}
    put(sim, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    with acted(sim, tmp_path) as env:
        other = connect(env["KUBECONFIG"], options=ClusterOptions(installation=Own(key="theirs/own")))
        theirs = next(n.name for n in sim.world.nodes.values() if n.pool == CPU_POOL)
        other.cordon(theirs, "a-9")
        other.hold_namespace("nlp", ["nvidia.com/gpu"], [])
        other.close()
        assert release(env, "--yes").exit_code == 0
    assert [sim.world.nodes[theirs].unschedulable, sim.world.nodes[node_of(sim)].unschedulable] == [True, False]
    assert [quota["metadata"]["namespace"] for quota in sim.live.quotas.every()] == ["nlp"]
