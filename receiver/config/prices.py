"""What a node-hour costs: the dated price file that ships, the operator's file over it, sanity checks.

Civo's size API has no prices (``GET /v2/sizes``), so they are data with a day and a source.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path as File

from pydantic import Field

from receiver.config.values import ConfigError, Day, Mistake, Money, Path, Section, Text, Units, Wrong, spell
from receiver.config.yaml_text import load
from receiver.core.model.charges import NODE
from receiver.core.model.policy import ChargePrice
from receiver.core.model.text import dollars

# No GPU-hour is sold outside these bounds; a price outside is per month or in another unit.
LEAST = Decimal("0.05")
MOST = Decimal(200)
MOST_PER_GB = Decimal("0.01")  # USD per GB and hour; Civo's volumes cost a hundredth of that
HOURS_PER_MONTH = 730  # as on Civo's pricing page
FAR = 20  # no discount or currency reaches that far from a list price; cents (100) and months (730) do
EIGHT_GPUS = 8  # the most of one node


class PriceRange(Section):
    from_usd_per_gpu_hour: Money = Field(examples=["the lowest plausible price of a GPU-hour in USD"])
    """a lower price gets a warning"""
    to_usd_per_gpu_hour: Money = Field(examples=["the highest plausible price of a GPU-hour in USD"])
    """a higher one too"""


class SizePrice(Section):
    usd_per_hour: Money = Field(examples=["the price of one node-hour in USD"])
    """the price of a node-hour, before tax"""
    kind: Text | None = None
    """its kind of GPU, one of `kinds`"""
    gpus: Units | None = None
    """its number of GPUs"""

    def contradictions(self) -> Iterator[Wrong]:
        yield from insane(self.usd_per_hour, self.gpus or 1, ("usd_per_hour",))


class CodePrice(Section):
    """What a charge other than a node of a priced size costs in USD: per hour, or per GB and hour."""

    usd_per_hour: Money | None = None
    """price per hour of a charge such as `loadbalancer`"""
    usd_per_gb_hour: Money | None = None
    """or per GB and hour, such as `volume`"""

    def contradictions(self) -> Iterator[Wrong]:
        if (self.usd_per_hour is None) == (self.usd_per_gb_hour is None):
            yield Wrong(
                "must have one price", "give it usd_per_hour, or usd_per_gb_hour for a charge by the GB; 0 is free"
            )
        for name, most in (("usd_per_hour", MOST), ("usd_per_gb_hour", MOST_PER_GB)):
            usd = getattr(self, name)
            if usd is not None and usd > most:
                remedy = f"write the price of an hour; a monthly price is {usd / HOURS_PER_MONTH:.6f} per hour"
                yield Wrong(f"{dollars(usd)} is more than {dollars(most)}", remedy, (name,))


class PriceFile(Section):
    """A price file: when and where its prices were read, the prices of sizes, and those of other charges by code."""

    as_of: Day = Field(examples=["the day the prices were read, such as as_of: 2026-08-22"])
    """when the prices were read"""
    source: Text = Field(examples=["where the prices were read"])
    """where"""
    kinds: dict[str, PriceRange] = Field(default_factory=dict)
    sizes: dict[str, SizePrice] = Field(examples=["sizes with usd_per_hour each"])
    codes: dict[str, CodePrice] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices by size, the plausible range by kind of GPU, prices by charge code, and the files they are from."""

    sizes: Mapping[str, SizePrice] = field(default_factory=dict)
    kinds: Mapping[str, PriceRange] = field(default_factory=dict)
    codes: Mapping[str, CodePrice] = field(default_factory=dict)
    origins: tuple[str, ...] = ()

    def over(self, below: "Prices") -> "Prices":
        """Return these prices over *below*; a size without kind or gpus takes those of *below*."""
        sizes = dict(below.sizes)
        for name, price in self.sizes.items():
            base = sizes.get(name, price)
            sizes[name] = price.model_copy(update={"kind": price.kind or base.kind, "gpus": price.gpus or base.gpus})
        return Prices(
            sizes=sizes,
            kinds={**below.kinds, **self.kinds},
            codes={**below.codes, **self.codes},
            origins=(*self.origins, *below.origins),
        )

    def per_gpu_hour(self) -> Mapping[str, Decimal]:
        """Return the lowest USD per GPU-hour of each kind of GPU."""
        usd_by_kind: dict[str, Decimal] = {}
        for price in self.sizes.values():
            if price.kind and price.gpus:
                each = price.usd_per_hour / price.gpus
                usd_by_kind[price.kind] = min(each, usd_by_kind.get(price.kind, each))
        return usd_by_kind

    def charges(self) -> Mapping[str, ChargePrice]:
        """Return the prices of charges by code: nodes of every priced size, and the other codes."""
        nodes = {NODE + name: ChargePrice(usd_per_hour=price.usd_per_hour) for name, price in self.sizes.items()}
        return {**nodes, **{code: ChargePrice(**price.model_dump()) for code, price in self.codes.items()}}


@cache
def shipped() -> Prices:
    prices, mistakes = parse_prices((files("receiver.config") / "civo_prices.yaml").read_text(encoding="utf-8"))
    if mistakes:
        raise ConfigError(mistakes)
    return prices


def parse_prices(content: str) -> tuple[Prices, list[Mistake]]:
    file, mistakes = load(PriceFile, content)
    if file is None or mistakes:
        return Prices(), mistakes
    origins = (f"{file.source} ({file.as_of})",)
    return Prices(sizes=file.sizes, kinds=file.kinds, codes=file.codes, origins=origins), []


Read = Callable[[File], bytes]


def overlaid(prices_file: str | None, directory: File, read: Read = File.read_bytes) -> tuple[Prices, list[Mistake]]:
    """Return the shipped prices with the operator's *prices_file* (relative to *directory*) over them."""
    prices = shipped()
    if prices_file is None:
        return prices, []
    try:
        content = read(directory / prices_file).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8"
        problem = f'cannot read "{prices_file}": {reason}'
        return prices, [Mistake(path="prices_file", problem=problem, remedy="mount the file there or remove the key")]
    own, mistakes = parse_prices(content)
    for name, price in own.sizes.items():
        for wrong in far_from_list(price.usd_per_hour, name, ("sizes", name, "usd_per_hour")):
            mistakes.append(Mistake(path=spell(wrong.at), problem=wrong.problem, remedy=wrong.remedy))
    named = [Mistake(path=f"prices_file {m.path}".rstrip(), problem=m.problem, remedy=m.remedy) for m in mistakes]
    return own.over(prices), named


def insane(usd_per_hour: Decimal, gpus: int, at: Path) -> Iterator[Wrong]:
    """Yield a mistake for an implausible price: below $0.05, or above $200 for each of its *gpus*."""
    if usd_per_hour > MOST * gpus:
        remedy = f"write the price of an hour; a monthly price is {usd_per_hour / HOURS_PER_MONTH:.2f} per hour"
        yield Wrong(f"{dollars(usd_per_hour)} per hour is more than {dollars(MOST)} per GPU", remedy, at)
    elif usd_per_hour < LEAST:
        problem = f"{dollars(usd_per_hour)} per hour is less than {dollars(LEAST)}"
        yield Wrong(problem, "write the price of one node for one hour in USD", at)


def far_from_list(usd_per_hour: Decimal, size: str, at: Path) -> Iterator[Wrong]:
    """Yield a mistake for a price that is more than 20 times Civo's list price of *size*, or less than a twentieth:
    negotiated prices stay well within."""
    list_price = shipped().sizes.get(size)
    if list_price is None:
        return
    listed = list_price.usd_per_hour
    if usd_per_hour > FAR * listed:
        yield Wrong(
            f"{dollars(usd_per_hour)} per hour is more than {FAR} times the list price of {size} ({dollars(listed)})",
            "write the price of one node for one hour in USD; "
            f"in cents it would be {usd_per_hour / 100:.2f}, per month {usd_per_hour / HOURS_PER_MONTH:.2f}",
            at,
        )
    elif usd_per_hour * FAR < listed:
        less = f"is less than a twentieth of the list price of {size} ({dollars(listed)})"
        remedy = "write the price of one whole node for one hour in USD"
        yield Wrong(f"{dollars(usd_per_hour)} per hour {less}", remedy, at)
