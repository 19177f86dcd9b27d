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

from receiver.capabilities.costs.formats import PAID_FOR, without_formulas
from receiver.core.model.civo_sizes import gpus_of_size, vcpus_of_size
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Unallocated
from receiver.core.model.usage import Owner
from receiver.core.money.attribution import MonthToDate
from receiver.core.money.cost import HOUR, NOISE, amount, counts_from
from receiver.core.report.lines import CostPiece, PaidFor
from receiver.reports.document import utc

COLUMNS = (
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"),
    *("BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency"),
    *("ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "EffectiveCost"),
    *("InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit"),
    *("ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType"),
    *("ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId"),
    *("Tags", "x_PaidFor", "x_Unallocated"),
)
NUMBERS = (
    *("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"),
    *("ConsumedQuantity", "ListUnitPrice", "PricingQuantity"),
)
COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")  # equal but for commitments
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
SHARED = "its share of what no workload held"
FINE = Decimal("1E-9")  # hours: times a price, far below a cent
ROUNDED_BY = Decimal("0.02")  # USD by which the cents of a line may differ from what they were rounded from


class _Key(NamedTuple):
    """What a charge was for, without the names that a later configuration may change."""

    paid_for: str
    size: str
    namespace: str
    workload: str
    owner: Owner


@dataclass(slots=True)
class _Charge:
    """USD, GPU-hours and paid *hours* of nodes (None: not known) of one key, in a report or on one node."""

    usd: Decimal = Decimal(0)
    gpu_hours: float = 0.0
    hours: Decimal | None = None
    pool: str = ""
    kind: str = ""
    list_usd: Decimal | None = None  # where commitments pay for all or some of it

    def add(self, usd: Decimal, gpu_hours: float, pool: str, kind: str) -> None:
        self.usd += usd
        self.gpu_hours += gpu_hours
        self.pool, self.kind = pool, kind


def as_focus(
    report: Mapping[str, Any],
    pieces: Iterable[CostPiece],
    lives: Iterable[NodeLife],
    to_date: MonthToDate,
    *,
    account: str,
    region: str,
) -> str:
    """Return the charges of *report*, the document of a month *to_date*, as CSV (RFC 4180); null is an empty field.

    *pieces* and *lives* are the ledger's: each row has its exact share of a node's paid hours, and its cost
    with all decimals. An amount that the ledger does not have any more, such as that of a month closed long ago, is one
    row without a node, in the report's cents. *account* is the BillingAccountId.
    """
    written = io.StringIO()
    table = csv.DictWriter(written, COLUMNS, lineterminator="\r\n", restval="")
    table.writeheader()
    nodes = {life.instance: life for life in lives}
    month, hours = to_date.month, to_date.billing.granularity / HOUR
    paid = {life.instance: to_date.units(life) * hours for life in nodes.values()}
    whole = {
        **ALWAYS,
        "BillingAccountId": account,
        "BillingAccountName": report.get("cluster_name", ""),
        "BillingPeriodStart": utc(month.start),
        "BillingPeriodEnd": utc(month.end),
        "RegionId": region,
        "RegionName": region,
        "x_Unallocated": report.get("unallocated", Unallocated.SEPARATE),
    }
    for key, charge, instance in _charges(report, pieces, nodes, paid):
        node = nodes.get(instance)
        start, end = _period(node, to_date)
        period = {"ChargePeriodStart": utc(start), "ChargePeriodEnd": utc(end)}
        table.writerow(without_formulas({**whole, **period, **_charged(key, charge, node), **_of_node(node)}, NUMBERS))
    return written.getvalue()


def _charges(
    report: Mapping[str, Any],
    pieces: Iterable[CostPiece],
    nodes: Mapping[str, NodeLife],
    paid: Mapping[str, float],
) -> Iterator[tuple[_Key, _Charge, str]]:
    """Yield the charges of each key of *report* with the node's instance, empty without one. *paid* are each node's
    hours."""
    lines: defaultdict[_Key, _Charge] = defaultdict(_Charge)
    for line in report["lines"]:
        owner = Owner(**{field.name: line[field.name] for field in fields(Owner)})
        key = _Key(line["paid_for"], line["size"], line["namespace"], line["workload"], owner)
        lines[key].add(Decimal(line["usd"]), line["gpu_hours"], line["pool"], line["kind"])
    of_nodes: defaultdict[str, defaultdict[_Key, _Charge]] = defaultdict(lambda: defaultdict(_Charge))
    for piece in pieces:
        share = piece.whose
        key = _Key(share.paid_for.value, share.size, share.namespace, share.workload, share.owner)
        of_nodes[piece.instance][key].add(piece.usd, piece.seconds / 3600, share.pool, share.kind)
    charges_by_node: defaultdict[_Key, dict[str, _Charge]] = defaultdict(dict)
    for instance, charges in of_nodes.items():
        if instance in nodes:
            _share_out(charges, nodes[instance].price_usd_per_hour, Decimal(str(paid[instance])))
        elif not instance:
            _without_node(charges)
        for key, charge in charges.items():
            charges_by_node[key][instance] = charge
    for key, line in lines.items():
        parts = _of_the_report(charges_by_node[key], line, key)
        for instance in sorted(parts):
            yield key, parts[instance], instance


def _of_the_report(parts: Mapping[str, _Charge], line: _Charge, key: _Key) -> Mapping[str, _Charge]:
    """The *parts* of *line* by instance. A closed report outlives the rows and the billing that it was made from: parts
    that come to something else are scaled, and without any the line itself is the only part."""
    ledger = sum((charge.usd for charge in parts.values()), Decimal(0))
    if parts and abs(ledger - line.usd) <= ROUNDED_BY:
        return parts
    if not ledger:
        gpus = gpus_of_size(key.size)
        line.hours = None if gpus is None else (Decimal(line.gpu_hours) / gpus).quantize(FINE)
        return {"": line}
    for charge in parts.values():
        charge.usd *= line.usd / ledger
        charge.hours = None if charge.hours is None else (charge.hours * line.usd / ledger).quantize(FINE)
    return parts


def _share_out(charges: Mapping[_Key, _Charge], price: Decimal | None, paid: Decimal) -> None:
    """Give each of a node's *charges* its part of the hours *paid*, which add up exactly, and its cost at *price*. What
    commitments pay for keeps its cost."""
    usd = sum((charge.usd for charge in charges.values()), Decimal(0))
    listed = price is None or abs(usd - paid * price) <= NOISE
    if price and (listed or usd):
        exact = {key: charge.usd / price if listed else charge.usd * paid / usd for key, charge in charges.items()}
    else:
        gpu_hours = sum(charge.gpu_hours for charge in charges.values())
        exact = {key: paid * Decimal(charge.gpu_hours / gpu_hours) for key, charge in charges.items() if gpu_hours}
    hours = {key: part.quantize(FINE) for key, part in exact.items()}
    if hours:
        most = max(hours, key=lambda key: (hours[key], key))
        hours[most] += paid - sum(hours.values(), Decimal(0))
    for key, part in hours.items():
        charges[key].hours = part
        if listed:
            charges[key].usd = part * (price or Decimal(0))  # all decimals
        else:
            charges[key].list_usd = part * (price or Decimal(0))


def _without_node(charges: Mapping[_Key, _Charge]) -> None:
    """Give those of *charges* that are for committed nodes which do not exist their hours."""
    for key, charge in charges.items():
        if key.size and (gpus := gpus_of_size(key.size)) is not None:
            charge.hours, charge.list_usd = (Decimal(charge.gpu_hours) / gpus).quantize(FINE), charge.usd


def _period(node: NodeLife | None, to_date: MonthToDate) -> tuple[datetime, datetime]:
    """The paid units of *node* that began in the month, in whole seconds and cut at its end; without any the month."""
    month, billing = to_date.month, to_date.billing
    units = to_date.units(node) if node else 0
    if node is None or not units:
        return month.start, month.end
    began = counts_from(node.created_at, month.start, billing)
    end = min(began + units * billing.granularity, month.end)
    return max(began.replace(microsecond=0), month.start), end.replace(microsecond=0)


def _charged(key: _Key, charge: _Charge, node: NodeLife | None) -> dict[str, str]:
    """The columns of what was charged, and for whom. Spend from before the ledger began is known only as a sum, so that
    it cannot be Usage, which needs a SKU."""
    description = f"GPU node {key.size}, " if key.size else "GPU nodes, "
    meaning = WORDS.get(key.paid_for, key.paid_for)
    if key.workload and key.paid_for == PaidFor.UNALLOCATED:
        meaning = SHARED
    description += f"{key.paid_for}: {meaning}" + (f" ({key.workload})" if key.workload else "")
    if node is not None and node.price_usd_per_hour is None:
        description += "; the cost is missing: this size has no price"
    tags = {"namespace": key.namespace, "workload": key.workload, "pool": charge.pool, **asdict(key.owner)}
    if charge.list_usd is not None:
        description += "; a commitment pays for it"
    set_tags = {name: value for name, value in tags.items() if value}
    columns = {
        **dict.fromkeys(COSTS, amount(charge.usd)),
        "ChargeCategory": "Usage" if key.size else "Adjustment",
        "ChargeDescription": description,
        "Tags": json.dumps(set_tags) if set_tags else "",
        "x_PaidFor": key.paid_for,
    }
    if charge.list_usd is not None:
        columns |= {"ListCost": amount(charge.list_usd), "PricingCategory": "Committed"}
    if charge.gpu_hours:
        hours = Decimal(charge.gpu_hours).quantize(FINE)
        columns |= {"ConsumedQuantity": amount(hours), "ConsumedUnit": "GPU-Hours"}
    if charge.hours is not None:
        columns |= {"PricingQuantity": amount(charge.hours), "PricingUnit": "Hours"}
    if key.size:
        details = {
            "InstanceType": key.size,
            "GpuCount": gpus_of_size(key.size),
            "CoreCount": vcpus_of_size(key.size),
            "x_GpuModel": charge.kind,
        }
        published = {name: value for name, value in details.items() if value is not None}
        columns |= {"SkuId": key.size, "SkuPriceId": key.size, "SkuMeter": "Node Hours"}
        columns["SkuPriceDetails"] = json.dumps(published)
    return columns


def _of_node(node: NodeLife | None) -> dict[str, str]:
    """The columns of *node* and its price."""
    if node is None:
        return {}
    columns = {"ResourceId": node.instance, "ResourceName": node.name, "ResourceType": "Kubernetes node"}
    if node.price_usd_per_hour:
        columns["ListUnitPrice"] = amount(node.price_usd_per_hour)
    return columns
