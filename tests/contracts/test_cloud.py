"""What the port `Cloud` promises, with `Sizes` and `Accounts`, which the same adapter keeps.

A count that is too low makes Civo delete nodes of its own choice. So each reason to send nothing stands here, and holds
for the adapter that talks to Civo as for those on which replays and the tests of the step rest.
"""

from datetime import timedelta
from decimal import Decimal
from itertools import product

import pytest

from receiver.adapters.civo.cloud import CivoCloud
from receiver.core.model.pods import CPU, MEMORY
from receiver.ports import Accounts, Cloud, Did, TryLater, WontWork
from receiver.replay.ports import WorldAccounts, WorldCloud
from receiver.replay.world.objects import Behaviour
from simulator.server import Simulator
from tests.contracts.stage import GPU_SIZE, counts_sent, set_counts
from tests.simulator.builders import GPU_POOL, START

# --- what exists


def test_every_pool_is_shown_with_its_count_its_size_and_its_instances(sim: Simulator, cloud: Cloud) -> None:
    set_counts(sim, 3, alive=2)
    pools = cloud.look()
    assert {p.id: (p.required, p.size, len(p.instances)) for p in pools.values()} == {GPU_POOL: (3, GPU_SIZE, 2)}
    assert pools[GPU_POOL].unreadable == ""


def test_an_instance_is_shown_with_its_name_its_status_and_its_age(sim: Simulator, cloud: Cloud) -> None:
    with sim.moved() as world:
        world.resize(GPU_POOL, 2)
    shown = cloud.look()[GPU_POOL].instances
    assert [i.status for i in shown] == ["ACTIVE", "BUILDING"]
    assert [(i.id, i.hostname) for i in shown] == [(v.id, v.hostname) for v in sim.world.pools[GPU_POOL].instances]
    assert {i.created_at for i in shown} == {START}


def test_a_pool_without_nodes_is_shown(sim: Simulator, cloud: Cloud) -> None:
    sim.world.pools[GPU_POOL].instances.clear()
    set_counts(sim, 0, alive=0)
    assert (cloud.look()[GPU_POOL].required, cloud.look()[GPU_POOL].instances) == (0, ())


def test_an_instance_that_is_being_deleted_is_shown_until_it_is_gone(sim: Simulator, cloud: Cloud) -> None:
    set_counts(sim, 1, alive=1, deleting=1)
    assert [i.status for i in cloud.look()[GPU_POOL].instances] == ["DELETING", "ACTIVE"]
    sim.live.turn(timedelta(seconds=30))
    assert [i.status for i in cloud.look()[GPU_POOL].instances] == ["ACTIVE"]


# --- a growth is sent


def test_a_growth_is_sent_once_and_is_there_when_asked_for_again(sim: Simulator, cloud: Cloud) -> None:
    sent = counts_sent(sim)
    receipts = [cloud.resize(GPU_POOL, decided_on=1, target=3) for _ in range(2)]
    assert [(r.did, r.required) for r in receipts] == [(Did.DONE, 3), (Did.ALREADY, 3)]
    assert sent == [3]


@pytest.mark.parametrize("alive", [1, 2, 3], ids=["fewer", "between the counts", "as many"])
def test_a_growth_is_sent_while_at_most_as_many_nodes_live_as_are_asked_for(
    sim: Simulator, cloud: Cloud, alive: int
) -> None:
    set_counts(sim, 1, alive=alive)
    sent = counts_sent(sim)
    assert cloud.resize(GPU_POOL, decided_on=1, target=3).did is Did.DONE
    assert sent == [3]


def test_nodes_that_are_being_deleted_keep_no_pool_from_growing(sim: Simulator, cloud: Cloud) -> None:
    set_counts(sim, 1, alive=1, deleting=2)
    sent = counts_sent(sim)
    assert cloud.resize(GPU_POOL, decided_on=1, target=2).did is Did.DONE
    assert sent == [2]


def test_a_growth_is_sent_where_civo_does_not_show_the_one_before(sim: Simulator, cloud: Cloud) -> None:
    sim.world.behave(Behaviour(list_lag=timedelta(minutes=1)))
    sim.live.turn(timedelta(minutes=2))
    sent = counts_sent(sim)
    receipt = cloud.resize(GPU_POOL, decided_on=1, target=2)
    assert (receipt.did, receipt.required) == (Did.DONE, 1)
    assert cloud.resize(GPU_POOL, decided_on=2, target=3).did is Did.DIFFERS
    assert cloud.resize(GPU_POOL, decided_on=2, target=3, shown=1).did is Did.DONE
    assert sent == [2, 3]


# --- nothing is sent


@pytest.mark.parametrize("required", [3, 4], ids=["at the target", "above the target"])
def test_nothing_is_sent_where_civo_requires_as_many_already(sim: Simulator, cloud: Cloud, required: int) -> None:
    set_counts(sim, required, alive=1)
    sent = counts_sent(sim)
    receipt = cloud.resize(GPU_POOL, decided_on=1, target=3)
    assert (receipt.did, receipt.required, sent) == (Did.ALREADY, required, [])


@pytest.mark.parametrize("required", [0, 2], ids=["fewer", "more"])
def test_nothing_is_sent_where_the_count_is_not_the_one_that_was_decided_on(
    sim: Simulator, cloud: Cloud, required: int
) -> None:
    set_counts(sim, required, alive=1)
    sent = counts_sent(sim)
    receipt = cloud.resize(GPU_POOL, decided_on=1, target=3)
    assert (receipt.did, receipt.required, sent) == (Did.DIFFERS, required, [])


def test_nothing_is_sent_where_more_nodes_live_than_are_asked_for(sim: Simulator, cloud: Cloud) -> None:
    """Civo would delete one, and choose which."""
    set_counts(sim, 1, alive=3)
    sent = counts_sent(sim)
    receipt = cloud.resize(GPU_POOL, decided_on=1, target=2)
    assert (receipt.did, receipt.required, sent) == (Did.DIFFERS, 1, [])


def test_nodes_that_are_being_built_count_as_alive(sim: Simulator, cloud: Cloud) -> None:
    with sim.moved() as world:
        world.resize(GPU_POOL, 3)
    set_counts(sim, 1, alive=3)
    sent = counts_sent(sim)
    assert (cloud.resize(GPU_POOL, decided_on=1, target=2).did, sent) == (Did.DIFFERS, [])


@pytest.mark.parametrize("target", range(2, 6))
@pytest.mark.parametrize("required", [2, 3], ids=["fallen in part", "not fallen"])
def test_nothing_is_sent_while_the_count_has_yet_to_fall_after_a_removal(
    sim: Simulator, cloud: Cloud, required: int, target: int
) -> None:
    """Below, equal or above: Civo's own step down would leave fewer than there are nodes."""
    set_counts(sim, required, alive=1)
    sent = counts_sent(sim)
    receipt = cloud.resize(GPU_POOL, decided_on=1, target=target, shown=3)
    assert (receipt.did, receipt.required, sent) == (Did.DIFFERS, required, [])


def test_a_growth_is_sent_once_the_count_has_fallen(sim: Simulator, cloud: Cloud) -> None:
    set_counts(sim, 1, alive=1)
    sent = counts_sent(sim)
    assert cloud.resize(GPU_POOL, decided_on=1, target=2, shown=3).did is Did.DONE
    assert sent == [2]


def test_a_count_is_sent_exactly_when_it_removes_nothing_and_nothing_else_moved(sim: Simulator, cloud: Cloud) -> None:
    """The promise as one sentence, for every small number of nodes."""
    set_counts(sim, 0, alive=3)
    pool = sim.world.pools[GPU_POOL]
    instances, sent = tuple(pool.instances), []
    sim.world.resize = lambda _, count: sent.append(count)  # type: ignore[assignment] # the counts stay as they are
    for required, alive, target, shown in product(range(3), range(4), (1, 2), (None, 0, 1, 2, 3)):
        for decided_on in range(target):
            pool.required, pool.instances[:] = required, instances[:alive]
            sent.clear()
            receipt = cloud.resize(GPU_POOL, decided_on=decided_on, target=target, shown=shown)
            must_fall = shown is not None and decided_on < required <= shown
            known = required in (decided_on, shown) and not must_fall
            case = (required, alive, decided_on, target, shown)
            expected = Did.DONE if known and required < target and alive <= target else Did.DIFFERS
            if required >= target and not must_fall:
                expected = Did.ALREADY
            assert (receipt.did, sent) == (expected, [target] if expected is Did.DONE else []), case


# --- refusals


def test_an_unknown_pool_wont_work(cloud: Cloud) -> None:
    with pytest.raises(WontWork) as refused:
        cloud.resize("unknown", decided_on=0, target=1)
    assert refused.value.code == "database_cluster_pool_not_found"


def test_a_size_that_is_out_of_stock_wont_work_and_what_is_left_can_be_bought(sim: Simulator, cloud: Cloud) -> None:
    sim.world.faults.stock[GPU_SIZE] = 4
    with pytest.raises(WontWork) as refused:
        cloud.resize(GPU_POOL, decided_on=1, target=3)
    assert refused.value.code == "gpu_count_exceeded"
    assert cloud.resize(GPU_POOL, decided_on=1, target=2).did is Did.DONE


def test_a_quota_that_is_reached_wont_work_and_is_named(sim: Simulator, cloud: Cloud) -> None:
    sim.world.limit({"instance_count": 1})
    with pytest.raises(WontWork, match="instance_count: limit 1") as refused:
        cloud.resize(GPU_POOL, decided_on=1, target=2)
    assert refused.value.code == "quota_limit_reached"


@pytest.mark.parametrize(
    "status, later",
    [(400, False), (403, False), (422, False), *((status, True) for status in (408, 409, 423, 425, 429, 500, 503))],
)
def test_a_refusal_that_may_pass_is_for_later_and_another_wont_work(
    sim: Simulator, cloud: Cloud, status: int, later: bool
) -> None:
    sim.world.faults.refuse_rescale("some_code", status=status, reason="because")
    with pytest.raises(TryLater if later else WontWork, match=r"some_code.*because"):
        cloud.resize(GPU_POOL, decided_on=1, target=2)
    assert cloud.resize(GPU_POOL, decided_on=1, target=2).did is Did.DONE


# --- removals


def test_an_instance_is_deleted_by_its_id_and_is_gone_when_asked_for_again(sim: Simulator, cloud: Cloud) -> None:
    set_counts(sim, 3, alive=3)
    first, second, third = (vm.id for vm in sim.world.pools[GPU_POOL].instances)
    assert cloud.retire(GPU_POOL, second).did is Did.DONE
    assert [i.id for i in cloud.look()[GPU_POOL].instances if i.status != "DELETING"] == [first, third]
    sim.live.turn(timedelta(seconds=30))
    assert cloud.retire(GPU_POOL, second).did is Did.ALREADY
    assert (cloud.look()[GPU_POOL].required, [i.id for i in cloud.look()[GPU_POOL].instances]) == (2, [first, third])


@pytest.mark.parametrize("pool", [GPU_POOL, "unknown"], ids=["unknown instance", "unknown pool"])
def test_an_instance_that_civo_does_not_know_is_gone(cloud: Cloud, pool: str) -> None:
    assert cloud.retire(pool, "00000000-0000-4000-8000-000000000000").did is Did.ALREADY


# --- sizes and charges


def test_the_machine_of_a_size_is_known_by_the_name_of_the_size(sim: Simulator, cloud: CivoCloud | WorldCloud) -> None:
    spec, machine = sim.world.pools[GPU_POOL].spec, cloud.machines()[GPU_SIZE]
    assert (machine[CPU], machine[MEMORY]) == (spec.cpu_cores * 1000, spec.ram_mb * 2**20)
    assert "unknown" not in cloud.machines()


@pytest.fixture
def accounts(sim: Simulator, cloud: Cloud) -> Accounts:
    """The account's charges of the same Civo."""
    return cloud if isinstance(cloud, CivoCloud) else WorldAccounts(sim.world)


def test_the_charges_of_a_period_are_those_of_the_nodes_that_stood_in_it(sim: Simulator, accounts: Accounts) -> None:
    (first,) = sim.world.pools[GPU_POOL].instances
    sim.live.turn(timedelta(minutes=90))
    with sim.moved() as world:
        world.resize(GPU_POOL, 2)
    sim.live.turn(timedelta(minutes=90))
    charges = accounts.charges(START, START + timedelta(hours=1))
    (charge,) = charges.records
    assert (charge.product, charge.label, charge.code) == (first.id, first.hostname, f"kube-node-{GPU_SIZE}")
    assert (charge.frm, charge.to, charge.hours) == (START, None, Decimal(3))
    later = accounts.charges(START, START + timedelta(hours=3))
    assert (len(later.records), later.unreadable) == (2, ())


def test_a_charge_that_two_months_show_counts_once(sim: Simulator, accounts: Accounts) -> None:
    sim.live.turn(timedelta(days=70))
    (charge,) = accounts.charges(START, START + timedelta(days=70)).records
    assert charge.hours == 70 * 24
