"""Ten days of 150 nodes' lives: what the ledger wrote down beside what Civo charged, node by node."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.civo.cloud import CivoCloud
from receiver.core.model.charges import Charge, Charged, Comparison, DifferenceCause
from receiver.core.model.policy import Budget, Policy
from receiver.core.money.budget import month_of
from receiver.core.money.reconciliation import compare
from receiver.replay.world.objects import VM, Behaviour, WorldPool
from receiver.step.gather import Looked, Sources, gather
from receiver.step.parts import Parts
from simulator.civo_shapes import charge_json
from simulator.store import MemoryStore
from simulator.world import World
from tests.adapters.civo.answers import CLUSTER, KEY
from tests.core.builders import HOUR
from tests.given.life import FAST, GPU, PRICE, SIZE, a_policy, a_world
from tests.world_ports import FlakyAccounts, FlakyCloud

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
END = datetime(2026, 11, 10, 23, 30, tzinfo=UTC)
ROUND = timedelta(minutes=30)
OUTAGES = tuple(  # nobody looks: the process is down
    (datetime(2026, 11, day, hour, tzinfo=UTC), datetime(2026, 11, day, hour + 5, tzinfo=UTC))
    for day, hour in ((2, 14), (6, 11), (9, 5))
)
H100 = "an.g1.h100.kube.x1"
OTHERS = (
    Charge(code=f"kube-node-{SIZE}", label="another-cluster-1", id="o1", frm=BEGIN + 50 * HOUR, hours=Decimal(189)),
    Charge(code="kube-node-g4s.kube.medium", label="cpu-1", id="o2", frm=BEGIN, hours=Decimal(240)),
    Charge(code="volume", label="data", id="o3", frm=BEGIN, hours=Decimal(240), size_gb=Decimal(100)),
    Charge(code="dbaas-small", label="db", id="o4", frm=BEGIN, hours=Decimal(12)),
)


@dataclass
class Month:
    """A world in which nodes come and go, and what the ledger saw of it."""

    world: World
    policy: Policy
    store: MemoryStore = field(default_factory=MemoryStore)
    dice: random.Random = field(default_factory=lambda: random.Random(11))
    ends: dict[str, datetime] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Open the ports."""
        self.cloud, self.accounts = FlakyCloud(self.world), FlakyAccounts(self.world, OTHERS)

    def live(self) -> Looked:
        """Go through the month; return the last look. What comes and goes is seen at once, but during an outage."""
        while self.world.now < END:
            self.come()
            self.go(min(self.world.now + ROUND, END))
        return self.see()

    def come(self) -> None:
        """Buy nodes now and then, each with its end already drawn."""
        for pool, there in self.world.pools.items():
            if len(there.living) < 5 and self.dice.random() < 0.14:
                self.world.resize(pool, len(there.living) + self.dice.randint(1, 3))
            for vm in there.living:
                if vm.id not in self.ends:
                    hours = self.dice.choice([0.3, 0.9, 2, 4, 7, 12, 40]) * self.dice.uniform(0.8, 1.2)
                    self.ends[vm.id] = self.world.now + timedelta(hours=hours)
                    self.pools[vm.id] = pool
        self.see_unless_down()

    def go(self, until: datetime) -> None:
        """Let time pass, and nodes go at their moment."""
        for instance, at in sorted(self.ends.items(), key=lambda item: item[1]):
            if at <= until and instance in self.pools:
                self.world.advance(max(at, self.world.now))
                self.world.delete_instance(self.pools.pop(instance), instance)
                self.world.advance(self.world.now + FAST.delete)
                self.see_unless_down()
        self.world.advance(max(until, self.world.now))

    def see_unless_down(self) -> None:
        """Look, if the process runs and there is something new."""
        there = {i.id for p in self.cloud.look().values() for i in p.instances}
        if there != self.seen and not any(begin <= self.world.now < end for begin, end in OUTAGES):
            self.see()
            self.seen = there

    def see(self) -> Looked:
        """Look once, as a step does."""
        sources = Sources(
            cloud=self.cloud,
            cluster=None,
            telemetry=None,
            alarms=None,
            store=self.store,
            accounts=self.accounts,
            never_jumps=True,
        )
        return gather(sources, self.policy, self.world.now, Parts())


@pytest.fixture(scope="module")
def rounded_up() -> tuple[Month, Comparison, Looked]:
    """The month as Civo's billing page says that hours are rounded, which is how the ledger rounds them."""
    pools = (
        WorldPool(id="l40s-id", size=SIZE, resources={GPU: 1}),
        WorldPool(id="h100-id", size=H100, resources={GPU: 1}),
    )
    config = replace(a_world(*pools).config, price={SIZE: PRICE, H100: PRICE})
    first = a_policy().pools[0]
    second = replace(first, id="h100-id", name="h100", size=H100)
    month = Month(World(config, BEGIN), a_policy(first, second, budget=Budget(monthly_usd=Decimal(100_000))))
    last = month.live()
    assert last.facts.spend.charges is not None
    return month, last.facts.spend.charges, last


@pytest.fixture(scope="module")
def rounded_down(rounded_up: tuple[Month, Comparison, Looked]) -> tuple[Month, Comparison, Looked]:
    """The same lives as a sample of the charges API looks: whole hours, but at least one."""
    month, _, last = rounded_up
    month.world.behave(Behaviour(rounding="floor_min_one"))
    records = month.accounts.charges(BEGIN, END).records
    month.world.behave(Behaviour())
    charged = Charged(month="2026-11", asked_at=END, answered_at=END, records=records)
    return month, compare(charged, last.lives, month.policy, BEGIN, BEGIN), last


@pytest.fixture(params=["rounded_up", "rounded_down"])
def lived(request: pytest.FixtureRequest) -> tuple[Month, Comparison, Looked]:
    """Both readings."""
    found: tuple[Month, Comparison, Looked] = request.getfixturevalue(request.param)
    return found


def end_was_watched(vm: VM) -> bool:
    """True unless nobody looked when *vm* went."""
    gone = vm.gone_at
    return gone is None or not any(begin <= gone < end for begin, end in OUTAGES)


def was_seen(vm: VM) -> bool:
    """False for a node that came and went while nobody looked."""
    gone = vm.gone_at or END
    return not any(begin <= vm.created_at and gone < end for begin, end in OUTAGES)


def test_every_record_is_within_one_hour_of_the_ledger_or_its_difference_is_named(
    lived: tuple[Month, Comparison, Looked], figure: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    month, compared, last = lived
    records = sum(s.records for s in compared.sizes)
    equal = sum(s.equal for s in compared.sizes)
    causes = Counter(d.cause.value for d in compared.differences)
    assert len(month.world.lives) >= 150
    assert records == len(month.world.lives) + 1  # the other cluster's
    assert equal + len(compared.differences) == records
    assert set(causes) == {DifferenceCause.SEEN_LATE, DifferenceCause.CAME_AND_WENT, DifferenceCause.ELSEWHERE}
    ours = sum(s.charged_hours for s in compared.sizes) - OTHERS[0].hours_in(BEGIN, END)
    figure(
        f"ledger and charges of ten days, {request.node.callspec.id}: {records} records, {equal} within one hour, "
        f"{len(compared.differences)} named {dict(sorted(causes.items()))}; "
        f"ledger USD {last.facts.spend.usd:.2f}, charged USD {ours * PRICE:.2f}"
    )


def test_a_difference_is_named_only_where_nobody_looked(lived: tuple[Month, Comparison, Looked]) -> None:
    month, compared, _ = lived
    by_name = {vm.hostname: vm for vm in month.world.lives}
    for line in compared.differences:
        if line.cause is DifferenceCause.SEEN_LATE:
            assert not end_was_watched(by_name[line.name])
            assert line.ledger_hours > line.charged_hours
        elif line.cause is DifferenceCause.CAME_AND_WENT:
            assert not was_seen(by_name[line.name])
        else:
            assert line.name == "another-cluster-1"
    unseen = {vm.hostname for vm in month.world.lives if not was_seen(vm)}
    assert {d.name for d in compared.differences if d.cause is DifferenceCause.CAME_AND_WENT} == unseen


def test_with_the_ledgers_rounding_the_money_is_that_of_the_bill_but_for_the_named_differences(
    rounded_up: tuple[Month, Comparison, Looked],
) -> None:
    month, compared, last = rounded_up
    named = sum(
        (d.usd or Decimal(0) for d in compared.differences if d.cause is not DifferenceCause.ELSEWHERE), Decimal(0)
    )
    late = sum(not end_was_watched(vm) for vm in month.world.lives)
    assert 0 <= last.facts.spend.usd + named - month.world.paid() <= late * PRICE  # within the hour is equal


def test_the_account_costs_the_ledger_and_everything_else_that_has_a_price(
    rounded_up: tuple[Month, Comparison, Looked],
) -> None:
    month, compared, last = rounded_up
    spare = [d for d in compared.differences if d.cause in (DifferenceCause.CAME_AND_WENT, DifferenceCause.ELSEWHERE)]
    assert last.facts.spend.account == last.facts.spend.usd + sum((d.charged_hours * PRICE for d in spare), Decimal(0))
    assert last.facts.spend.account_unpriced == (
        "240 hours of kube-node-g4s.kube.medium",
        "240 hours of volume",
        "12 hours of dbaas-small",
    )
    assert month.policy.charge_prices == {}


def test_the_adapter_reads_the_same_month_from_the_simulators_json(
    rounded_up: tuple[Month, Comparison, Looked], httpserver: HTTPServer
) -> None:
    month, compared, last = rounded_up
    answer = [charge_json(c, "lon1") for c in month.world.charges(BEGIN, END)]
    httpserver.expect_request("/v2/charges").respond_with_json(answer)
    cloud = CivoCloud(httpserver.url_for(""), KEY, "LON1", CLUSTER)
    found = cloud.charges(BEGIN, END)
    cloud.close()
    assert found.unreadable == ()
    start = month_of(END, "UTC").start
    charged = Charged(month="2026-11", asked_at=END, answered_at=END, records=found.records)
    again = compare(charged, last.lives, month.policy, start, BEGIN)
    ours = [d for d in compared.differences if d.cause is not DifferenceCause.ELSEWHERE]
    assert [(d.name, d.cause) for d in again.differences] == [(d.name, d.cause) for d in ours]


def test_without_names_or_ids_in_the_charges_each_size_is_compared_in_sum(
    rounded_up: tuple[Month, Comparison, Looked],
) -> None:
    month, _, last = rounded_up
    records = month.accounts.charges(BEGIN, END).records
    nameless = tuple(replace(r, label="demo", product=None) for r in records if r.size)
    charged = Charged(month="2026-11", asked_at=END, answered_at=END, records=nameless)
    again = compare(charged, last.lives, month.policy, BEGIN, BEGIN)
    assert {d.cause for d in again.differences} <= {DifferenceCause.NOT_TOLD_APART}
    assert [s.size for s in again.sizes] == sorted((SIZE, H100))
