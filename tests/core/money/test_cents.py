"""Cents that add up on every level."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.money.cost import CENT, amount, in_cents, level_by_level, to_cents

amounts = st.decimals("0", "50", places=6)
paths = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))
dealt = st.dictionaries(st.integers(0, 40), st.tuples(amounts, paths), max_size=25)


def total(cents: dict[int, Decimal]) -> Decimal:
    return sum(cents.values(), Decimal(0))


@given(dealt)
def test_every_level_adds_up_to_the_one_above(found: dict[int, tuple[Decimal, tuple[str, str]]]) -> None:
    exact = {name: usd for name, (usd, _) in found.items()}
    cents = level_by_level(exact, {name: path for name, (_, path) in found.items()})
    widest = to_cents({top: sum((u for u, p in found.values() if p[0] == top), Decimal(0)) for top in "abc"})
    assert total(cents) == in_cents(sum(exact.values(), Decimal(0)))
    for top, usd in widest.items():
        assert sum((cents[n] for n, (_, path) in found.items() if path[0] == top), Decimal(0)) == usd


def test_half_a_cent_goes_up_whatever_the_rest_of_a_division_says() -> None:
    minutes, hourly = 75, Decimal("0.0440")
    by_the_minute = sum((hourly / 60 for _ in range(minutes)), Decimal(0))
    at_once = hourly * minutes / 60
    assert by_the_minute != at_once, "the two ways agree: choose another price"
    assert in_cents(by_the_minute) == in_cents(at_once) == Decimal("0.06")


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12))
def test_an_amount_is_written_in_digits_alone_and_is_the_same_amount(usd: Decimal) -> None:
    text = amount(usd)
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text)
    assert Decimal(text) == usd


@pytest.mark.parametrize(
    ("usd", "text"), [("0E-29", "0.00"), ("1E+3", "1000"), ("1.5", "1.5"), ("1.2900", "1.29"), ("0.0001500", "0.00015")]
)
def test_an_amount_has_no_zeros_behind_its_cents(usd: str, text: str) -> None:
    assert amount(Decimal(usd)) == text


@given(dealt)
def test_no_amount_is_further_from_the_exact_one_than_a_cent(
    found: dict[int, tuple[Decimal, tuple[str, str]]],
) -> None:
    exact = {name: usd for name, (usd, _) in found.items()}
    cents = level_by_level(exact, {name: path for name, (_, path) in found.items()})
    assert all(abs(cents[name] - exact[name]) < CENT for name in exact)


@given(st.dictionaries(st.integers(0, 40), amounts, min_size=1, max_size=25), st.integers(-5, 5))
def test_a_total_that_was_rounded_elsewhere_is_met(exact: dict[int, Decimal], off: int) -> None:
    wanted = max(Decimal("0.00"), in_cents(sum(exact.values(), Decimal(0))) + off * CENT)
    found = to_cents(exact, wanted)
    assert total(found) == wanted
    assert all(usd >= 0 for usd in found.values())


def test_the_rest_of_a_division_is_never_a_cent_below_nothing() -> None:
    exact = {"a": Decimal("0.056"), "b": Decimal("-1E-12")}
    assert to_cents(exact) == {"a": Decimal("0.06"), "b": Decimal("0.00")}


def test_what_cost_nothing_gets_no_cent() -> None:
    assert to_cents({"a": Decimal(0), "b": Decimal("0.014"), "c": Decimal("0.001")}, Decimal("0.03")) == {
        "a": Decimal("0.00"),
        "b": Decimal("0.02"),
        "c": Decimal("0.01"),
    }
