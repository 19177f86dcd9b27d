"""Money and lengths of time for people in one form everywhere, and names of pools and nodes in place of their ids."""

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import receiver
from receiver.core.model.text import dollars, lasting, with_names

ANOTHER_FORMATTER = re.compile(r"USD \{|\} USD|\$\{[^}]*:|:,\.2f")


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        ("1234.5", "$1,234.50"),
        ("-5", "-$5.00"),
        ("0", "$0.00"),
        ("-0.00", "$0.00"),
        ("1E+3", "$1,000.00"),
        ("1.006", "$1.01"),
        ("12.345", "$12.35"),
        ("0.645", "$0.65"),
        ("0.125", "$0.13"),
        ("0.33333", "$0.33"),
        ("0.0625", "$0.0625"),
        ("0.0004", "$0.0004"),
        ("0.0000024", "$0.000002"),
        ("0.99999", "$1.00"),
        ("0.09999", "$0.10"),
        ("-1E-20", "$0.00"),
    ],
)
def test_an_amount_has_cents_and_below_a_dime_the_digits_that_matter(usd: str, text: str) -> None:
    assert dollars(Decimal(usd)) == text
    assert dollars(usd) == text


@given(st.decimals(-(10**12), 10**12, places=2))
def test_whole_cents_are_read_back_as_they_were(usd: Decimal) -> None:
    said = dollars(usd)
    assert re.fullmatch(r"-?\$\d{1,3}(,\d{3})*\.\d\d", said)
    assert Decimal(said.replace("$", "").replace(",", "")) == usd


@pytest.mark.parametrize("nothing", [None, "", "NaN", True, "many"])
def test_what_is_no_amount_is_unknown_and_never_zero(nothing: object) -> None:
    assert dollars(nothing) == "unknown"
    assert dollars(nothing, "-") == "-"


def test_no_other_code_writes_money() -> None:
    own, root = "core/model/text.py", Path(receiver.__path__[0])
    others = {path: ANOTHER_FORMATTER.findall(path.read_text()) for path in root.rglob("*.py")}
    assert {str(path) for path, found in others.items() if found and not str(path).endswith(own)} == set()


NAMES = {"l40s": "l40s-prod", "gpu": "pool-a", "pool-7f3e": "h100", "i-1": "node i-10", "i-10": "n10"}


@pytest.mark.parametrize(
    "text",
    [
        "nodes carry no nvidia.com/l40s.present",
        "it asks for 1 nvidia.com/gpu",
        "l40s-prod does not grow",
        "an.g1.l40s.kube.x1",
        "ml-l40s/train and train_l40s",
        "gpu=true:NoSchedule",
        "gpu-autoscaler.io/idle",
        "/guides/gpu.md",
        "",
    ],
)
def test_an_id_within_a_longer_word_stays(text: str) -> None:
    assert with_names(text, NAMES) == text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pool l40s: no stock", "pool l40s-prod: no stock"),
        ('the pool "pool-7f3e" is gone.', 'the pool "h100" is gone.'),
        ("l40s, pool-7f3e", "l40s-prod, h100"),
        ("it was l40s.", "it was l40s-prod."),
        ("(i-10)", "(n10)"),
        ("i-1", "node i-10"),
    ],
)
def test_a_whole_id_is_replaced_once(text: str, named: str) -> None:
    assert with_names(text, NAMES) == named


@pytest.mark.parametrize(("seconds", "words"), [(7200, "2h"), (5400, "1h30m"), (45, "45s"), (0, "0s")])
def test_a_length_of_time_is_written_as_prometheus_does(seconds: int, words: str) -> None:
    assert lasting(timedelta(seconds=seconds)) == words
