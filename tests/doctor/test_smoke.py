"""The smoke test in a simulated region, with an autoscaler that a test plays; its clock is the simulator's."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from receiver.adapters.kubernetes.pods import SeenPod
from receiver.cli.main import main
from receiver.core.scaling.demand import misfit
from receiver.doctor.checks import Finding, Installation
from receiver.doctor.smoke import CHECKS, IMAGE, NAME, Trial, chosen, longest, manifest, smoke
from receiver.replay.world.objects import PodSpec
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.doctor.builders import document, environ, installation, listening, pool
from tests.doctor.cluster import gpu_pool
from tests.manifests.roles import optional_rules
from tests.simulator.builders import GPU_POOL, START, config
from tests.web.builders import Bench, a_full_store
from tests.workloads.files import objects

Try = Callable[..., list[Finding]]


@pytest.fixture
def region() -> Iterator[Simulator]:
    """A region whose GPU pool has no node, with a clock that the test turns."""
    sim = Simulator(config(pools=[gpu_pool(count=0)]), clock=ManualClock(START)).start()
    yield sim
    sim.stop()


@pytest.fixture
def attempt(region: Simulator, tmp_path: Path) -> Iterator[Try]:
    """Run the smoke test; *buys* says whether an autoscaler asks for the node."""
    with listening(Bench(store=a_full_store())) as url:

        def run(*, buys: bool = True, seconds: int = 600, url: str = url, **said: Any) -> list[Finding]:
            env = {"CIVO_API_URL": region.url, "KUBECONFIG": str(region.kubeconfig(tmp_path / "kubeconfig"))}
            told = installation(tmp_path, document(**said), **env, GPU_AUTOSCALER_URL=url)
            told = replace(told, clock=region.clock)

            def wait(pause: float) -> None:
                region.live.turn(timedelta(seconds=max(pause, 1)))
                with region.moved() as world:
                    waits = any(p.reason == "Unschedulable" for p in world.pods.values())
                    if buys and waits and not world.pools[GPU_POOL].required:
                        world.resize(GPU_POOL, 1)

            plan = Trial(pool=chosen(told.settings, None), timeout=timedelta(seconds=seconds), wait=wait)
            return list(smoke(told, plan))

        yield run


def verdicts(found: list[Finding]) -> dict[str, str]:
    return {f.check: f.verdict for f in found}


def pods(sim: Simulator) -> list[str]:
    """Return the pods of the smoke test that still are, or are not on their way out."""
    with sim.moved() as world:
        return [p.name for p in world.pods.values() if p.name == NAME and p.deletion_at is None and not p.over]


def test_from_zero_to_one_every_stage_is_timed_and_the_pod_is_deleted(region: Simulator, attempt: Try) -> None:
    found = attempt()
    assert [f.check for f in found] == [check.name for check in CHECKS]
    assert set(verdicts(found).values()) == {"pass"}
    said = {f.check: f.said for f in found}
    assert said["smoke.pending"].startswith("the pod is unschedulable after ")
    assert said["smoke.node_ready"] == "the new node is Ready after 1 min (+70 s)"  # built in 60 s, booted in 10 s
    assert "(+30 s)" in said["smoke.gpus"]
    assert pods(region) == []


def test_a_pod_whose_creation_is_not_answered_is_found_tried_and_deleted(region: Simulator, attempt: Try) -> None:
    region.fault(kind="error", face="kubernetes", method="POST", path="/pods", status=504, after_effect=True)
    assert set(verdicts(attempt()).values()) == {"pass"}
    assert pods(region) == []


def test_a_pod_of_another_test_is_left_and_named_with_how_to_delete_it(region: Simulator, attempt: Try) -> None:
    with region.moved() as world:
        world.add_pod(PodSpec(namespace="default", name=NAME, requests={"nvidia.com/gpu": 1}))
    found = attempt()
    assert [f.verdict for f in found] == ["pass", "fail"]
    assert f"kubectl -n default delete pod {NAME}" in found[1].remedy
    assert pods(region) == [NAME]


def test_where_nobody_buys_it_is_said_and_the_pod_is_deleted(region: Simulator, attempt: Try) -> None:
    found = attempt(buys=False, seconds=30)
    assert verdicts(found) == {
        "smoke.allowed": "pass",
        "smoke.pending": "pass",
        "smoke.asked": "fail",
        "smoke.node_ready": "skip",
        "smoke.gpus": "skip",
        "smoke.running": "skip",
        "smoke.cleaned": "pass",
    }
    (asked,) = [f for f in found if f.check == "smoke.asked"]
    assert "not seen within 30s" in asked.said
    assert "explain pod" in asked.remedy
    assert pods(region) == []


def test_a_driver_that_never_comes_is_named(region: Simulator, attempt: Try) -> None:
    region.fault(kind="gpu_never", pool=GPU_POOL)
    found = attempt(seconds=90)
    assert verdicts(found)["smoke.gpus"] == "fail"
    assert verdicts(found)["smoke.node_ready"] == "pass"


def test_a_node_that_never_comes_is_named(region: Simulator, attempt: Try) -> None:
    region.fault(kind="stuck_building", pool=GPU_POOL)
    found = attempt(seconds=40)
    assert verdicts(found)["smoke.node_ready"] == "fail"


def test_where_a_node_has_room_nothing_is_bought_and_that_is_said(region: Simulator, attempt: Try) -> None:
    with region.moved() as world:
        world.resize(GPU_POOL, 1)
    region.live.turn(timedelta(minutes=5))
    found = attempt()
    assert {verdicts(found)[f"smoke.{s}"] for s in ("pending", "asked", "node_ready", "gpus")} == {"skip"}
    assert verdicts(found)["smoke.running"] == "pass"
    assert "none had to be bought" in next(f.said for f in found if f.check == "smoke.asked")


def test_an_api_server_that_is_away_for_a_while_ends_nothing(region: Simulator, attempt: Try) -> None:
    region.fault(kind="error", face="kubernetes", method="GET", path=f"pods/{NAME}", status=503, times=4)
    region.fault(kind="error", face="kubernetes", method="DELETE", status=503, times=1)
    assert set(verdicts(attempt()).values()) == {"pass"}
    assert pods(region) == []


@pytest.mark.parametrize("where", ["here", "server"])
def test_while_it_observes_no_pod_is_created(region: Simulator, attempt: Try, where: str) -> None:
    if where == "here":
        found = attempt(mode="observe")
    else:
        with listening(Bench(store=a_full_store(), mode="observe")) as url:
            found = attempt(url=url)
    assert verdicts(found) == {"smoke.allowed": "fail"}
    assert "no node would be bought" in found[0].said
    assert not [e for e in region.log.entries() if e["method"] == "POST"]


def test_a_pod_that_may_not_be_created_fails_by_name(region: Simulator, attempt: Try) -> None:
    region.fault(kind="deny", right="create pods")
    found = attempt()
    assert [f.verdict for f in found] == ["pass", "fail"]
    assert 'grant the verb "create" on "pods"' in found[1].said


LOOKS = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}
SMOKES = optional_rules("gpu-autoscaler-smoke")


def test_the_optional_role_is_enough_beside_the_rights_to_look(region: Simulator, attempt: Try) -> None:
    region.live.rules = [LOOKS, *SMOKES]
    assert set(verdicts(attempt()).values()) == {"pass"}


@pytest.mark.parametrize("taken", [verb for rule in SMOKES for verb in rule["verbs"]])
def test_each_right_of_the_optional_role_is_missed(region: Simulator, attempt: Try, taken: str) -> None:
    left = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != taken]} for rule in SMOKES]
    region.live.rules = [LOOKS, *left]
    assert "fail" in verdicts(attempt()).values()


def test_the_optional_role_touches_no_pod_but_the_tests_own() -> None:
    assert [rule.get("resourceNames") for rule in SMOKES if rule["verbs"] != ["create"]] == [[NAME]]


def test_the_pod_is_deleted_when_somebody_ends_the_test(region: Simulator, tmp_path: Path) -> None:
    env = {"CIVO_API_URL": region.url, "KUBECONFIG": str(region.kubeconfig(tmp_path / "kubeconfig"))}
    with listening(Bench(store=a_full_store())) as url:
        told = installation(tmp_path, None, **env, GPU_AUTOSCALER_URL=url)

        def interrupted(_: float) -> None:
            assert pods(region) == [NAME]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            list(smoke(told, Trial(pool=chosen(told.settings, None), wait=interrupted)))
    region.live.turn(timedelta(seconds=10))
    assert pods(region) == []


def test_nothing_is_created_without_a_yes(region: Simulator, tmp_path: Path) -> None:
    env = environ(tmp_path, CIVO_API_URL=region.url, KUBECONFIG=str(region.kubeconfig(tmp_path / "kubeconfig")))
    done = CliRunner(env=env).invoke(main, ["doctor", "smoke"], input="n\n")
    assert done.exit_code == 1
    former = CliRunner(env=env).invoke(main, ["doctor", "--smoke"], input="n\n")
    assert (former.exit_code, former.stdout) == (1, done.stdout)
    assert former.stderr.startswith("`gpu-autoscaler doctor --smoke` is now `gpu-autoscaler doctor smoke`; ")
    assert "at least one hour at $1.29" in done.stderr
    assert not region.log.entries()


def test_a_pool_that_is_not_there_is_a_wrong_command_line(tmp_path: Path) -> None:
    done = CliRunner(env=environ(tmp_path)).invoke(main, ["doctor", "smoke", "--pool", "moon", "--yes"])
    assert done.exit_code == 2
    assert "use one of: l40s" in done.stderr


def told_of(tmp_path: Path, **changes: Any) -> Installation:
    return installation(
        tmp_path,
        document(
            pools=[
                pool(**changes),
                pool(name="big", civo_pool_id="p-2", size="an.g1.l40s.kube.x8", resources={"nvidia.com/gpu": 8}),
            ]
        ),
    )


@pytest.mark.parametrize("resources", [{"nvidia.com/gpu": 1}, {"nvidia.com/mig-1g.10gb": 7}])
def test_the_pod_fits_its_pool_and_no_other(tmp_path: Path, resources: dict[str, int]) -> None:
    told = told_of(tmp_path, resources=resources)
    first, second = told.settings.policy.pools
    made = manifest(Trial(pool=first), told.settings)
    made["metadata"] |= {"uid": "u", "creationTimestamp": "2026-03-02T08:00:00Z"}
    found = SeenPod(made).pod
    assert found is not None
    assert misfit(found, first) is None
    assert misfit(found, second) is not None
    assert sum(found.requests.values()) == 1


def test_the_pod_has_the_image_and_the_labels_of_the_shipped_test_pod(tmp_path: Path) -> None:
    shipped = next(o.body for o in objects() if o.body["metadata"]["name"] == "gpu-test")
    told = told_of(tmp_path)
    made = manifest(Trial(pool=told.settings.policy.pools[0]), told.settings)
    assert shipped["spec"]["containers"][0]["image"] == IMAGE
    assert set(shipped["metadata"]["labels"]) == set(made["metadata"]["labels"])


def test_the_cheapest_pool_that_may_have_a_node_is_tried(tmp_path: Path) -> None:
    settings = told_of(tmp_path).settings
    assert chosen(settings, None).name == "l40s"
    assert chosen(settings, "big").name == "big"
    assert chosen(told_of(tmp_path, max_nodes=0).settings, None).name == "big"
    assert longest(settings.policy.pools[0]) == timedelta(minutes=30)
