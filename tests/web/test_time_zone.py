"""People read times by the clocks of the budget's zone, programs in UTC."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from receiver.core.model.policy import Budget, Policy
from receiver.core.model.text import in_zone
from tests.cli.asked import ask, serving
from tests.web.builders import NOW, Bench, a_full_store, a_policy
from tests.web.seen import page, words

AT = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)  # half past midnight in Berlin


def in_berlin() -> Policy:
    return replace(a_policy(), budget=Budget(monthly_usd=Decimal(5000), timezone="Europe/Berlin"))


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("until 22:45:10 UTC: frozen", "until 00:45:10 CEST: frozen"),
        ("at 14:30 UTC", "at 2026-07-01 16:30 CEST"),  # of yesterday, by the clocks of Berlin
        ("since 2026-03-10 14:29:56 UTC (2 min)", "since 2026-03-10 15:29:56 CET (2 min)"),
        ("since 2026-06-30 23:10 UTC", "since 2026-07-01 01:10 CEST"),
        ("from 10:00 UTC to 2026-07-02 01:00 UTC", "from 2026-07-01 12:00 CEST to 2026-07-02 03:00 CEST"),
        ("Mon 9 Mar, 14:30 UTC", "Mon 9 Mar, 14:30 UTC"),  # its date stands in words before it
        ("nights: 22:00-24:00 Europe/London", "nights: 22:00-24:00 Europe/London"),
        ("a budget of UTC, 99:10 UTC", "a budget of UTC, 99:10 UTC"),
    ],
)
def test_times_of_a_sentence_are_those_of_the_zone(text: str, local: str) -> None:
    assert in_zone(text, "Europe/Berlin", AT) == local
    assert in_zone(text, "UTC", AT) == text


@pytest.mark.parametrize("path", ["/", "/pools/l40s", "/decisions/42", "/sources", "/costs"])
def test_a_page_shows_no_time_of_utc_where_the_budget_has_another_zone(path: str) -> None:
    html = page(path, policy=in_berlin())
    assert "Times are Europe/Berlin." in words(html)
    assert " UTC" not in html.replace("(UTC)", "")
    assert " CET" in html
    assert " CET" not in page(path)


def test_programs_read_utc_in_every_zone() -> None:
    client = Bench(store=a_full_store(), policy=in_berlin()).client()
    assert client.get("/api/v1/pools").text == Bench(store=a_full_store()).client().get("/api/v1/pools").text


def test_commands_print_the_zone_of_the_server() -> None:
    with serving(Bench(store=a_full_store(), policy=in_berlin()).parts()) as url:
        explained = ask(url, "explain", "pool", "l40s", at=NOW)
        status = ask(url, "status", at=NOW)
        document = ask(url, "explain", "pool", "l40s", "--json", at=NOW)
    assert "as of 15:29:56 CET" in explained.stdout
    assert "UTC" not in explained.stdout + status.stdout
    assert "CET" not in document.stdout
