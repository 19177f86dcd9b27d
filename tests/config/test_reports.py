"""What the file says about reports."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from receiver.config import ConfigError, load_text
from receiver.config.show import describe
from receiver.core.model.policy import Commitment, CommittedNodes, Monthly, ReportPolicy, UnitOfWork
from tests.config.builders import one_pool

LISTED = {  # Civo's pricing page of 2026-08-22, USD per GPU-hour
    "L40S": Decimal("1.29"),
    "A100-40": Decimal("1.09"),
    "A100-80": Decimal("1.79"),
    "H100": Decimal("2.99"),
    "H200": Decimal("3.49"),
}


def reports(*lines: str) -> tuple[ReportPolicy, tuple[str, ...]]:
    """What a file with *lines* under `reports` asks for, and what is warned of."""
    found = load_text(one_pool() + "\n".join(["reports:", *(f"  {line}" for line in lines)]) + "\n")
    return found.policy.reports, found.warnings


def test_without_the_section_nothing_is_counted_compared_or_sent() -> None:
    assert load_text(one_pool()).policy.reports == ReportPolicy(efficiency_target=Decimal("0.70"))


def test_the_price_of_a_gpu_hour_is_the_lowest_of_its_kind() -> None:
    assert load_text(one_pool()).policy.gpu_prices == LISTED


def test_everything_that_is_written_arrives() -> None:
    found, warnings = reports(
        "efficiency_target: 0.8",
        "units:",
        "  - {name: requests, query: sum(requests_total), per: 1000, only: {team: search, namespace: prod}}",
        "commitments:",
        "  - {size: an.g1.l40s.kube.x1, term_months: 12, usd_per_hour: 1.09}",
        "monthly: {everybody: true, teams: [search, vision]}",
    )
    only = {"team": "search", "namespace": "prod"}
    assert found == ReportPolicy(
        efficiency_target=Decimal("0.8"),
        units=(UnitOfWork(name="requests", query="sum(requests_total)", per=Decimal(1000), only=only),),
        commitments=(Commitment(size="an.g1.l40s.kube.x1", term_months=12, usd_per_hour=Decimal("1.09")),),
        monthly=Monthly(everybody=True, teams=("search", "vision")),
    )
    assert found.monthly.wanted == (None, "search", "vision")
    assert warnings == ()


@pytest.mark.parametrize(
    "query",
    ["sum(rate(x_total[5m]))", 'sum(x{re=~"a[31d]"})', "sum_over_time(x[$range:1h])", "sum(increase(x[$range]))"],
)
def test_a_query_without_a_long_fixed_range_is_taken(query: str) -> None:
    found, _ = reports(f"units: [{{name: epoch, query: {json.dumps(query)}}}]")
    assert found.units[0].query == query


@pytest.mark.parametrize("query", ["sum_over_time(x[30d:1h])", "increase(x[2y])", "increase(x[ 36h ])"])
def test_a_query_with_a_long_fixed_range_is_refused(query: str) -> None:
    with pytest.raises(ConfigError, match="reaches into the month before"):
        reports(f"units: [{{name: epoch, query: {json.dumps(query)}}}]")


def test_a_commitment_that_never_pays_is_warned_of() -> None:
    _, [warning] = reports("commitments: [{size: an.g1.l40s.kube.x1, term_months: 6, usd_per_hour: 1.29}]")
    assert warning == (
        "reports.commitments[0].usd_per_hour: 1.29 is not below the on-demand price (1.29), so it never pays; "
        "is it the price of all GPUs of a node?"
    )


def test_a_commitment_of_a_size_without_a_price_is_warned_of() -> None:
    _, [warning] = reports("commitments: [{size: an.g1.b200.kube.x8, term_months: 12, usd_per_hour: 35.92}]")
    assert warning == (
        "reports.commitments[0].size: no on-demand price is known for an.g1.b200.kube.x8, "
        "so there is nothing to compare with"
    )


def test_the_price_of_a_pool_goes_before_the_list_for_a_commitment() -> None:
    file = one_pool("price_usd_per_hour: 1.00") + (
        "reports: {commitments: [{size: an.g1.l40s.kube.x1, term_months: 12, usd_per_hour: 1.09}]}\n"
    )
    assert "not below the on-demand price (1.00)" in load_text(file).warnings[0]


def test_check_config_shows_what_is_counted_compared_and_sent() -> None:
    file = one_pool() + (
        "reports:\n"
        "  units: [{name: epoch, query: q}, {name: requests, query: q, per: 1000}]\n"
        "  commitments: [{size: an.g1.l40s.kube.x1, term_months: 12, usd_per_hour: 1.09}]\n"
        "  monthly: {everybody: true, teams: [vision]}\n"
    )
    assert [line for line in describe(load_text(file)) if line.startswith("reports")] == [
        "reports cost per epoch, 1000 requests",
        "reports commitments an.g1.l40s.kube.x1 12 months $1.09/h",
        "reports sent monthly to all teams, vision",
    ]
    assert not [line for line in describe(load_text(one_pool())) if line.startswith("reports")]


# --- committed nodes of a pool

COMMITTED = "committed: {nodes: 2, usd_per_hour: 1.09, until: 2027-06-01}"


def test_committed_nodes_of_a_pool_are_how_the_cloud_charges() -> None:
    policy = load_text(one_pool(COMMITTED)).policy
    [pool] = policy.pools
    assert policy.billing.committed == (
        CommittedNodes(
            pool=pool.id,
            size=pool.size,
            nodes=2,
            usd_per_hour=Decimal("1.09"),
            until=datetime(2027, 6, 1, tzinfo=UTC),
        ),
    )
    assert load_text(one_pool()).policy.billing.committed == ()


def test_check_config_shows_committed_nodes() -> None:
    assert "  paid for 2 nodes, used or not, at $1.09 per node-hour until 2027-06-01" in describe(
        load_text(one_pool(COMMITTED))
    )


def test_a_commitment_that_is_no_cheaper_is_warned_of() -> None:
    warnings = load_text(one_pool(COMMITTED.replace("1.09", "1.29"))).warnings
    assert any(w.startswith("pools[0].committed.usd_per_hour: 1.29 is not below the price of") for w in warnings)


def test_a_commitment_to_more_nodes_than_the_pool_may_have_is_warned_of() -> None:
    warnings = load_text(one_pool(COMMITTED.replace("nodes: 2", "nodes: 20"))).warnings
    assert ("pools[0].committed.nodes: 20 is above max_nodes (8): the others are paid for in vain") in warnings
