"""The charges of a month as CSV in the FinOps Open Cost and Usage Specification (FOCUS) 1.2: one row for each node and
cost line of the report.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing
from receiver.core.model.usage import Owner
from receiver.core.money.budget import Month
from receiver.core.money.cost import amount, counts_from, to_cents, units_between
from receiver.core.report.lines import CostPiece
from receiver.reports.document import utc
from receiver.reports.formats import PAID_FOR, without_formulas

COLUMNS = (
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"),
    *("BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency"),
    *("ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "EffectiveCost"),
    *("InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit"),
    *("ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType"),
    *("ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId"),
    *("SubAccountId", "SubAccountName", "Tags", "x_PaidFor"),
)
NUMBERS = (
    *("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"),
    *("ConsumedQuantity", "ListUnitPrice", "PricingQuantity"),
)
COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")  # equal: no discounts are known
CIVO = ("InvoiceIssuerName", "ProviderName", "PublisherName")
ALWAYS = {
    **dict.fromkeys(CIVO, "Civo"),
    "BillingCurrency": "USD",
    "ChargeFrequency": "Usage-Based",
    "PricingCategory": "Standard",
    "ServiceCategory": "Compute",
    "ServiceName": "Kubernetes GPU nodes",
    "ServiceSubcategory": "Virtual Machines",
}
WORDS = dict(PAID_FOR)
FINE = Decimal("1E-9")  # hours: times a price, far below a cent


class _Key(NamedTuple):
    """What a charge was for, without the names that a later configuration may change."""

    paid_for: str
    size: str
    namespace: str
    workload: str
    owner: Owner


@dataclass(slots=True)
class _Part:
    """USD and GPU-hours of one key, in a report or on one node."""

    usd: Decimal = Decimal(0)
    gpu_hours: float = 0.0
    pool: str = ""
    kind: str = ""

    def add(self, usd: Decimal, gpu_hours: float, pool: str, kind: str) -> None:
        self.usd += usd
        self.gpu_hours += gpu_hours
        self.pool, self.kind = pool, kind


def as_focus(
    report: Mapping[str, Any],
    pieces: Iterable[CostPiece],
    lives: Iterable[NodeLife],
    month: Month,
    now: datetime,
    billing: Billing,
    *,
    account: str,
    region: str,
) -> str:
    """Return the charges of *report*, a document of *month*, as CSV (RFC 4180); null is an empty field.

    *pieces* and *lives* are the ledger's at *now* and split the report's amounts between nodes, in cents that add up to
    the report. An amount that the ledger does not have, such as that of a month closed long ago, is one row without a
    node. *account* is the BillingAccountId.
    """
    written = io.StringIO()
    table = csv.DictWriter(written, COLUMNS, lineterminator="\r\n", restval="")
    table.writeheader()
    nodes = {life.instance: life for life in lives}
    whole = {
        **ALWAYS,
        "BillingAccountId": account,
        "BillingAccountName": report.get("cluster_name", ""),
        "BillingPeriodStart": utc(month.start),
        "BillingPeriodEnd": utc(month.end),
        "RegionId": region,
        "RegionName": region,
    }
    for key, usd, part, instance in _split(report, pieces):
        node = nodes.get(instance)
        start, end = _period(node, month, now, billing)
        period = {"ChargePeriodStart": utc(start), "ChargePeriodEnd": utc(end)}
        table.writerow(
            without_formulas({**whole, **period, **_charge(key, usd, part, node), **_priced(usd, node)}, NUMBERS)
        )
    return written.getvalue()


def _split(report: Mapping[str, Any], pieces: Iterable[CostPiece]) -> Iterator[tuple[_Key, Decimal, _Part, str]]:
    """Yield each key of *report* with its cents on each node and the node's instance, empty without one."""
    told: defaultdict[_Key, _Part] = defaultdict(_Part)
    found: defaultdict[_Key, defaultdict[str, _Part]] = defaultdict(lambda: defaultdict(_Part))
    for line in report["lines"]:
        owner = Owner(**{field.name: line[field.name] for field in fields(Owner)})
        key = _Key(line["paid_for"], line["size"], line["namespace"], line["workload"], owner)
        told[key].add(Decimal(line["usd"]), line["gpu_hours"], line["pool"], line["kind"])
    for piece in pieces:
        whose = piece.whose
        key = _Key(whose.paid_for.value, whose.size, whose.namespace, whose.workload, whose.owner)
        found[key][piece.instance].add(piece.usd, piece.seconds / 3600, whose.pool, whose.kind)
    for key, line in told.items():
        parts: Mapping[str, _Part] = found.get(key) or {"": line}
        cents = to_cents({instance: part.usd for instance, part in parts.items()}, line.usd)
        for instance in sorted(parts):
            yield key, cents[instance], parts[instance], instance


def _period(node: NodeLife | None, month: Month, now: datetime, billing: Billing) -> tuple[datetime, datetime]:
    """The paid units of *node* that began in *month*, in whole seconds and cut at its end; without any the month."""
    units = units_between(node, month.start, month.end, now, billing) if node else 0
    if node is None or not units:
        return month.start, month.end
    began = counts_from(node.created_at, month.start, billing)
    end = min(began + units * billing.granularity, month.end)
    return max(began.replace(microsecond=0), month.start), end.replace(microsecond=0)


def _charge(key: _Key, usd: Decimal, part: _Part, node: NodeLife | None) -> dict[str, str]:
    """The columns of what was charged, and for whom. Spend from before the ledger began is known only as a sum, so that
    it cannot be Usage, which needs a SKU."""
    said = f"GPU node {key.size}, " if key.size else "GPU nodes, "
    said += f"{key.paid_for}: {WORDS.get(key.paid_for, key.paid_for)}" + (f" ({key.workload})" if key.workload else "")
    if node is not None and node.price_usd_per_hour is None:
        said += "; the cost is missing: this size has no price"
    tags = {"namespace": key.namespace, "workload": key.workload, "pool": part.pool, **asdict(key.owner)}
    known = {name: value for name, value in tags.items() if value}
    found = {
        **dict.fromkeys(COSTS, amount(usd)),
        "ChargeCategory": "Usage" if key.size else "Adjustment",
        "ChargeDescription": said,
        "SubAccountId": key.owner.team,
        "SubAccountName": key.owner.team,
        "Tags": json.dumps(known) if known else "",
        "x_PaidFor": key.paid_for,
    }
    if part.gpu_hours:
        hours = Decimal(part.gpu_hours).quantize(FINE)
        found |= {"ConsumedQuantity": amount(hours), "ConsumedUnit": "GPU-Hours"}
    if key.size:
        details = json.dumps({"InstanceType": key.size, "x_GpuModel": part.kind})
        found |= {"SkuId": key.size, "SkuPriceId": key.size, "SkuMeter": "Node Hours", "SkuPriceDetails": details}
    return found


def _priced(usd: Decimal, node: NodeLife | None) -> dict[str, str]:
    """The columns of *node* and its price; hours times price are the cost."""
    if node is None:
        return {}
    found = {"ResourceId": node.instance, "ResourceName": node.name, "ResourceType": "Kubernetes node"}
    if node.price_usd_per_hour:
        found["ListUnitPrice"] = amount(node.price_usd_per_hour)
        found["PricingQuantity"] = amount((usd / node.price_usd_per_hour).quantize(FINE))
        found["PricingUnit"] = "Hours"
    return found
