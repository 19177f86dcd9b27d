"""The charges of a month in FOCUS 1.2: the columns that it demands, and the amounts of the report."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import SqlStore
from receiver.capabilities.costs.documents import ReportDocument
from receiver.capabilities.costs.focus import COLUMNS, as_focus
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Anchor, Billing
from receiver.core.model.usage import Accounting, Owner
from receiver.core.money.attribution import MonthToDate
from receiver.core.money.cost import in_cents, units_between
from receiver.core.report.lines import pieces
from receiver.core.report.report import report
from tests.capabilities.costs.focus_1_2 import SPECIFIED, TOGETHER, a_decimal, a_string
from tests.capabilities.costs.month_ends import a_later_client, another_policy, close_month
from tests.core.report.builders import A100_X8, AFTER, H100, HOUR, L40S, MONTH, a_life, a_policy, a_usage, at
from tests.core.report.simulated import SimulatedMonth, a_month

Row = dict[str, str]
ZERO = Decimal(0)
COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")


def one_of(*words: str) -> Callable[[str], bool]:
    return lambda said: said in words


OF_USAGE: dict[str, Callable[[str], bool]] = {  # not null where ChargeCategory is Usage
    "ConsumedQuantity": a_decimal,
    "ConsumedUnit": one_of("GPU-Hours"),
    "ListUnitPrice": a_decimal,
    "PricingCategory": one_of("Standard"),
    "PricingQuantity": a_decimal,
    "PricingUnit": one_of("Hours"),
    "RegionId": one_of("LON1"),
    "RegionName": one_of("LON1"),
    "ResourceId": a_string,
    "ResourceName": a_string,
    "ResourceType": a_string,
    "SkuId": one_of(L40S, H100, A100_X8),
    "SkuMeter": a_string,
    "SkuPriceId": one_of(L40S, H100, A100_X8),
}


OURS = {name: column for name, column in SPECIFIED.items() if name in COLUMNS}


def table_of(
    month: SimulatedMonth, team: str | None = None, now: datetime = AFTER, seeded: Decimal = ZERO, kept: bool = True
) -> tuple[dict[str, Any], str]:
    """The report of *month* and its charges; the ledger's rows are gone unless they are *kept*."""
    found = month.found(now, seeded=seeded)
    told_of = report(found, month.policy, MONTH, now, team)
    document = ReportDocument.of(told_of, cluster_name="prod-lon1").document()
    lives: Iterable[NodeLife] = month.lives if kept else ()
    told = pieces(found.attributed, month.policy) if kept else ()
    return document, as_focus(
        document, told, lives, MonthToDate(MONTH, now, month.policy.billing), account="a-cluster", region="LON1"
    )


def read(table: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(table, newline="")))


def charges(month: SimulatedMonth, *arguments: Any, **more: Any) -> list[Row]:
    return read(table_of(month, *arguments, **more)[1])


def usd(rows: Iterable[Row], column: str = "BilledCost") -> Decimal:
    return sum((Decimal(row[column]) for row in rows), ZERO)


def small(*lives: NodeLife, **changes: Any) -> SimulatedMonth:
    """A month of *lives*, by default one of eight hours, of which a workload held six, two of them at rest."""
    given: dict[str, Any] = {"usage": [a_usage(hours=6, idle=2 * 3600.0)], "policy": a_policy()}
    return SimulatedMonth(**{"lives": list(lives) or [a_life(lasts=8)], **given, **changes})


def test_every_mandatory_column_is_there_and_no_unknown_one_without_the_prefix() -> None:
    assert {name for name, column in SPECIFIED.items() if column.mandatory} <= set(COLUMNS)
    assert {name for name in COLUMNS if not name.startswith("x_")} <= set(SPECIFIED)


@pytest.mark.parametrize("kept", [True, False], ids=["with its ledger", "without"])
def test_every_value_has_the_type_of_its_column_and_is_null_only_where_that_is_allowed(kept: bool) -> None:
    rows = charges(a_month(), seeded=Decimal("12.30"), kept=kept)
    assert len(rows) > 30
    assert [(name, row[name]) for row in rows for name, column in OURS.items() if not column.takes(row[name])] == []


def test_no_unit_and_no_name_stands_without_its_quantity_or_id() -> None:
    rows = charges(a_month(), seeded=Decimal("12.30"))
    assert [(row[of], row[name]) for row in rows for of, name in TOGETHER if row.get(name) and not row[of]] == []


def test_the_cluster_is_the_billing_account_by_id_and_by_name() -> None:
    rows = charges(small())
    assert {(row["BillingAccountId"], row["BillingAccountName"]) for row in rows} == {("a-cluster", "prod-lon1")}


def test_usage_has_what_usage_must_have() -> None:
    for row in charges(a_month()):
        assert row["ChargeCategory"] == "Usage"
        assert [name for name, fits in OF_USAGE.items() if not fits(row[name])] == []


def test_columns_are_those_of_focus_in_their_order_and_our_own_come_last() -> None:
    own = [name for name in COLUMNS if name.startswith("x_")]
    assert list(COLUMNS) == [*sorted(set(COLUMNS) - set(own)), *own]


@pytest.mark.parametrize("now", [AFTER, at(400.3)], ids=["over", "under way"])
@pytest.mark.parametrize("team", [None, "vision", "search", ""])
def test_every_cost_adds_up_to_the_report_but_for_its_rounding(team: str | None, now: datetime) -> None:
    document, table = table_of(a_month(), team, now)
    rows = read(table)
    assert Decimal(document["usd"]) > 40
    (total,) = {usd(rows, column) for column in COSTS}
    rounding = Decimal("0.005") if team is None else Decimal("0.01")  # of the month, and of the team within it
    assert abs(total - Decimal(document["usd"])) <= rounding


def test_the_charges_of_everybody_add_up_to_the_ledger_to_the_cent() -> None:
    month = a_month()
    ledger = sum((share.usd for share in month.found(AFTER).attributed.shares), ZERO)
    assert in_cents(usd(charges(month))) == in_cents(ledger)


def test_each_team_and_each_use_adds_up_to_the_report_but_for_its_rounding() -> None:
    document, table = table_of(a_month(), seeded=Decimal("12.30"))
    teams: defaultdict[str, Decimal] = defaultdict(Decimal)
    uses: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in read(table):
        uses[row["x_PaidFor"]] += Decimal(row["BilledCost"])
        if "workload" in json.loads(row["Tags"] or "{}"):
            teams[json.loads(row["Tags"]).get("team", "")] += Decimal(row["BilledCost"])
    told_teams = {part["name"]: Decimal(part["usd"]) for part in document["teams"]}
    told_uses = {name: Decimal(part["usd"]) for name, part in document["paid_for"].items() if Decimal(part["usd"])}
    assert teams == pytest.approx(told_teams, abs=Decimal("0.02"))
    assert uses == pytest.approx(told_uses, abs=Decimal("0.05"))  # the report rounds each line, and then adds


def test_parts_of_a_cent_on_many_nodes_are_told_with_all_their_decimals() -> None:
    policy = a_policy(billing=Billing(granularity=timedelta(seconds=1)))
    lives = [a_life(f"i-{n}", n, 0.001) for n in range(50)]  # 4 seconds: USD 0.00143 each
    document, table = table_of(small(*lives, usage=[], policy=policy))
    assert document["usd"] == "0.07"
    (cost,) = {Decimal(row["BilledCost"]) for row in read(table)}
    assert cost == pytest.approx(Decimal("1.29") * 4 / 3600, abs=Decimal("1e-8"))


def test_hours_times_price_are_the_cost() -> None:
    for row in charges(a_month()):
        assert Decimal(row["PricingQuantity"]) * Decimal(row["ListUnitPrice"]) == Decimal(row["ListCost"])


def test_equal_nodes_cost_the_same_however_many_workloads_they_ran() -> None:
    lives = [a_life("i-a", lasts=720), a_life("i-b", lasts=720)]
    usage = [
        a_usage(i, f"ml/Job/job-{n}", hours=7 / 3600, idle=n / 9, life=f"u{n}")
        for n in range(50)
        for i in ("i-a", "i-b")
    ]
    rows = charges(small(*lives, usage=usage))
    for instance in ("i-a", "i-b"):
        own = [row for row in rows if row["ResourceId"] == instance]
        assert (usd(own), usd(own, "PricingQuantity")) == (Decimal("928.80"), Decimal(720))


@pytest.mark.parametrize("now", [AFTER, at(400.3)], ids=["over", "under way"])
def test_each_node_has_its_paid_hours_at_its_price(now: datetime) -> None:
    month = a_month()
    rows = charges(month, None, now)
    told: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        told[row["ResourceId"]] += Decimal(row["PricingQuantity"])
    paid = {x.instance: units_between(x, MONTH.start, MONTH.end, now, month.policy.billing) for x in month.lives}
    assert told == {instance: hours for instance, hours in paid.items() if hours}


def test_gpu_hours_are_those_of_the_report() -> None:
    document, table = table_of(a_month())
    assert float(usd(read(table), "ConsumedQuantity")) == pytest.approx(document["gpu_hours"], abs=0.001)


def test_no_number_has_an_exponent() -> None:
    rows = charges(small(usage=[a_usage(hours=1e-7), a_usage(workload="ml/Job/other", hours=7)]))
    numbers = [name for name in COLUMNS if name.endswith(("Cost", "Quantity", "Price"))]
    assert len(numbers) == 7
    assert {row[name] for row in rows for name in numbers if not a_decimal(row[name])} == set()
    assert min(Decimal(row["ConsumedQuantity"]) for row in rows) == Decimal("1E-7")


def test_idle_and_unallocated_cost_are_rows_of_their_own_with_a_description() -> None:
    rows = {row["x_PaidFor"]: row for row in charges(small())}
    said = {
        name: (row["BilledCost"], json.loads(row["Tags"]).get("team"), row["ChargeDescription"])
        for name, row in rows.items()
    }
    node = f"GPU node {L40S}"
    assert said == {
        "used": ("5.16", "vision", f"{node}, used: held, not observed idle (ml/Job/train)"),
        "idle": ("2.58", "vision", f"{node}, idle: held, engine and memory idle (ml/Job/train)"),
        "unallocated": ("2.58", None, f"{node}, unallocated: not held by any workload"),
    }
    assert json.loads(rows["unallocated"]["Tags"]) == {"pool": "l40s"}


def test_a_row_names_its_node_and_the_owner_of_its_workload() -> None:
    owner = Owner(team="vision", project="detector", cost_center="cc-7")
    row = charges(small(usage=[a_usage(hours=8, owner=owner)]))[0]
    assert (row["ResourceId"], row["ResourceName"]) == ("i-1", "node-i-1")
    assert json.loads(row["Tags"]) == {
        "namespace": "ml",
        "workload": "ml/Job/train",
        "pool": "l40s",
        "team": "vision",
        "project": "detector",
        "cost_center": "cc-7",
    }
    assert json.loads(row["SkuPriceDetails"]) == {
        "InstanceType": L40S,
        "GpuCount": 1,
        "CoreCount": 12,
        "x_GpuModel": "L40S",
    }


def test_two_runs_of_one_workload_on_a_node_are_one_row() -> None:
    rows = charges(small(usage=[a_usage(hours=2, life="a"), a_usage(hours=6, life="b")]))
    assert [(row["BilledCost"], row["ConsumedQuantity"]) for row in rows] == [("10.32", "8.00")]


def test_a_workload_on_two_pools_of_one_size_has_a_row_for_each_node() -> None:
    lives = [a_life("i-1", lasts=8), a_life("i-2", lasts=2, pool="another")]
    document, table = table_of(small(*lives, usage=[a_usage(hours=8), a_usage("i-2", hours=2)]))
    found = [(row["ResourceId"], json.loads(row["Tags"])["pool"], row["BilledCost"]) for row in read(table)]
    assert found == [("i-1", "l40s", "10.32"), ("i-2", "another", "2.58")]
    assert (len(document["lines"]), document["usd"]) == (2, "12.90")


@pytest.mark.parametrize(
    ("life", "anchor", "period"),
    [
        (a_life("i-1", 2.25, 1.5), Anchor.INSTANCE, ("2026-10-01T02:15:00Z", "2026-10-01T04:15:00Z")),
        (a_life("i-1", 2.25, 1.5), Anchor.CLOCK, ("2026-10-01T02:00:00Z", "2026-10-01T04:00:00Z")),
        (a_life("i-1", -5.5, 7), Anchor.INSTANCE, ("2026-10-01T00:30:00Z", "2026-10-01T01:30:00Z")),
        (a_life("i-1", 743.5, None), Anchor.INSTANCE, ("2026-10-31T23:30:00Z", "2026-11-01T00:00:00Z")),
        (a_life("i-1", 0.0001, 1), Anchor.INSTANCE, ("2026-10-01T00:00:00Z", "2026-10-01T01:00:00Z")),
    ],
    ids=["two hours", "by the clock", "from before the month", "into the next one", "parts of a second"],
)
def test_the_charge_period_is_the_nodes_paid_hours_within_the_month(
    life: NodeLife, anchor: Anchor, period: tuple[str, str]
) -> None:
    rows = charges(small(life, usage=[], policy=a_policy(billing=Billing(anchor=anchor))))
    assert {(row["ChargePeriodStart"], row["ChargePeriodEnd"]) for row in rows} == {period}
    assert {(row["BillingPeriodStart"], row["BillingPeriodEnd"]) for row in rows} == {
        ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    }


def test_spend_from_before_the_ledger_is_an_adjustment_because_usage_needs_a_sku() -> None:
    row = next(row for row in charges(small(), seeded=Decimal("12.30")) if row["x_PaidFor"] == "seeded")
    assert (row["ChargeCategory"], row["BilledCost"]) == ("Adjustment", "12.30")
    assert row["ChargeDescription"] == "GPU nodes, seeded: from before the ledger began"
    empty = (*OF_USAGE, "Tags", "SkuPriceDetails")
    assert {name for name in empty if row[name]} == {"PricingCategory", "RegionId", "RegionName"}


def test_a_node_without_a_price_says_that_its_cost_is_missing() -> None:
    row = charges(small(a_life(lasts=8, price_usd_per_hour=None), usage=[]))[0]
    assert (row["BilledCost"], row["ListUnitPrice"], row["PricingQuantity"]) == ("0.00", "", "8.00")
    assert row["ChargeDescription"].endswith("; the cost is missing: this size has no price")


def test_names_with_commas_quotes_and_line_breaks_are_read_back_as_they_were() -> None:
    team = 'a,"b"\r\nc\N{GREEK SMALL LETTER ALPHA}'
    rows = charges(small(usage=[a_usage(hours=8, owner=Owner(team=team))]))
    assert json.loads(rows[0]["Tags"])["team"] == team


def test_no_name_becomes_a_formula_of_a_spreadsheet() -> None:
    rows = charges(small(a_life(lasts=8, name="=1+1"), usage=[a_usage(hours=8, owner=Owner(team="@SUM(A1)"))]))
    assert rows[0]["ResourceName"] == "'=1+1"


def test_a_month_without_costs_is_a_header() -> None:
    assert table_of(small(usage=[], lives=[]))[1] == ",".join(COLUMNS) + "\r\n"


def test_a_report_whose_ledger_is_gone_keeps_its_amounts_without_nodes() -> None:
    document, table = table_of(a_month(), kept=False)
    rows = read(table)
    assert usd(rows) == Decimal(document["usd"])
    assert {(row["ResourceId"], row["ListUnitPrice"]) for row in rows} == {("", "")}
    assert {row["ConsumedUnit"] for row in rows} == {"GPU-Hours"}
    assert {row["PricingUnit"] for row in rows} == {"Hours"}


def test_a_closed_month_has_the_amounts_and_nodes_of_its_report_whatever_the_configuration_is_later(
    no_rows: SqlStore,
) -> None:
    no_rows.saw((a_life(lasts=8), a_life("i-2", 9, 2.5)), {"pool-l40s": 0}, at(0))
    assert no_rows.account(Accounting(usage=(a_usage(hours=6), a_usage("i-2", hours=1))), None, MONTH.end + 2 * HOUR)
    close_month(no_rows, a_policy())
    asked = "/api/v1/report?month=2026-10&format=focus"
    told = [read(a_later_client(no_rows, policy).get(asked).text) for policy in (a_policy(), another_policy())]
    before, after = (
        {(row["ResourceId"], row["x_PaidFor"]): Decimal(row["BilledCost"]) for row in rows} for rows in told
    )
    assert after == pytest.approx(before, abs=Decimal("0.02"))
    assert {instance for instance, _ in before} == {"i-1", "i-2"}
    assert [usd(rows) for rows in told] == pytest.approx([Decimal("14.19")] * 2, abs=Decimal("0.02"))
