"""Stories of nodes whose GPUs are sick, and of nodes that someone else restarts or upgrades."""

from datetime import timedelta

import pytest

from receiver.core.model.model import Node, Stage
from receiver.ports import Store, TryLater
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, phases, published, titles
from tests.given import lives
from tests.given.life import GPU, POOL, Life
from tests.given.pods import bound, waiting
from tests.step.stories.bench import QUARANTINE, UPGRADE, fail, mend

pytestmark = pytest.mark.chores(False)

NAMED = ("example.com/GpuProblem",)  # the conditions that the configuration names
FAULTS = ("xid", "condition", "named condition", "unready")


def the_node(life: Life) -> Node:
    [node] = life.step().facts.pool(POOL).nodes
    return node


@pytest.mark.chores(True)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_sick_node_is_no_room_from_the_next_step_on(store: Store, fault: str) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    fail(life, vm.hostname, fault)
    life.world.add_pod(waiting("train"))
    life.pass_time(SECOND)
    life.step()
    assert life.required() == 2
    node = next(n for n in life.step().facts.pool(POOL).nodes if n.name == vm.hostname)
    assert node.note.startswith("is sick: ")
    assert published(store)["pools"][0]["sick"] == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_node_that_is_well_again_takes_work_at_once(store: Store, fault: str) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    fail(life, vm.hostname, fault)
    life.run(5 * MINUTE)
    mend(life, vm.hostname)
    life.world.add_pod(waiting("train"))
    life.run(2 * MINUTE)
    assert bought(life) == 1
    assert the_node(life).note == ""


@pytest.mark.chores(True)
def test_work_on_a_sick_node_goes_on_and_a_message_is_sent(store: Store) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    [vm] = living(life)
    life.world.add_pod(bound("train", vm.hostname))
    life.run(MINUTE)
    fail(life, vm.hostname)
    life.run(2 * HOUR, tick=MINUTE)
    assert [v.hostname for v in living(life)] == [vm.hostname]
    assert phases(life) == {"Running"}
    assert len(titles(life, "has a sick GPU under", "XID 79 on GPU 0")) == 1


@pytest.mark.chores(True)
def test_an_idle_sick_node_goes_in_its_time_and_the_message_says_that_it_was_sick(store: Store) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    fail(life, vm.hostname)
    life.run(30 * MINUTE, tick=MINUTE)
    assert living(life) == [vm]
    life.run(31 * MINUTE, tick=MINUTE)
    assert living(life) == []
    assert titles(life, f"{vm.hostname} (is sick: XID 79 on GPU 0)")


def test_a_sick_node_is_no_spare_node(store: Store) -> None:
    life = lives.idle_nodes(store, 1, a_pool(standby_nodes=1), sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    fail(life, vm.hostname)
    life.run(5 * MINUTE)
    assert bought(life) == 2
    life.run(HOUR, tick=MINUTE)
    assert vm.hostname not in {v.hostname for v in living(life)}
    assert len(living(life)) == 1


def test_only_the_unhealthy_gpus_of_a_node_are_no_room(store: Store) -> None:
    life = lives.idle_nodes(store, 1, a_pool(resources={GPU: 4}))
    life.run(MINUTE)
    [vm] = living(life)
    life.world.faults.unhealthy(vm.hostname, 1)
    for number in range(3):
        life.world.add_pod(waiting(f"train-{number}"))
    life.run(2 * MINUTE)
    assert bought(life) == 1
    assert the_node(life).note == f"is sick: 1 of 4 {GPU} unhealthy"
    life.world.add_pod(waiting("another"))
    life.run(2 * MINUTE)
    assert bought(life) == 2


def test_the_tainted_devices_of_a_dra_driver_are_no_room(store: Store) -> None:
    life = lives.idle_nodes(store, 1, a_pool(resources={GPU: 2}), kind={"dra": True})
    life.run(MINUTE)
    [vm] = living(life)
    life.world.faults.unhealthy(vm.hostname, 1)
    node = the_node(life)
    assert (node.health.partly, dict(node.allocatable)) == (True, {GPU: 1})
    assert "gpu.nvidia.com/xid" in node.note


def test_gpus_that_are_not_ready_yet_keep_a_new_node_on_its_way(store: Store) -> None:
    life = lives.at_zero(store, sick_conditions=NAMED)
    life.world.add_pod(waiting("train"))
    while not life.world.nodes:
        life.run(MINUTE)
    [name] = life.world.nodes
    life.world.faults.condition(name, "GPUReady", "False")
    life.run(6 * MINUTE)
    assert the_node(life).stage is Stage.INSTALLING
    assert bought(life) == 1
    mend(life, name)
    life.run(MINUTE)
    assert the_node(life).stage is Stage.USABLE


def test_a_taint_on_a_sick_node_says_nothing_of_the_next_one(store: Store) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    fail(life, vm.hostname, "condition")
    life.world.add_pod(waiting("train"))
    life.run(10 * MINUTE)
    assert phases(life) == {"Running"}
    assert bought(life) == 2


def test_while_prometheus_is_silent_a_node_with_a_fatal_xid_stays_sick(store: Store) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    fail(life, vm.hostname)
    life.run(MINUTE)
    life.telemetry.fail_next(TryLater("no answer"), "look")
    assert the_node(life).note == "is sick: it was before Prometheus stopped answering"
    mend(life, vm.hostname)
    assert the_node(life).note == ""


def test_without_our_rules_a_missing_xid_proves_nothing(store: Store) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    fail(life, vm.hostname)
    life.run(MINUTE)
    mend(life, vm.hostname)
    life.world.faults.rules_dead = True
    assert the_node(life).health.sick
    life.world.faults.rules_dead = False
    assert not the_node(life).health.sick


def test_a_node_that_civos_agent_restarts_is_neither_room_nor_removed(store: Store) -> None:
    """It is NotReady for up to 40 minutes, longer than the provision timeout, and comes back."""
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    life.world.faults.not_ready(vm.hostname)
    life.world.faults.recovering[vm.hostname] = "WaitingReboot"
    life.run(MINUTE)
    assert the_node(life).note == "is restarted by Civo's node agent (WaitingReboot)"
    life.world.add_pod(waiting("train"))
    life.run(39 * MINUTE, tick=MINUTE)
    assert vm in living(life)
    assert bought(life) == 2
    life.world.faults.recovering.clear()
    life.world.faults.recover(vm.hostname)
    life.run(MINUTE)
    assert vm in living(life)


def test_a_restart_that_never_ends_does_not_keep_a_broken_node_for_ever(store: Store) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    life.world.faults.not_ready(vm.hostname)
    life.world.faults.recovering[vm.hostname] = "WaitingReboot"
    life.run(44 * MINUTE, tick=MINUTE)
    assert living(life) == [vm]
    life.run(5 * MINUTE)
    assert living(life) == []


@pytest.mark.parametrize(
    ("state", "is_room"),
    [
        ("upgrade-required", True),
        ("pod-restart-required", False),
        ("validation-required", False),
        ("upgrade-failed", False),
    ],
)
def test_a_node_whose_driver_is_upgraded_is_no_room_from_its_turn_on(store: Store, state: str, is_room: bool) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    life.run(MINUTE)
    [vm] = living(life)
    life.world.patch_node(vm.hostname, labels={UPGRADE: state}, taints=(QUARANTINE,))
    life.world.add_pod(waiting("train"))
    life.pass_time(SECOND)
    life.step()
    assert (life.required() == 1) is is_room


def test_a_sickness_that_ends_for_a_moment_goes_on(store: Store) -> None:
    life = lives.idle_nodes(store, sick_conditions=NAMED)
    [vm] = living(life)
    life.world.add_pod(bound("train", vm.hostname))
    life.run(MINUTE)
    began = life.now
    fail(life, vm.hostname)
    life.run(4 * MINUTE)
    mend(life, vm.hostname)
    life.run(timedelta(minutes=2))
    fail(life, vm.hostname, "condition")
    life.step()
    since = the_node(life).health.since
    assert since is not None
    assert since - began < MINUTE
    mend(life, vm.hostname)
    life.run(12 * MINUTE)
    assert the_node(life).health.since is None
