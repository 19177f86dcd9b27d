"""What no workload held, shared among those that held GPUs: by what each held in the pool, exact to every decimal."""

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal

from hypothesis import given, settings

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy, Unallocated
from receiver.core.model.usage import Owner, Usage
from receiver.core.money.attribution import Attributed, MonthToDate, Part, Share, attribute, by_team
from receiver.core.money.shared_cost import shared_out, taken_apart
from receiver.core.report.lines import PaidFor, cost_lines, pieces
from tests.core.report.builders import AFTER, H100, MONTH, a_life, a_policy, a_usage
from tests.core.report.months import months

VISION, SEARCH = Owner(team="vision"), Owner(team="search")
A_MOMENT = 1e-6


def attributed(lives: Iterable[NodeLife], usage: Iterable[Usage], policy: Policy | None = None) -> Attributed:
    return attribute(lives, usage, [], MonthToDate(MONTH, AFTER, (policy or a_policy()).billing))


def usd_of(shares: Iterable[Share], *parts: Part) -> dict[str, Decimal]:
    """USD by team (empty: nobody's), of *parts* only if given."""
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for share in shares:
        if not parts or share.part in parts:
            sums[share.usage.owner.team if share.usage else ""] += share.usd
    return dict(sums)


def test_it_is_shared_in_proportion_to_what_each_held_in_the_pool() -> None:
    lives = [a_life("i-1", lasts=8), a_life("i-2", lasts=4)]
    usage = [
        a_usage("i-1", "ml/Job/a", hours=6, owner=VISION),
        a_usage("i-2", "ml/Job/b", hours=2, owner=SEARCH),
    ]
    found = shared_out(attributed(lives, usage))
    assert found.unallocated is Unallocated.SHARE
    assert usd_of(found.shares, Part.UNALLOCATED) == {"vision": 3 * Decimal("1.29"), "search": Decimal("1.29")}


def test_what_was_held_in_another_pool_gives_no_share() -> None:
    lives = [a_life("i-1", lasts=8), a_life("i-2", lasts=4, size=H100)]
    usage = [
        a_usage("i-1", "ml/Job/a", hours=6, owner=VISION),
        a_usage("i-2", "ml/Job/b", hours=4, owner=SEARCH),
    ]
    found = shared_out(attributed(lives, usage))
    assert usd_of(found.shares, Part.UNALLOCATED) == {"vision": 2 * Decimal("1.29")}


def test_a_pool_that_nobody_held_is_shared_by_what_was_held_in_all_pools() -> None:
    lives = [a_life("i-1", lasts=4), a_life("i-2", lasts=10, size=H100)]
    usage = [
        a_usage("i-1", "ml/Job/a", hours=3, owner=VISION),
        a_usage("i-1", "ml/Job/b", hours=1, owner=SEARCH),
    ]
    found = shared_out(attributed(lives, usage))
    whole = 10 * Decimal("2.99")
    assert usd_of(found.shares, Part.UNALLOCATED) == {"vision": whole * 3 / 4, "search": whole / 4}


def test_where_nothing_was_held_at_all_it_stays_unallocated() -> None:
    found = shared_out(attributed([a_life("i-1", lasts=4)], []))
    assert usd_of(found.shares, Part.UNALLOCATED) == {"": 4 * Decimal("1.29")}


def test_a_shared_part_is_no_part_of_what_a_team_held() -> None:
    separate = attributed([a_life("i-1", lasts=8)], [a_usage("i-1", hours=6)])
    assert by_team(shared_out(separate)) == by_team(separate)


@settings(max_examples=150)
@given(months())
def test_every_amount_is_shared_to_the_last_decimal_and_of_every_node(
    month: tuple[list[NodeLife], list[Usage], Policy],
) -> None:
    separate = attributed(*month)
    shared = shared_out(separate)
    for part in Part:
        before, after = _by_instance(separate.shares, part), _by_instance(shared.shares, part)
        assert {instance: usd for instance, (usd, _) in before.items()} == {i: usd for i, (usd, _) in after.items()}
        for instance, (_, seconds) in before.items():
            assert abs(after[instance][1] - seconds) <= A_MOMENT * max(1, seconds)
    assert taken_apart(shared).usd == separate.usd
    holders = {(s.usage.workload, s.usage.owner) for s in separate.shares if s.usage is not None}
    pools = {s.pool for s in separate.shares}
    assert len(shared.shares) <= len(separate.shares) + len(holders) * len(pools)


@settings(max_examples=150)
@given(months())
def test_cents_add_up_to_the_invoice_in_both_forms(month: tuple[list[NodeLife], list[Usage], Policy]) -> None:
    separate = attributed(*month)
    for found in (separate, shared_out(separate)):
        lines = cost_lines(pieces(found, month[2]))
        assert sum((line.usd for line in lines), Decimal(0)) == separate.usd
    shared = cost_lines(pieces(shared_out(separate), month[2]))
    nobodys = [line for line in shared if line.whose.paid_for is PaidFor.UNALLOCATED and not line.whose.workload]
    if any(share.usage is not None and share.usd > 0 for share in separate.shares):
        assert sum((line.usd for line in nobodys), Decimal(0)) == 0


def _by_instance(shares: Iterable[Share], part: Part) -> dict[str, tuple[Decimal, float]]:
    """USD and GPU-seconds of *part* by node."""
    sums: defaultdict[str, tuple[Decimal, float]] = defaultdict(lambda: (Decimal(0), 0.0))
    for share in shares:
        if share.part is part:
            usd, seconds = sums[share.instance]
            sums[share.instance] = usd + share.usd, seconds + share.seconds
    return sums
