"""The columns of FOCUS 1.2 (FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec, tag v1.2), and what each may hold."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

VERSION = "1.2"
# Feature level, whether null is allowed, type, and the allowed values of those columns that have a list of them.
TABLE = """
AvailabilityZone                    recommended  null      string
BilledCost                          mandatory    not-null  decimal
BillingAccountId                    mandatory    not-null  string
BillingAccountName                  mandatory    null      string
BillingAccountType                  conditional  null      string
BillingCurrency                     mandatory    not-null  currency
BillingPeriodEnd                    mandatory    not-null  moment
BillingPeriodStart                  mandatory    not-null  moment
CapacityReservationId               conditional  null      string
CapacityReservationStatus           conditional  null      string    Used|Unused
ChargeCategory                      mandatory    not-null  string    Usage|Purchase|Tax|Credit|Adjustment
ChargeClass                         mandatory    null      string    Correction
ChargeDescription                   mandatory    null      string
ChargeFrequency                     recommended  not-null  string    One-Time|Recurring|Usage-Based
ChargePeriodEnd                     mandatory    not-null  moment
ChargePeriodStart                   mandatory    not-null  moment
CommitmentDiscountCategory          conditional  null      string    Spend|Usage
CommitmentDiscountId                conditional  null      string
CommitmentDiscountName              conditional  null      string
CommitmentDiscountQuantity          conditional  null      decimal
CommitmentDiscountStatus            conditional  null      string    Used|Unused
CommitmentDiscountType              conditional  null      string
CommitmentDiscountUnit              conditional  null      string
ConsumedQuantity                    conditional  null      decimal
ConsumedUnit                        conditional  null      string
ContractedCost                      mandatory    not-null  decimal
ContractedUnitPrice                 conditional  null      decimal
EffectiveCost                       mandatory    not-null  decimal
InvoiceId                           recommended  null      string
InvoiceIssuerName                   mandatory    not-null  string
ListCost                            mandatory    not-null  decimal
ListUnitPrice                       conditional  null      decimal
PricingCategory                     conditional  null      string    Standard|Dynamic|Committed|Other
PricingCurrency                     conditional  null      currency
PricingCurrencyContractedUnitPrice  conditional  null      decimal
PricingCurrencyEffectiveCost        conditional  null      decimal
PricingCurrencyListUnitPrice        conditional  null      decimal
PricingQuantity                     mandatory    null      decimal
PricingUnit                         mandatory    null      string
ProviderName                        mandatory    not-null  string
PublisherName                       mandatory    not-null  string
RegionId                            conditional  null      string
RegionName                          conditional  null      string
ResourceId                          conditional  null      string
ResourceName                        conditional  null      string
ResourceType                        conditional  null      string
ServiceCategory                     mandatory    not-null  string    Compute
ServiceName                         mandatory    not-null  string
ServiceSubcategory                  recommended  not-null  string    Virtual Machines
SkuId                               conditional  null      string
SkuMeter                            conditional  null      string
SkuPriceDetails                     conditional  null      key-value
SkuPriceId                          conditional  null      string
SubAccountId                        conditional  null      string
SubAccountName                      conditional  null      string
SubAccountType                      conditional  null      string
Tags                                conditional  null      key-value
"""
# Where the first is null, the second must be too.
TOGETHER = (
    ("ConsumedQuantity", "ConsumedUnit"),
    ("PricingQuantity", "PricingUnit"),
    ("RegionId", "RegionName"),
    ("ResourceId", "ResourceName"),
    ("ResourceId", "ResourceType"),
    ("SkuId", "SkuMeter"),
    ("SkuId", "SkuPriceDetails"),
    ("SubAccountId", "SubAccountName"),
)
A_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
A_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def a_decimal(said: str) -> bool:
    return bool(A_DECIMAL.fullmatch(said))


def a_moment(said: str) -> bool:
    return bool(A_MOMENT.fullmatch(said)) and datetime.fromisoformat(said).tzinfo == UTC


def a_string(said: str) -> bool:
    return bool(said.strip())


def key_values(said: str) -> bool:
    found = json.loads(said)
    return isinstance(found, dict) and all(isinstance(value, str | int | float | bool) for value in found.values())


TYPES: Mapping[str, Callable[[str], bool]] = {
    "currency": re.compile("[A-Z]{3}").fullmatch,  # type: ignore[dict-item]  # a match is true
    "decimal": a_decimal,
    "key-value": key_values,
    "moment": a_moment,
    "string": a_string,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the specification."""

    mandatory: bool
    nullable: bool
    fits: Callable[[str], bool]
    allowed: frozenset[str]

    def takes(self, said: str) -> bool:
        """Whether *said*, empty for null, may stand in this column."""
        return (self.fits(said) and (not self.allowed or said in self.allowed)) if said else self.nullable


def _columns() -> dict[str, Column]:
    found = {}
    for line in TABLE.strip().splitlines():
        name, level, null, kind, *words = line.split(maxsplit=4)
        allowed = frozenset(words[0].split("|")) if words else frozenset[str]()
        found[name] = Column(level == "mandatory", null == "null", TYPES[kind], allowed)
    return found


SPECIFIED = _columns()
