"""A planner that asks what is held stops asking for what it cannot get, and asks again when that is of use."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from receiver.ports import Store
from tests.capabilities.held_work.planner import NAMESPACE, Planner
from tests.core.builders import HOUR, MINUTE, a_pool
from tests.given import lives
from tests.given.life import Life
from tests.web.builders import Bench

ROUND = 30  # seconds between two rounds of the planner


def asking(life: Life, store: Store) -> Planner:
    """A planner that asks the API before each round."""
    client = Bench(store=store, policy=life.policy).client()

    def held() -> Sequence[dict[str, Any]]:
        lines: list[dict[str, Any]] = client.get(f"/api/v1/held-work?namespace={NAMESPACE}").get_json()["held"]
        return lines

    return Planner(life.world, held)


def plays(life: Life, planner: Planner, needed: int, lasts: timedelta) -> None:
    """Let the planner plan for so many workers."""
    for _ in range(int(lasts.total_seconds()) // ROUND):
        planner.plan(needed)
        life.run(timedelta(seconds=ROUND))


def out_of_stock(store: Store) -> Life:
    """Civo has one node of the pool's size."""
    pool = a_pool("l40s", max_nodes=4)
    return lives.at_zero(store, pool, stock={pool.size: 1})


def test_one_that_does_not_ask_observes_for_ever_while_a_node_does_not_come(store: Store) -> None:
    life = out_of_stock(store)
    planner = Planner(life.world)
    plays(life, planner, 2, 30 * MINUTE)
    plays(life, planner, 0, 30 * MINUTE)
    assert (planner.ready(), len(planner.workers())) == (1, 2)


def test_one_that_asks_falls_back_in_its_next_round_and_scales_down_when_the_load_goes(store: Store) -> None:
    life = out_of_stock(store)
    planner = asking(life, store)
    plays(life, planner, 2, 10 * MINUTE)
    assert (planner.ready(), len(planner.workers()), planner.falls_back) == (1, 1, True)
    plays(life, planner, 0, MINUTE)
    assert planner.workers() == []


def test_it_asks_again_when_the_hold_ends_and_gets_its_worker_once_there_is_stock(store: Store) -> None:
    life = out_of_stock(store)
    planner = asking(life, store)
    plays(life, planner, 2, 10 * MINUTE)
    asked, resting = planner.made, planner.rests_until
    assert resting is not None
    assert life.now < resting
    plays(life, planner, 2, resting - life.now - timedelta(seconds=1))
    assert planner.made == asked
    life.world.faults.stock[life.policy.pools[0].size] = 1
    plays(life, planner, 2, HOUR)
    assert (planner.ready(), planner.falls_back) == (2, False)
