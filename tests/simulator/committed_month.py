"""A month of jobs in the simulator, sized by the product, with and without committed nodes: ledger and invoice."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from receiver.capabilities.registry import step_additions
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing, Budget, CommittedNodes, Policy, Pool
from receiver.core.model.usage import Usage
from receiver.core.money.budget import month_of
from receiver.replay.contest import Product
from receiver.replay.play import Binding, Reaction, play
from receiver.replay.world.objects import Job, WorldConfig, WorldPool
from simulator.world import Commitment, World
from tests.given.life import GPU, PRICE, SIZE, a_job
from tests.replay.plays import PLAIN, SECOND

MONTH = month_of(datetime(2026, 11, 15, tzinfo=UTC), "UTC")
OTHER, RESERVED = POOLS = ("other", "reserved")  # of two that cost the same, the first in the alphabet is taken
COMMITTED_PRICE = Decimal("0.89")
REACTION = Reaction(start=MONTH.start, tick=timedelta(minutes=1), watch=SECOND, by_itself=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedMonth:
    """The month as it was played: the *invoice* of the simulator's Civo at its end, and what the product knows."""

    invoice: Decimal
    spent: Decimal  # by the last step, and by *until*
    until: datetime
    invoice_until: Decimal
    lives: Sequence[NodeLife]
    usage: Sequence[Usage]
    policy: Policy  # with the commitments of the ledger


def some_jobs(count: int, seed: int = 3) -> list[Job]:
    """Jobs of one GPU, one and a half to fifteen hours long."""
    dice, length = Random(seed), (MONTH.end - MONTH.start).total_seconds()
    return [
        a_job(
            f"job-{number}",
            submit_at=MONTH.start + dice.uniform(0, length - 20 * 3600) * SECOND,
            duration=dice.choice((5400, 20_000, 54_000)) * SECOND,
        )
        for number in range(count)
    ]


def committed_nodes(nodes: int, until: datetime = MONTH.end) -> CommittedNodes:
    """So many nodes of the pool ``reserved``."""
    return CommittedNodes(pool=RESERVED, size=SIZE, nodes=nodes, usd_per_hour=COMMITTED_PRICE, until=until)


def played(*committed: CommittedNodes, jobs: int = 150, budget: Budget | None = None) -> PlayedMonth:
    """Play that many jobs in two equal pools, of which one may have *committed* nodes."""
    pools = tuple(WorldPool(id=name, size=SIZE, resources={GPU: 1}) for name in POOLS)
    world = World(WorldConfig(pools=pools, timings=PLAIN, price={SIZE: PRICE}, packing="first_fit"), MONTH.start)
    policy = Policy(
        pools=tuple(
            Pool(id=name, name=name, size=SIZE, resources={GPU: 1}, max_nodes=8, price_usd_per_hour=PRICE)
            for name in POOLS
        ),
        billing=Billing(removal_margin=timedelta(minutes=5), committed=committed),
        budget=budget or Budget(monthly_usd=Decimal(20_000)),
    )
    product = Product(world, policy, step_additions(), priced=True)
    bindings = play(world, some_jobs(jobs), product, REACTION).placements.all
    world.advance(MONTH.end - timedelta(minutes=1))
    product.look(world.now)
    contract = [
        Commitment(pool=c.pool, nodes=c.nodes, usd_per_hour=c.usd_per_hour, since=MONTH.start, until=c.until)
        for c in committed
    ]
    control, stepped = product.store.control(), product.stepped
    assert control is not None
    assert stepped is not None
    lives = product.store.node_lives(MONTH.start)
    nodes = {life.name: life.instance for life in lives}
    return PlayedMonth(
        invoice=world.invoice(contract, MONTH.end - SECOND),
        spent=stepped.facts.spend.usd,
        until=world.now,
        invoice_until=world.invoice(contract, world.now),
        lives=lives,
        usage=[_usage(binding, nodes[binding.node], world.now) for binding in bindings],
        policy=replace(policy, billing=replace(policy.billing, committed=control.committed)),
    )


def _usage(binding: Binding, instance: str, until: datetime) -> Usage:
    """What a pod held of its node."""
    held = ((binding.ended_at or until) - binding.bound_at).total_seconds()
    workload = f"ml/Pod/{binding.pod}"
    return Usage(month=MONTH.name, instance=instance, workload=workload, namespace="ml", held=held * binding.gpus)
