"""The examples of docs/how-it-decides.md as lives: each is set up once, and the page shows what it gives.

``python -m tests.docs.worked`` writes their tables into the page anew, where the sentences of decisions changed.
"""

import re
from datetime import timedelta
from decimal import Decimal

from receiver.adapters.store import SqlStore
from receiver.core.model.policy import Budget, Pool
from receiver.replay.world.objects import WorldPool
from tests.docs.pages import ROOT
from tests.faults.stores import a_store
from tests.step.harness import GPU, PRICE, SIZE, START, TICK, Life, a_job, a_policy, a_world

MINUTE = timedelta(minutes=1)
DEARER, DEARER_PRICE = "an.g1.h100.kube.x1", Decimal("2.99")


def an_hour(store: SqlStore) -> Life:
    """One pod of ten minutes, and the node that is bought for it, from beginning to end."""
    life = Life(world=a_world(), policy=a_policy(budget=Budget(monthly_usd=Decimal(100))), store=store)
    life.submit(a_job(duration=10 * MINUTE))
    for length, tick in ((4, TICK), (10, MINUTE), (1, TICK), (39, 5 * MINUTE), (2, TICK)):
        life.run(length * MINUTE, tick)  # the tick of ten seconds shows only where something changes
    return life


def a_second_pod(store: SqlStore) -> Life:
    """A second pod comes while the first one's node is idle and paid for."""
    budget = Budget(monthly_usd=Decimal(100))
    life = Life(world=a_world(), policy=a_policy(budget=budget), store=store, rest=MINUTE)
    life.submit(a_job("first"))
    life.run(25 * MINUTE, 2 * MINUTE)
    life.submit(a_job("second", submit_at=life.now))
    life.run(35 * MINUTE, 2 * MINUTE)
    return life


def a_short_budget(store: SqlStore) -> Life:
    """Two pods run for hours, a third one comes, and the month has USD 6."""
    life = Life(world=a_world(), policy=a_policy(budget=Budget(monthly_usd=Decimal(6))), store=store)
    life.submit(*[a_job(f"long{n}", duration=timedelta(hours=3)) for n in range(2)])
    life.run(10 * MINUTE, 2 * MINUTE)
    life.submit(a_job("late", submit_at=life.now))
    life.run(55 * MINUTE, 5 * MINUTE)
    return life


def a_gang(store: SqlStore) -> Life:
    """A gang of three in a pool of three, while a single pod has one of them."""
    pool = Pool(id="l40s-id", name="l40s", size=SIZE, resources={GPU: 1}, max_nodes=3, price_usd_per_hour=PRICE)
    life = Life(world=a_world(), policy=a_policy(pool), store=store)
    life.submit(a_job("single", duration=20 * MINUTE))
    life.run(MINUTE)
    life.submit(a_job("gang", submit_at=START + MINUTE, pods=3, gang=True))
    life.run(30 * MINUTE, MINUTE)
    return life


def out_of_stock(store: SqlStore) -> Life:
    """Civo has none of the cheaper kind; the pod fits a dearer pool as well."""
    worlds = (
        WorldPool(id="l40s-id", size=SIZE, resources={GPU: 1}),
        WorldPool(id="h100-id", size=DEARER, resources={GPU: 1}),
    )
    pools = tuple(
        Pool(id=w.id, name=w.id.removesuffix("-id"), size=w.size, resources={GPU: 1}, max_nodes=8, price_usd_per_hour=p)
        for w, p in zip(worlds, (PRICE, DEARER_PRICE), strict=True)
    )
    life = Life(world=a_world(*worlds, stock={SIZE: 0}), policy=a_policy(*pools), store=store)
    life.submit(a_job())
    life.run(6 * MINUTE)
    return life


def out_of_stock_everywhere(store: SqlStore) -> Life:
    """Civo has none, and there is no other pool; after six minutes some are free again."""
    life = Life(world=a_world(stock={SIZE: 0}), policy=a_policy(), store=store)
    life.submit(a_job())
    life.run(6 * MINUTE)
    life.world.faults.stock[SIZE] = 8
    life.run(3 * MINUTE)
    return life


def rows(life: Life) -> list[list[str]]:
    """The decisions as the page's tables show them: when the size or what settled it changed, oldest first."""
    several = len(life.policy.pools) > 1
    found: list[list[str]] = []
    last: dict[str, list[str]] = {}
    for stored in reversed(life.store.decisions(limit=500)):
        decision, pool = stored.decision, life.policy.pool(stored.decision.pool)
        assert pool is not None
        said = f"{decision.deciding.rule}: {decision.deciding.detail}"
        for number, lived in enumerate(life.world.lives, start=1):
            said = said.replace(lived.hostname, "the node" if len(life.world.lives) == 1 else f"node {number}")
        change = [f"{decision.present} -> {decision.target}", said]
        if last.get(pool.id) != change:  # a signal that comes or goes is stored too, and changes nothing
            found.append([f"{decision.at:%H:%M:%S}", *([pool.name] if several else []), *change])
        last[pool.id] = change
    return found


LIVES = {
    life.__name__: life
    for life in (an_hour, a_second_pod, a_short_budget, a_gang, out_of_stock, out_of_stock_everywhere)
}
MARKED = re.compile(r"(<!-- lived: (\w+) -->\n\n\|.*\n\|.*\n)(?:\|.*\n)*")


def filled(page: str) -> str:
    """Return *page* with the tables of its examples as they are lived now."""

    def table(found: re.Match[str]) -> str:
        with a_store() as store:
            lived = rows(LIVES[found[2]](store))
        return found[1] + "".join(f"| {' | '.join(row)} |\n" for row in lived)

    return MARKED.sub(table, page)


if __name__ == "__main__":
    path = ROOT / "docs" / "how-it-decides.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
