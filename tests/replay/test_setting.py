"""What the options of a replay make of its world."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.model.policy import Pool, Taint
from receiver.replay.play import Setting
from tests.given.life import GPU, START, a_job

SECOND = timedelta(seconds=1)
POOL = Pool(
    id="id",
    name="pool",
    size="x4",
    resources={GPU: 4},
    max_nodes=3,
    min_nodes=1,
    price_usd_per_hour=Decimal(5),
    labels={"zone": "b"},
    taints=(Taint(key="gpu", value="true"),),
)
SETTING = Setting(start=START, build=100 * SECOND, boot=20 * SECOND, driver=30 * SECOND, delete=7 * SECOND)


def test_a_node_is_usable_and_gone_when_the_setting_says_so() -> None:
    world = SETTING.world([POOL])
    world.resize("id", 1)
    world.advance(START + timedelta(minutes=5))
    [vm] = world.lives
    assert vm.usable_at == vm.created_at + SETTING.lead == START + 150 * SECOND
    world.delete_instance("id", vm.id)
    world.advance(START + timedelta(minutes=10))
    assert vm.gone_at == START + timedelta(minutes=5, seconds=7)


def test_a_world_has_the_pools_of_the_policy_and_none_of_their_nodes() -> None:
    world = SETTING.world([POOL])
    assert [(p.id, p.size, p.spec.resources, p.required) for p in world.pools.values()] == [("id", "x4", {GPU: 4}, 0)]
    world.resize("id", 1)
    world.advance(START + timedelta(minutes=5))
    [node] = world.nodes.values()
    assert node.labels["zone"] == "b"
    assert node.taints == POOL.taints


@pytest.mark.parametrize(("billing", "unit"), [("hour", timedelta(hours=1)), ("second", SECOND)])
def test_the_cloud_charges_by_the_unit_of_the_billing(billing: str, unit: timedelta) -> None:
    setting = replace(SETTING, billing="hour" if billing == "hour" else "second")
    assert setting.unit == setting.world([POOL]).config.behaviour.granularity == unit


def test_the_same_seed_makes_the_same_world_and_another_one_another() -> None:
    def names(seed: int) -> list[str]:
        world = replace(SETTING, seed=seed).world([replace(POOL, taints=())])
        world.resize("id", 3)
        world.submit(a_job())
        world.advance(START + timedelta(minutes=5))
        return [vm.id for vm in world.lives]

    assert names(1) == names(1) != names(2)


def test_the_product_is_told_by_watch_and_alert_and_wakes_by_itself() -> None:
    reaction = Setting(start=START).reaction()
    assert (reaction.watch, reaction.scrape, reaction.evaluation) == (SECOND / 2, 15 * SECOND, 5 * SECOND)
    assert reaction.by_itself
