"""Stories of people who taint, label and cordon single nodes: the pool grows as if they had not."""

from dataclasses import replace
from typing import Any

import pytest

from receiver.core.model.policy import Taint
from receiver.ports import Store
from tests.core.builders import HOUR, MINUTE, a_pool
from tests.expect import bought, living, titles
from tests.given import lives
from tests.given.life import POOL, a_job

BY_PEOPLE: dict[str, dict[str, Any]] = {
    "tainted": {"taints": (Taint(key="maintenance", value="true"),)},
    "relabelled": {"labels": {"tier": "reserved"}},
    "label removed": {"labels": {"tier": None}},
    "cordoned": {"unschedulable": True},
}


@pytest.mark.parametrize("change", BY_PEOPLE.values(), ids=BY_PEOPLE.keys())
def test_what_a_person_does_to_the_only_node_does_not_stop_its_pool(store: Store, change: dict[str, Any]) -> None:
    gold: dict[str, Any] = {"labels": {"tier": "gold"}}
    life = lives.waiting(
        store, a_job("one", duration=5 * HOUR, node_selector={"tier": "gold"}), pool=a_pool(**gold), kind=gold
    )
    life.run(10 * MINUTE)
    [vm] = living(life)
    life.world.patch_node(vm.hostname, **change)
    life.run(MINUTE)
    life = lives.restarted(life, store)  # a restart
    life.submit(a_job("two", duration=HOUR, node_selector={"tier": "gold"}, submit_at=life.now))
    life.run(10 * MINUTE)
    assert bought(life) == 2
    assert titles(life, "no GPU pool can hold") == []


def test_a_label_that_a_person_adds_buys_no_node_that_would_lack_it(store: Store) -> None:
    life = lives.waiting(store, a_job("one", duration=5 * HOUR))
    life.run(10 * MINUTE)
    [vm] = living(life)
    life.world.patch_node(vm.hostname, labels={"team": "vision"})
    life.submit(a_job("two", duration=HOUR, node_selector={"team": "vision"}, submit_at=life.now))
    life.run(10 * MINUTE)
    assert bought(life) == 1


@pytest.mark.database("what outlives a process is in it")
def test_the_template_and_the_one_before_it_survive_a_restart(store: Store) -> None:
    life = lives.at_zero(store)
    for name in ("one", "two"):
        life.submit(a_job(name, duration=5 * HOUR, submit_at=life.now))
        life.run(10 * MINUTE)
    offer = life.step().facts.pool(POOL).offer
    assert offer is not None
    assert [other.since is not None for other in offer.others] == [True]
    again = store.memory(life.now, life.now).pools[POOL].offer
    assert again is not None
    assert replace(again, at=offer.at) == offer
