"""The price file that ships, a file of the operator's over it, and prices that cannot be."""

from decimal import Decimal
from pathlib import Path

import pytest

from receiver.config import ConfigError, load_file, load_text
from receiver.config.prices import parse_prices, shipped
from receiver.core.model.policy import ChargePrice
from tests.config.builders import one_pool
from tests.lint import none_of

# Civo's pricing page of 2026-08-22: USD per hour for one GPU of a kind; larger sizes cost a multiple of it.
PER_GPU = {"L40S": "1.29", "A100-40": "1.09", "A100-80": "1.79", "H100": "2.99", "H200": "3.49"}
HEAD = "as_of: 2026-11-01\nsource: our contract\n"


def test_every_shipped_price_is_the_listed_price_of_its_gpus() -> None:
    prices = shipped()
    assert len(prices.sizes) == 16
    for name, price in prices.sizes.items():
        assert price.gpus is not None, name
        assert price.usd_per_hour == Decimal(PER_GPU[price.kind or ""]) * price.gpus, name


def test_the_shipped_prices_say_when_and_where_they_were_read() -> None:
    assert shipped().origins == ("https://www.civo.com/pricing (2026-08-22)",)


def test_every_shipped_price_is_plausible_for_its_kind() -> None:
    prices = shipped()
    for price in prices.sizes.values():
        kind = prices.kinds[price.kind or ""]
        assert kind.from_usd_per_gpu_hour < price.usd_per_hour / (price.gpus or 1) < kind.to_usd_per_gpu_hour


def test_sizes_without_a_listed_price_are_left_out() -> None:
    assert not {"an.g1.h100.kube.x2", "an.g1.h100.kube.x4"} & set(shipped().sizes)
    assert not [name for name in shipped().sizes if "b200" in name]


def overlay(tmp_path: Path, prices: str, size: str = "an.g1.l40s.kube.x1") -> Path:
    (tmp_path / "prices.yaml").write_text(prices)
    file = tmp_path / "config.yaml"
    file.write_text("prices_file: prices.yaml\n" + one_pool().replace("an.g1.l40s.kube.x1", size))
    return file


def test_a_price_file_overlays_the_shipped_one_size_by_size(tmp_path: Path) -> None:
    settings = load_file(overlay(tmp_path, HEAD + "sizes: {an.g1.l40s.kube.x1: {usd_per_hour: 0.99}}\n"))
    assert settings.policy.pools[0].price_usd_per_hour == Decimal("0.99")
    assert settings.prices.sizes["an.g1.l40s.kube.x1"].gpus == 1
    assert settings.prices.sizes["g4g.kube.small"].usd_per_hour == Decimal("1.79")
    assert settings.prices.origins == ("our contract (2026-11-01)", "https://www.civo.com/pricing (2026-08-22)")


def test_a_price_file_may_name_sizes_that_we_do_not_know(tmp_path: Path) -> None:
    file = overlay(tmp_path, HEAD + "sizes: {an.g1.b200.kube.x8: {usd_per_hour: 35.92}}\n", "an.g1.b200.kube.x8")
    settings = load_file(file)
    assert settings.policy.pools[0].price_usd_per_hour == Decimal("35.92")
    assert settings.warnings == ()


def test_the_pools_own_price_goes_before_every_file(tmp_path: Path) -> None:
    file = overlay(tmp_path, HEAD + "sizes: {an.g1.l40s.kube.x1: {usd_per_hour: 0.99}}\n")
    file.write_text(file.read_text() + "    price_usd_per_hour: 0.95\n")
    assert load_file(file).policy.pools[0].price_usd_per_hour == Decimal("0.95")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("sizes: {}\nsource: x\n", "prices_file as_of: is missing; add the day the prices were read"),
        ("sizes: {}\nas_of: 2026-01-01\n", "prices_file source: is missing; add where the prices were read"),
        (HEAD, "prices_file sizes: is missing; add sizes with usd_per_hour each"),
        ("as_of: today\nsource: x\nsizes: {}\n", 'prices_file as_of: "today" is not a day; write it as 2026-08-22'),
        (
            HEAD + "sizes: {a.b: {}}\n",
            "prices_file sizes[a.b].usd_per_hour: is missing; add the price of one node-hour",
        ),
        (
            HEAD + "sizes: {a.b: {usd: 1}}\n",
            "prices_file sizes[a.b].usd: unknown key; use one of: usd_per_hour, kind, gpus",
        ),
        (HEAD + "sizes: {ab: 1}\n", "prices_file sizes.ab: must be a mapping"),
        (
            HEAD + "sizes: {ab: {usd_per_hour: 10453.60, gpus: 8}}\n",
            "prices_file sizes.ab.usd_per_hour: $10,453.60 per hour is more than $200.00 per GPU; write the price",
        ),
        (HEAD + "sizes: {ab: {usd_per_hour: 0.01}}\n", "prices_file sizes.ab.usd_per_hour: $0.01 per hour is less"),
        (
            HEAD + "sizes: {}\ncodes: {volume: {}}\n",
            "prices_file codes.volume: must have one price; give it usd_per_hour, or usd_per_gb_hour for a charge",
        ),
        (
            HEAD + "sizes: {}\ncodes: {volume: {usd_per_hour: 1, usd_per_gb_hour: 0.001}}\n",
            "prices_file codes.volume: must have one price; give it",
        ),
        (
            HEAD + "sizes: {}\ncodes: {volume: {usd_per_gb_hour: 0.11}}\n",
            "prices_file codes.volume.usd_per_gb_hour: $0.11 is more than $0.01; write the price of an hour",
        ),
        (
            HEAD + "sizes: {}\ncodes: {dbaas: {usd_per_hour: 2000}}\n",
            "prices_file codes.dbaas.usd_per_hour: $2,000.00 is more than $200.00; write the price of an hour",
        ),
        ("- x\n", "prices_file: the file is not a mapping"),
    ],
)
def test_a_price_file_that_cannot_be_used_says_where_and_what_helps(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_file(overlay(tmp_path, content))
    assert any(line.startswith(says) for line in str(refused.value).splitlines()), str(refused.value)


def test_a_price_at_the_edge_of_what_can_be_is_taken() -> None:
    _, mistakes = parse_prices(
        HEAD + "sizes: {a: {usd_per_hour: 200}, b: {usd_per_hour: 0.05}, c: {usd_per_hour: 1600, gpus: 8}}\n"
    )
    assert mistakes == []


def test_a_price_far_from_the_list_is_refused_for_every_size() -> None:
    def said(size: str, price: Decimal) -> str:
        pool = one_pool(f"price_usd_per_hour: {price}").replace("an.g1.l40s.kube.x1", size)
        try:
            load_text(pool.replace("nvidia.com/gpu: 1", f"nvidia.com/gpu: {shipped().sizes[size].gpus}"))
        except ConfigError as refused:
            return str(refused)
        return "taken"

    def is_refused(text: str) -> bool:
        one = text.startswith("pools[0].price_usd_per_hour: ") and "\n" not in text
        return one and any(words in text for words in ("list price", "per GPU", "less than 0.05"))

    in_cents, above, below = Decimal(100), Decimal("20.1"), Decimal("0.049")
    prices = [(size, offer.usd_per_hour) for size, offer in shipped().sizes.items()]
    told = [(size, listed * n, said(size, listed * n)) for size, listed in prices for n in (in_cents, above, below)]
    none_of(f"{size} at {price}: {text}" for size, price, text in told if not is_refused(text))


def test_a_price_in_cents_in_a_file_of_the_operators_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_file(overlay(tmp_path, HEAD + "sizes: {an.g1.l40s.kube.x1: {usd_per_hour: 129}}\n"))
    assert (
        str(refused.value)
        .splitlines()[-1]
        .startswith(
            "prices_file sizes[an.g1.l40s.kube.x1].usd_per_hour: $129.00 per hour is more than 20 times the list price"
        )
    )


@pytest.mark.parametrize(
    ("price", "says"),
    [
        ("25.80", "$25.80 per L40S and hour is unusual ($0.30 to $5.00)"),
        ("0.13", "$0.13 per L40S and hour is unusual ($0.30 to $5.00)"),
        ("0.0645", "$0.0645 per L40S and hour is unusual ($0.30 to $5.00)"),
    ],
)
def test_a_price_that_can_be_and_is_unusual_for_the_kind_is_warned_of(price: str, says: str) -> None:
    [warning] = [w for w in load_text(one_pool(f"price_usd_per_hour: {price}")).warnings if "unusual" in w]
    assert warning == (f"pools[0].price_usd_per_hour: {says}; is it per month, in cents or in another currency?")


def test_the_shipped_prices_of_other_charges_are_a_730th_of_the_month_that_civo_publishes() -> None:
    published = {"xsmall": "5.43", "small": "10.86", "medium": "21.73", "large": "43.45"}
    per_month = {f"kube-node-g4s.kube.{name}": Decimal(usd) for name, usd in published.items()}
    per_month |= {"loadbalancer": Decimal("10.86"), "volume": Decimal("0.11")}
    codes = shipped().codes
    assert set(codes) == set(per_month)
    for code, price in codes.items():
        usd = price.usd_per_hour if price.usd_per_hour is not None else price.usd_per_gb_hour
        assert round((usd or 0) * 730, 2) == per_month[code], code
    assert codes["volume"].usd_per_hour is None


def test_a_price_file_prices_charges_that_ship_without_one_and_nodes_by_their_size(tmp_path: Path) -> None:
    own = HEAD + "sizes: {g9.kube.big: {usd_per_hour: 2}}\n"
    own += "codes: {ip: {usd_per_hour: 0}, volume: {usd_per_gb_hour: 0.0001}}\n"
    prices = load_file(overlay(tmp_path, own)).policy.charge_prices
    assert prices["ip"] == ChargePrice(usd_per_hour=Decimal(0))
    assert prices["volume"] == ChargePrice(usd_per_gb_hour=Decimal("0.0001"))
    assert prices["kube-node-g9.kube.big"] == ChargePrice(usd_per_hour=Decimal(2))
    assert prices["loadbalancer"] == ChargePrice(usd_per_hour=Decimal("0.014881"))
