"""What a node-hour costs: the dated price file that ships, a file of the operator's over it, sanity checks.

Civo's size API has no prices (``GET /v2/sizes``), so they are data with a day and a source.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path as File
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from receiver.config.document import read
from receiver.config.mistakes import ConfigError, Mistake, Money, Text, Units, Wrong, nearest, spell, text
from receiver.config.model import Configuration, PoolSpec
from receiver.config.section import Section
from receiver.config.validation import validate
from receiver.core.model.charges import NODE
from receiver.core.model.policy import ChargePrice

# No GPU-hour is sold outside these; what is, was meant per month or in another unit.
LEAST = Decimal("0.05")
MOST = Decimal(200)
MOST_PER_GB = Decimal("0.01")  # USD per GB and hour; Civo's volumes cost a hundredth of that
HOURS_PER_MONTH = 730  # as Civo's pricing page counts them
FAR = 20  # no discount and no currency reaches that far from a list price; cents (100) and months (730) do


def _day(value: Any) -> date:
    said = text(value, "a day")
    try:
        return date.fromisoformat(said)
    except ValueError as error:
        raise Wrong(f'"{said}" is not a day', "write it as 2026-08-22") from error


class PriceRange(Section):
    """What a GPU-hour of one kind may plausibly cost, in USD."""

    from_usd_per_gpu_hour: Money
    """a price per GPU-hour below this is warned of"""
    to_usd_per_gpu_hour: Money
    """and one above this"""


class SizePrice(Section):
    """What a node-hour of one size costs in USD; *kind* and *gpus* say which GPUs it has."""

    usd_per_hour: Money
    """the price of one node of that size for one hour, before tax"""
    kind: Text | None = None
    """which GPU it has, one of `kinds`"""
    gpus: Units | None = None
    """how many"""


class CodePrice(Section):
    """What a charge that is no node of a priced size costs in USD: per hour, or per GB and hour."""

    usd_per_hour: Money | None = None
    """what a charge of that code costs per hour, such as `loadbalancer`; 0 is free"""
    usd_per_gb_hour: Money | None = None
    """the same per GB and hour, such as `volume`; one of the two"""


class PriceFile(Section):
    """A price file: when and where its prices were read, the prices of sizes, and those of other charges by code."""

    as_of: Annotated[date, BeforeValidator(_day)]
    """when the prices were read"""
    source: Text
    """where"""
    kinds: dict[str, PriceRange] = Field(default_factory=dict)
    sizes: dict[str, SizePrice]
    codes: dict[str, CodePrice] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices by size, the plausible range by kind of GPU, prices by charge code, and which files they are from."""

    sizes: Mapping[str, SizePrice] = field(default_factory=dict)
    kinds: Mapping[str, PriceRange] = field(default_factory=dict)
    codes: Mapping[str, CodePrice] = field(default_factory=dict)
    origins: tuple[str, ...] = ()

    def over(self, below: "Prices") -> "Prices":
        """Return these prices laid over *below*: a size of both keeps kind and gpus where only those are known."""
        sizes = dict(below.sizes)
        for name, price in self.sizes.items():
            known = sizes.get(name, price)
            sizes[name] = price.model_copy(update={"kind": price.kind or known.kind, "gpus": price.gpus or known.gpus})
        return Prices(
            sizes=sizes,
            kinds={**below.kinds, **self.kinds},
            codes={**below.codes, **self.codes},
            origins=(*self.origins, *below.origins),
        )


def per_gpu_hour(prices: Prices) -> Mapping[str, Decimal]:
    """Return the lowest USD per GPU-hour of each kind of GPU that *prices* name."""
    found: dict[str, Decimal] = {}
    for price in prices.sizes.values():
        if price.kind and price.gpus:
            each = price.usd_per_hour / price.gpus
            found[price.kind] = min(each, found.get(price.kind, each))
    return found


@cache
def shipped() -> Prices:
    """Return Civo's list prices as they ship with the package."""
    found, mistakes = parse((files("receiver.config") / "civo_prices.yaml").read_text(encoding="utf-8"))
    if mistakes:
        raise ConfigError(mistakes)
    return found


def parse(content: str) -> tuple[Prices, list[Mistake]]:
    """Return the prices in *content* (YAML) and every mistake in it."""
    try:
        document, mistakes = read(content)
    except ConfigError as error:
        return Prices(), list(error.mistakes)
    found = validate(PriceFile, document)
    mistakes += found.mistakes
    if found.model is None or mistakes:
        return Prices(), mistakes
    file = found.model
    mistakes += [
        wrong
        for name, price in file.sizes.items()
        for wrong in insane(price.usd_per_hour, price.gpus or 1, spell(("sizes", name, "usd_per_hour")))
    ]
    mistakes += [wrong for name, price in file.codes.items() for wrong in _insane_code(price, spell(("codes", name)))]
    origins = (f"{file.source} ({file.as_of})",)
    return Prices(sizes=file.sizes, kinds=file.kinds, codes=file.codes, origins=origins), mistakes


def overlaid(configuration: Configuration, directory: File) -> tuple[Prices, list[Mistake]]:
    """Return the shipped prices with the operator's ``prices_file`` (relative to *directory*) over them."""
    prices = shipped()
    if configuration.prices_file is None:
        return prices, []
    try:
        content = (directory / configuration.prices_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8"
        problem = f'cannot read "{configuration.prices_file}": {reason}'
        return prices, [Mistake(path="prices_file", problem=problem, remedy="mount the file there or remove the key")]
    own, mistakes = parse(content)
    mistakes += [
        wrong
        for name, price in (own.sizes if not mistakes else {}).items()
        for wrong in far_from_list(price.usd_per_hour, name, spell(("sizes", name, "usd_per_hour")))
    ]
    named = [Mistake(path=f"prices_file {m.path}".rstrip(), problem=m.problem, remedy=m.remedy) for m in mistakes]
    return own.over(prices), named


def insane(usd_per_hour: Decimal, gpus: int, path: str) -> Iterator[Mistake]:
    """Yield a mistake for a price that no GPU node has: below 0.05 USD, or above 200 USD for each of its *gpus*."""
    if usd_per_hour > MOST * gpus:
        yield Mistake(
            path=path,
            problem=f"{usd_per_hour} USD per hour is more than {MOST} per GPU",
            remedy=f"write the price of an hour; of a month it would be {usd_per_hour / HOURS_PER_MONTH:.2f} per hour",
        )
    elif usd_per_hour < LEAST:
        yield Mistake(
            path=path,
            problem=f"{usd_per_hour} USD per hour is less than {LEAST}",
            remedy="write the price of one node for one hour in USD",
        )


def far_from_list(usd_per_hour: Decimal, size: str, path: str) -> Iterator[Mistake]:
    """Yield a mistake for a price that is more than 20 times Civo's list price of *size*, or less than a twentieth.

    Negotiated prices stay well within; what lies between and outside of the kind's range is warned of.
    """
    known = shipped().sizes.get(size)
    if known is None:
        return
    listed = known.usd_per_hour
    if usd_per_hour > FAR * listed:
        yield Mistake(
            path=path,
            problem=f"{usd_per_hour} USD per hour is more than {FAR} times the list price of {size} ({listed})",
            remedy=(
                "write the price of one node for one hour in USD; "
                f"if these are cents it is {usd_per_hour / 100:.2f}, of a month {usd_per_hour / HOURS_PER_MONTH:.2f}"
            ),
        )
    elif usd_per_hour * FAR < listed:
        yield Mistake(
            path=path,
            problem=f"{usd_per_hour} USD per hour is less than a twentieth of the list price of {size} ({listed})",
            remedy="write the price of one whole node for one hour in USD",
        )


def _insane_code(price: CodePrice, path: str) -> Iterator[Mistake]:
    """Yield a mistake for a charge with no price or two, and for one that was probably meant per month."""
    if (price.usd_per_hour is None) == (price.usd_per_gb_hour is None):
        yield Mistake(
            path=path,
            problem="must have one price",
            remedy="give it usd_per_hour, or usd_per_gb_hour for what is paid by size; 0 is free",
        )
    for name, most in (("usd_per_hour", MOST), ("usd_per_gb_hour", MOST_PER_GB)):
        usd = getattr(price, name)
        if usd is not None and usd > most:
            yield Mistake(
                path=f"{path}.{name}",
                problem=f"{usd} USD is more than {most}",
                remedy=f"write the price of an hour; of a month it would be {usd / HOURS_PER_MONTH:.6f} per hour",
            )


def charge_prices(prices: Prices) -> Mapping[str, ChargePrice]:
    """Return what charges cost by code: nodes of every priced size, and what the files say of other codes."""
    nodes = {NODE + name: ChargePrice(usd_per_hour=price.usd_per_hour) for name, price in prices.sizes.items()}
    codes = {
        code: ChargePrice(usd_per_hour=price.usd_per_hour, usd_per_gb_hour=price.usd_per_gb_hour)
        for code, price in prices.codes.items()
    }
    return {**nodes, **codes}


def price_of(pool: PoolSpec, prices: Prices) -> Decimal | None:
    """Return USD per node-hour of *pool*: its own, else the price file's, else None."""
    if pool.price_usd_per_hour is not None:
        return pool.price_usd_per_hour
    known = prices.sizes.get(pool.size)
    return known.usd_per_hour if known else None


def commitment_warnings(configuration: Configuration, prices: Prices) -> Iterator[str]:
    """Yield what is odd about the commitments that reports are to judge."""
    for index, offer in enumerate(configuration.reports.commitments):
        path = f"reports.commitments[{index}]"
        own = [price for pool in configuration.pools if pool.size == offer.size and (price := price_of(pool, prices))]
        listed = prices.sizes.get(offer.size)
        price = own[0] if own else listed.usd_per_hour if listed else None
        if price is None:
            yield f"{path}.size: no on-demand price is known for {offer.size}, so there is nothing to compare with"
        elif offer.usd_per_hour >= price:
            yield (
                f"{path}.usd_per_hour: {offer.usd_per_hour} is not below the on-demand price ({price}), so it never "
                "pays; is it the price of all GPUs of a node?"
            )


def price_warnings(pool: PoolSpec, prices: Prices, path: str) -> Iterator[str]:
    """Yield what is odd, and not a mistake, about the price and the GPUs of *pool* (at *path* in the file)."""
    price = price_of(pool, prices)
    known = prices.sizes.get(pool.size)
    if price is None:
        close = nearest(pool.size, prices.sizes, cutoff=0.8)
        meant = f", or did you mean {close}?" if close else ""
        yield (
            f"{path}.size: no price is known for {pool.size}, so this pool cannot grow; "
            f"set price_usd_per_hour or a prices_file{meant}"
        )
    if known is None or known.gpus is None:
        return
    kind = prices.kinds.get(known.kind or "")
    if price is not None and kind is not None:
        per_gpu = price / known.gpus
        if not kind.from_usd_per_gpu_hour <= per_gpu <= kind.to_usd_per_gpu_hour:
            yield (
                f"{path}.price_usd_per_hour: {per_gpu:.2f} USD per {known.kind} and hour is unusual "
                f"({kind.from_usd_per_gpu_hour} to {kind.to_usd_per_gpu_hour}); is it per month, in cents or in "
                "another currency?"
            )
    if set(pool.resources) == {"nvidia.com/gpu"} and pool.gpus_per_node < known.gpus:
        yield (
            f"{path}.resources: {pool.size} has {known.gpus} GPUs and resources offers {pool.gpus_per_node}; "
            "nodes would be bought for demand that one could hold"
        )
