"""What no policy can beat, as figures beside those of policies."""

from datetime import timedelta
from decimal import Decimal

import pytest

from benchmarks.peers import ALL
from receiver.core.model.policy import Pool
from receiver.replay.contest import a_peer, contest
from receiver.replay.figures import BOUNDS
from receiver.replay.play import Setting
from receiver.replay.world.objects import GPU
from tests.replay.builders import T0, seconds
from tests.replay.peers.small_worlds import at

HOURLY = Setting(start=T0, build=seconds(100), boot=seconds(20), driver=seconds(30), delete=seconds(0), scrape=None)
BY_SECOND = Setting(start=T0, build=seconds(100), boot=seconds(20), driver=seconds(30), billing="second", scrape=None)
JOBS = [at(f"j{n}", 700 * n, runs=100 + 517 * (n % 7), gpus=1 + n % 4) for n in range(40)]


def a_pool(gpus: int, usd: str | None = None) -> Pool:
    """Nodes of *gpus* GPUs at USD 1 per GPU-hour, or at *usd* a node."""
    price = Decimal(usd) if usd else Decimal(gpus)
    return Pool(id=f"p{gpus}", name=f"p{gpus}", size=f"x{gpus}", resources={GPU: gpus}, max_nodes=40,
                price_usd_per_hour=price)  # fmt: skip


@pytest.mark.parametrize("setting", [HOURLY, BY_SECOND])
def test_no_peer_without_losses_pays_less_than_who_knows_the_future_and_he_no_less_than_is_used(
    setting: Setting,
) -> None:
    pools = [a_pool(8)]
    knowing = BOUNDS["clairvoyant"](JOBS, pools, setting)
    fluid = BOUNDS["fluid"](JOBS, pools, setting)
    assert fluid.usd is not None
    assert knowing.usd is not None
    assert fluid.usd <= knowing.usd
    for name in ("always-on", "cluster-autoscaler", "karpenter-when-empty", "step-up"):
        [result] = contest(JOBS, [a_peer(name, ALL[name], pools)], setting)
        assert result.violations == ()
        assert result.figures.usd is not None
        assert knowing.usd <= result.figures.usd, name


def test_a_job_alone_costs_who_knows_the_future_its_node_from_before_it_came() -> None:
    found = BOUNDS["clairvoyant"]([at("alone", 3600, runs=3600)], [a_pool(8)], BY_SECOND)
    assert found.node_hours_second == pytest.approx((3600 + 150) / 3600, abs=0.001)
    assert (found.node_starts, found.wait_max_s) == (1, 0.0)


def test_of_several_pools_the_cheaper_way_is_taken() -> None:
    pools = [a_pool(1), a_pool(8)]
    lone = BOUNDS["clairvoyant"]([at("lone", 0, runs=3000, gpus=1)], pools, HOURLY)
    assert lone.gpu_hours_started == 1
    together = BOUNDS["clairvoyant"]([at(f"j{n}", 0, runs=3000, gpus=1) for n in range(8)], pools, HOURLY)
    assert together.gpu_hours_started == 8


def test_the_fluid_bound_is_what_is_used_at_the_price_of_the_cheapest_gpus() -> None:
    found = BOUNDS["fluid"]([at("j", 0, runs=7200, gpus=4)], [a_pool(4), a_pool(8, "6")], BY_SECOND)
    assert found.usd_second == Decimal("6.00")
    assert found.utilization == 1.0


def test_a_pod_that_no_pool_can_hold_has_no_bound() -> None:
    with pytest.raises(ValueError, match="nodes have 8"):
        BOUNDS["clairvoyant"]([at("big", 0, gpus=16)], [a_pool(8)], HOURLY)


def test_a_size_without_a_price_costs_nobody_knows_what() -> None:
    free = Pool(id="p8", name="p8", size="x8", resources={GPU: 8}, max_nodes=1)
    assert BOUNDS["clairvoyant"](JOBS, [free], HOURLY).usd is None


def test_the_schedule_keeps_a_node_while_that_is_cheaper_than_another() -> None:
    near = [at("a", 0, runs=600), at("b", 1200, runs=600)]
    far = [at("a", 0, runs=600), at("b", 20 * 3600, runs=600)]
    assert BOUNDS["clairvoyant"](near, [a_pool(8)], HOURLY).node_starts == 1
    assert BOUNDS["clairvoyant"](far, [a_pool(8)], HOURLY).node_starts == 2
    assert HOURLY.lead == timedelta(seconds=150)
