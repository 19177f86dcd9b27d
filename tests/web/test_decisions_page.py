"""GET /decisions: the newest first, by pool, result, rule and time, a page at a time."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from receiver.ports import DecisionFilter, DecisionKind, StoredDecision
from receiver.ports.store import EVERY_DECISION
from simulator.store import MemoryStore
from tests.web.builders import A100, L40S, NOW, Bench, a_decision
from tests.web.seen import Page, page, words
from tests.web.stores import a_store_with


def asked(query: str, path: str = "/decisions") -> DecisionFilter:
    """What the store is asked for by a query."""
    filters: list[DecisionFilter] = []

    class Noted(MemoryStore):
        def decisions(self, only: DecisionFilter = EVERY_DECISION, *, limit: int = 50) -> Sequence[StoredDecision]:
            filters.append(only)
            return super().decisions(only, limit=limit)

    assert Bench(store=Noted()).client().get(f"{path}?{query}").status_code == 200
    return filters[-1]


def many(count: int = 45) -> MemoryStore:
    return a_store_with(decisions=[a_decision(number, target=4 + number % 2) for number in range(1, count + 1)])


def listed(html: str) -> list[str]:
    """The numbers of the decisions on a page."""
    return [str(a["data-key"]) for tag, a in Page(html).elements if tag == "li" and "data-key" in a]


def links(html: str) -> list[str]:
    return [str(a.get("href")) for tag, a in Page(html).elements if tag == "a"]


def test_it_lists_the_newest_first_with_state_size_and_reason() -> None:
    text = words(page("/decisions"))
    assert text.index("l40s scaling 3 → 4 nodes 3 min ago 3 GPUs are waited for.") < text.index("a100 blocked by")


def test_every_page_leads_there() -> None:
    assert "/decisions" in links(page("/"))


QUERIES: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("pool=a100", {"pool": A100}),
    (f"pool={L40S}", {"pool": L40S}),
    ("kind=blocked", {"kind": DecisionKind.BLOCKED}),
    ("rule=within_budget", {"rule": "within_budget"}),
    ("last=24h", {"since": NOW - timedelta(days=1)}),
    ("from=2026-03-09T08:00", {"since": datetime(2026, 3, 9, 8, tzinfo=UTC)}),
    ("until=2026-03-09T08:00%2B02:00", {"until": datetime(2026, 3, 9, 6, tzinfo=UTC)}),
    ("last=1h&from=2026-03-09T08:00", {"since": NOW - timedelta(hours=1)}),
    ("before=42", {"before": 42}),
]


@pytest.mark.parametrize("path", ["/decisions", "/api/v1/decisions"])
@pytest.mark.parametrize(("query", "only"), QUERIES)
def test_the_page_and_the_api_read_a_query_alike(query: str, only: dict[str, Any], path: str) -> None:
    assert asked(query, path) == DecisionFilter(**only)


def test_the_fields_that_a_form_leaves_empty_filter_nothing() -> None:
    assert asked("pool=&kind=&rule=&last=&from=&until=") == DecisionFilter()


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        ("pool=h100", 404, "use one of: l40s, a100"),
        ("kind=hold", 400, "unknown kind"),
        ("rule=within_budgets", 400, "within_budget"),
        ("last=1y", 400, "unknown last"),
        ("from=yesterday", 400, "give one such as 2026-03-10T14:30"),
        ("until=0001-01-01T00:00%2B14:00", 400, "until is not a time"),
        ("before=x", 400, "before is not the number of a decision"),
    ],
)
def test_a_filter_that_is_not_valid_is_refused_with_a_remedy(query: str, code: int, says: str) -> None:
    assert says in page(f"/decisions?{query}", code=code)


def test_the_form_shows_what_was_asked_and_can_be_sent_without_scripts() -> None:
    html = page("/decisions?pool=a100&kind=blocked&last=7d")
    assert [a["value"] for tag, a in Page(html).elements if tag == "option" and "selected" in a] == [
        "a100",
        "blocked",
        "7d",
    ]
    assert ("form", {"class": "filters", "method": "get", "action": "/decisions"}) in Page(html).elements
    assert "<script" not in html


def test_a_page_leads_to_older_decisions_and_back_with_the_same_filter() -> None:
    first = page("/decisions?pool=l40s", many())
    assert listed(first) == [str(number) for number in range(45, 25, -1)]
    (older,) = [link for link in links(first) if "before=" in link]
    second = page(older, many())
    assert listed(second)[0] == "25"
    assert "/decisions?pool=l40s" in links(second)


def test_the_last_page_leads_to_none_older() -> None:
    html = page("/decisions?before=21", many())
    assert len(listed(html)) == 20
    assert [link for link in links(html) if "before=" in link] == []


def test_a_filter_that_nothing_matches_says_so() -> None:
    assert "No decision matches." in page("/decisions?kind=shrink", MemoryStore())
    assert "No decision is stored yet." in page("/decisions", MemoryStore())
