"""GET /decisions: the newest first, by pool, result, rule and time, a page at a time.

A decision's page: what, why, for whom and what would change it first; every rule and all that was known folded.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from receiver.core.explain.rules import RULES
from receiver.core.model.actions import Reason, Verdict, Victim
from receiver.ports import DecisionFilter, DecisionKind, StoredDecision
from receiver.ports.store import EVERY_DECISION
from simulator.store import MemoryStore
from tests.core.builders import ALL_GUARDRAILS
from tests.docs.pages import headings, section, text_of
from tests.web.builders import A100, L40S, NOW, Bench, a_decision, an_action
from tests.web.evidence import EVIDENCE
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


def test_the_list_of_decisions_has_the_newest_first_with_state_size_and_reason() -> None:
    text = words(page("/decisions"))
    assert text.index("l40s scaling 3 → 4 nodes 3 min ago 3 GPUs are waited for.") < text.index(
        "a100 blocked its price is unknown"
    )


def test_every_page_leads_to_the_list_of_decisions() -> None:
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
    assert asked(query, path) == DecisionFilter(**only)  # the page puts episodes together from all of them


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
    assert listed(first) == [str(number) for number in range(45, 30, -1)]
    (older,) = [link for link in links(first) if "before=" in link]
    second = page(older, many())
    assert listed(second)[0] == "30"
    assert "/decisions?pool=l40s&kind=news" in links(second)


def test_the_last_page_leads_to_none_older() -> None:
    html = page("/decisions?before=16", many())
    assert len(listed(html)) == 15
    assert [link for link in links(html) if "before=" in link] == []


def test_a_filter_that_nothing_matches_says_so() -> None:
    assert "No decision matches." in page("/decisions?kind=shrink", MemoryStore())
    assert "No change and no block is stored yet." in page("/decisions", MemoryStore())
    assert "No decision is stored yet." in page("/decisions?kind=", MemoryStore())


def test_what_is_steady_is_left_out_until_one_asks_for_every_decision() -> None:
    calm = a_decision(43, target=3, reasons=())
    store = a_store_with(decisions=[a_decision(42), calm])
    first = page("/decisions", store)
    assert listed(first) == ["42"]
    [every] = [a["href"] for tag, a in Page(first).elements if tag == "a" and a.get("href") == "/decisions?kind="]
    assert listed(page(every or "", store)) == ["43", "42"]


# --- the page of a decision


NODES = [
    {"name": "l40s-2", "stage": "usable", "gpu_pods": 0, "idle_since": "2026-03-10T14:00:00+00:00"},
    {"name": "l40s-1", "stage": "usable", "gpu_pods": 1, "idle_since": None},
]
HELD = (
    Reason(rule="demand", verdict=Verdict.WANTS, target=6, detail="3 GPUs wait"),
    Reason(rule="sources_answer", verdict=Verdict.ALLOWS, target=6, detail=""),
    Reason(rule="within_budget", verdict=Verdict.HOLDS, target=3, detail="cluster budget hold at 80%"),
    Reason(rule="not_frozen", verdict=Verdict.ALLOWS, target=3, detail=""),
)


def shown(docs_url: str | None = None, **changes: Any) -> str:
    """The page of a decision with evidence of every kind."""
    known = {**EVIDENCE, "nodes": NODES, "left_out": {"asking": 4, "nodes": 250}}
    decision = a_decision(**{"reasons": HELD, "target": 3, "evidence": known, **changes})
    store = a_store_with(
        decisions=[a_decision(40, target=9), decision, a_decision(43, target=8)], actions=[an_action()]
    )
    return page("/decisions/42", store, docs_url=docs_url)


def unfolded(html: str) -> str:
    """The words that are read before anything is unfolded."""
    return words(re.sub(r"(<details.*?</summary>).*?</details>", r"\1", html, flags=re.DOTALL))


def rules(html: str) -> dict[str, str]:
    """What each rule said, by its place in the order."""
    found = re.findall(r'<li value="(\d+)">(.*?)</li>', html, re.DOTALL)
    return {place: words(said).strip() for place, said in found}


def test_what_was_decided_why_for_whom_and_what_would_change_it_stand_first_in_this_order() -> None:
    text = unfolded(shown())
    stands = [
        "blocked the budget does not cover it , 3 nodes",
        "ml/train waits for 3 GPUs: 3 more nodes",
        "Made 3 min ago",
        "Requested by ml/train",
        "What would change this decision",
        "What followed",
        "Rules, in order",
        "What was known then",
    ]
    assert sorted(stands, key=text.index) == stands


def test_a_rule_that_spoke_says_what_it_left_and_means_in_its_place_in_the_order() -> None:
    said = rules(shown())
    assert said["1"].startswith("wants demand 3 GPUs wait (3 → 6 nodes)")
    assert said["3"] == (
        f"blocks within_budget cluster budget hold at 80% (6 → 3 nodes) {RULES['within_budget'].meaning}"
    )


def test_the_guardrails_that_passed_are_one_line_that_lists_them() -> None:
    assert "1 guardrail passed, 1 skipped" in unfolded(shown())
    assert "sources_answer" not in unfolded(shown()).partition("Rules, in order")[2]
    said = rules(shown())
    assert said["2"] == f"sources_answer passed {RULES['sources_answer'].meaning}"
    assert said["4"] == f"not_frozen skipped {RULES['not_frozen'].meaning}"


def test_a_decision_that_wanted_nothing_says_that_no_guardrail_had_a_change_to_judge() -> None:
    nothing = Reason(rule="nothing_wanted", verdict=Verdict.NOTES, target=3, detail="no pods waiting, no idle nodes")
    calm = Reason(rule="not_frozen", verdict=Verdict.ALLOWS, target=3)
    text = unfolded(shown(reasons=(nothing, calm)))
    assert "steady 3 nodes" in text
    assert "No change to check: 1 guardrail skipped" in text
    assert "passed" not in text


def test_evidence_is_folded_behind_lines_that_say_how_much_of_it_there_is() -> None:
    text = unfolded(shown())
    for line in ("Alerts that fired: 1", "Sources: dcgm silent", "Nodes: 2", "Everything that was stored, as JSON"):
        assert line in text
    assert "ab12" not in text


def test_an_id_gives_way_to_the_name_that_was_stored_with_it() -> None:
    nodes = [{**NODES[0], "instance": "9c1f-idle"}]
    failed = an_action(
        outcome=None, last_error=f"Civo could not resize pool {L40S}", victims=(Victim(instance="9c1f-idle", node=""),)
    )
    decision = a_decision(evidence={**EVIDENCE, "nodes": nodes}, candidates=("9c1f-idle", "77aa-unknown"))
    text = words(page("/decisions/42", a_store_with(decisions=[decision], actions=[failed])))
    assert "Civo could not resize pool l40s-before" in text
    assert "l40s-2 chosen" in text
    assert "soonest first: 2 l40s-2 unnamed (77aa-unk)" in text


def test_of_many_that_asked_three_stand_there_and_the_others_are_folded() -> None:
    asks = [{**EVIDENCE["workloads"][0], "workload": f"ml/train-{n}"} for n in range(5)]  # type: ignore[index]
    html = shown(evidence={**EVIDENCE, "workloads": asks})
    assert [n for n in range(5) if f"ml/train-{n}" in unfolded(html)] == [0, 1, 2]
    assert "And 2 more" in unfolded(html)
    assert "ml/train-4" in words(html)


def test_a_rule_leads_to_its_whole_explanation() -> None:
    links = [a["href"] for tag, a in Page(shown("https://docs.example.org/gpu")).elements if tag == "a"]
    assert "https://docs.example.org/gpu/guardrails.md#within_budget" in links
    assert "/docs/guardrails.md#within_budget" in [a["href"] for tag, a in Page(shown()).elements if tag == "a"]


def test_what_would_change_the_answer_stands_before_the_rules() -> None:
    text = words(shown())
    assert text.index("within_limits : a higher limit") < text.index("Rules, in order")


def test_who_asked_stands_there_with_owner_team_and_age_then() -> None:
    text = words(shown())
    assert "ml/train : 3 GPUs, Job/train, team vision, waiting since 2026-03-10 14:20:00 UTC 7 min before" in text
    assert "and 4 more that were not stored" in text


def test_an_alert_stands_there_with_fingerprint_and_delivery() -> None:
    assert "GpuPodsPending scale_up ab12 117 2026-03-10 14:22:00 UTC 5 min before" in words(shown())


def test_a_source_that_was_silent_stands_there_since_when_and_why() -> None:
    assert "dcgm silent: no series unknown 2026-03-10 14:10:00 UTC" in words(shown())


def test_nodes_stand_there_with_how_long_they_had_been_idle() -> None:
    text = words(shown())
    assert "l40s-2 usable 0 2026-03-10 14:00:00 UTC 27 min before" in text
    assert "l40s-1 usable 1 not idle" in text
    assert "and 250 more that were not stored" in text


def test_version_mode_name_and_price_are_those_of_then() -> None:
    text = words(shown())
    assert "version 0.0.9, mode act" in text
    assert "Decision 42: l40s-before" in text
    assert "an.g1.l40s.kube.x1, $1.29 an hour" in text


def test_the_decisions_before_and_after_are_linked() -> None:
    links = {a.get("rel"): a["href"] for tag, a in Page(shown()).elements if tag == "a"}
    assert (links["prev"], links["next"]) == ("/decisions/40", "/decisions/43")


def test_the_page_of_the_pool_as_it_is_now_is_linked_while_it_has_one() -> None:
    assert ("a", {"href": "/pools/l40s"}) in Page(shown()).elements
    assert "l40s now" not in shown(pool="left-the-configuration")


def test_a_decision_without_an_action_says_why() -> None:
    store = a_store_with(decisions=[a_decision(reasons=HELD, target=3)])
    assert "No action: the size stays the same" in words(page("/decisions/42", store))


def test_every_column_has_its_label_for_narrow_screens() -> None:
    cells = [a for tag, a in Page(shown()).elements if tag == "td"]
    assert cells
    assert all(a.get("data-label") for a in cells)


def test_every_guardrail_and_every_other_rule_has_a_meaning_and_nothing_else_has() -> None:
    others = headings(section(text_of("docs/guardrails.md"), "Other rules"), 3)
    assert set(RULES) == {guardrail.name for guardrail in ALL_GUARDRAILS} | set(others)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_meaning_is_one_sentence(rule: str) -> None:
    meaning = RULES[rule].meaning
    assert meaning.endswith(".")
    assert meaning.count(". ") == 0
    assert len(meaning) < 120


def test_a_rule_that_this_version_does_not_have_is_shown_without_a_meaning() -> None:
    gone = Reason(rule="of_long_ago", verdict=Verdict.HOLDS, target=3, detail="as it was said")
    assert rules(shown(reasons=(gone,))) == {"1": "blocks of_long_ago as it was said"}


def test_the_api_answers_the_neighbours_and_what_followed() -> None:
    store = a_store_with(
        decisions=[a_decision(40, target=9), a_decision(), a_decision(43, target=8)], actions=[an_action()]
    )
    document = Bench(store=store).client().get("/api/v1/decisions/42").get_json()
    assert (document["previous"], document["next"]) == (40, 43)
    assert [a["id"] for a in document["actions"]] == ["retire-l40s-2-8f3a"]
