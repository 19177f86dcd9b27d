"""The overview leads with what needs attention: what is wrong, what is done about it, what is waited for.

The sources' page: which source answers, what stops while one does not, and how the autoscaler itself does.
"""

from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from receiver.core.model.actions import Reason, Verdict
from receiver.core.model.model import Source
from receiver.core.model.policy import Fallback
from receiver.core.model.signals import HEARTBEAT_ALERT
from receiver.core.notices.concerns import NO_CHANGE, NO_REMOVAL, SOURCES, source_guide
from receiver.core.notices.notice import Notice, Severity
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.guardrails.limits import sources_answer
from receiver.ports import StoredNotice
from receiver.reports.state import WatchState
from receiver.web.pages.overview import WATCHES
from simulator.store import MemoryStore
from tests.core import builders as core
from tests.metrics.counted import a_message, hear
from tests.web.builders import (
    A100,
    L40S,
    NOW,
    a_concern,
    a_decision,
    a_full_store,
    a_node,
    a_picture,
    a_policy,
    a_pool,
    a_wait,
    a_waiting_pod,
    ago,
    an_observed,
    showing,
)
from tests.web.fakes import FakeHealth
from tests.web.seen import Page, page, words
from tests.web.stores import a_store_with, add_messages


def well(**pool: Any) -> dict[str, Any]:
    """A pool of which there is nothing to say, but for *pool*."""
    calm: dict[str, Any] = {
        "waits": [],
        "open_action": None,
        "pending_gpus": 0,
        "verdict": "hold",
        "held_by": [],
        "awaited_since": None,
    }
    return a_pool(**{**calm, **pool})


def showing_pools(*pools: dict[str, Any], **more: Any) -> MemoryStore:
    quiet: dict[str, Any] = {"signals": [], "misfits": [], "waiting": [], "sources": [], "budget": None, "budgets": []}
    quiet["concerns"] = []
    return a_store_with(picture=(a_picture(**{**quiet, "pools": list(pools) or [well()], **more}), NOW))


def concerned(*found: dict[str, Any]) -> MemoryStore:
    """A store whose last step published these concerns."""
    return showing_pools(well(), well(pool=A100, name="a100"), concerns=list(found))


def concerns(store: MemoryStore, **bench: Any) -> list[str]:
    """What needs attention, one text each, as the reader meets them."""
    html = page(store=store, **bench)
    return [
        words(part.partition("</li>")[0]).partition("> ")[2].strip() for part in html.split('<li class="concern')[1:]
    ]


def headline(store: MemoryStore, **bench: Any) -> str:
    html = page(store=store, **bench)
    return words(html.partition('id="headline"')[2].partition(">")[2].partition("</p>")[0])


def test_when_all_is_well_it_says_so_and_lists_nothing() -> None:
    assert headline(showing_pools()) == "No problems in 1 pool."
    assert concerns(showing_pools()) == []


def test_the_headline_counts_what_is_wrong_and_what_to_look_at() -> None:
    wrong, odd = a_concern("bad", what="is stuck"), a_concern()
    assert headline(concerned(wrong)) == "1 problem."
    assert headline(concerned(wrong, odd)) == "1 problem, 1 warning."
    assert headline(concerned(odd)) == "1 warning."


def test_the_headline_is_the_only_thing_that_a_screen_reader_is_told_of_and_names_no_time() -> None:
    html = page()
    assert [a["id"] for _, a in Page(html).elements if a.get("role") == "status" or "aria-live" in a] == ["headline"]
    later = a_full_store(picture=(a_picture(), NOW - timedelta(seconds=40)))
    assert headline(later) == headline(a_full_store())


def tiles(store: MemoryStore) -> dict[str, tuple[str, ...]]:
    """The figure of each tile by its name, and the note below it where there is one."""
    html = page(store=store).partition('id="tiles"')[2].partition(">")[2].partition("</dl>")[0]
    parts = [[unescape(words(part)).strip() for part in tile.split("<dd")] for tile in html.split("<dt")[1:]]
    return {name.partition(">")[2]: tuple(part.partition(">")[2].strip() for part in rest) for name, *rest in parts}


def test_four_tiles_say_what_is_busy_who_waits_what_it_costs_and_how_the_month_stands() -> None:
    pods = [a_waiting_pod(gpus=2), a_waiting_pod("train-llm-3", gpus=4, since=ago(minutes=9))]
    more = {"waiting": pods, "waiting_total": 2, "budget": a_picture()["budget"]}
    assert tiles(showing_pools(well(pending_gpus=6), **more)) == {
        "GPUs busy": ("1.5 of 4", "2.5 paid for, not busy"),
        "GPUs pending": ("6", "longest 9 min"),
        "Cost per hour": ("$5.16", "for 4 GPUs"),
        "Month's budget": ("62% warn", "$3,120.44 of $5,000.00; forecast $6,100.50"),
    }


def test_the_tiles_of_a_quiet_cluster_without_a_budget_say_that_nothing_waits() -> None:
    idle = well(required=0, ready=0, busy=0, idle=0, building=0, held_gpus=0)
    assert tiles(showing_pools(idle, waiting_total=0)) == {
        "GPUs busy": ("0 of 0", "no GPU is paid for"),
        "GPUs pending": ("0", "no pods waiting"),
        "Cost per hour": ("$0.00",),
        "Month's budget": ("none",),
    }


def test_a_tile_shows_no_number_that_is_not_known() -> None:
    assert tiles(MemoryStore()) == {
        "GPUs busy": ("? of ?",),
        "GPUs pending": ("?",),
        "Cost per hour": ("unknown",),
        "Month's budget": ("unknown",),
    }
    assert tiles(showing_pools(well(price_usd_per_hour=None)))["Cost per hour"] == ("unknown", "a price is missing")


def test_a_tile_says_so_when_all_gpus_that_are_paid_for_are_busy() -> None:
    assert tiles(showing_pools(well(required=2, busy=2, held_gpus=2)))["GPUs busy"] == ("2 of 2", "all paid GPUs")


def test_gpus_that_are_pending_in_no_pool_are_told_beside_those_of_the_table() -> None:
    pods = [a_waiting_pod(gpus=18), a_waiting_pod("big", gpus=16)]
    shown = tiles(showing_pools(well(pending_gpus=18), waiting=pods, waiting_total=2))
    figure, note = shown["GPUs pending"]
    assert (figure, note.partition(",")[0]) == ("34", "16 of them in no pool")


def test_the_first_concerns_show_what_to_do_and_the_others_their_first_line() -> None:
    html = page(store=concerned(*(a_concern("bad", what=f"is stuck {n} times") for n in range(5))))
    assert [a for tag, a in Page(html.partition('id="more-concerns"')[0]).elements if tag == "details"][:5] == [
        {"open": None},
        {"open": None},
        {},
        {},
        {},
    ]


def test_of_more_pods_than_are_kept_the_tile_counts_pods() -> None:
    assert tiles(showing_pools(waiting=[a_waiting_pod()], waiting_total=812))["Pods waiting"] == (
        "812",
        "longest 4 min",
    )


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("held", "blocked"),
        ("buying", "node requested"),
        ("on_its_way", "node on its way"),
        ("gang_incomplete", "gang incomplete"),
        ("a_newer_one", "a newer one"),
    ],
)
def test_the_pill_of_a_waiting_pod_is_in_words(state: str, said: str) -> None:
    html = page(store=showing_pools(waiting=[a_waiting_pod(state=state)], waiting_total=1))
    assert f'<span class="chip {state}">{said}</span>' in html


def test_a_backoff_that_has_ended_since_the_last_step_is_not_shown() -> None:
    over, lasting = (a_wait("grow", "backoff", ago(seconds=s), "no stock", failures=1) for s in (1, -61))

    assert "No growth" not in words(page(store=showing_pools(pools=[a_pool(waits=[over])])))
    assert "No growth: backoff, ends in 1 min After 1 failure: no stock" in words(
        page(store=showing_pools(pools=[a_pool(waits=[lasting])]))
    )


def test_a_backoff_whose_end_is_unknown_is_shown() -> None:
    endless = {**a_wait("grow", "backoff", ago(minutes=1), "no stock"), "until": None}

    assert "No growth: backoff, ends unknown no stock" in words(
        page(store=showing_pools(pools=[a_pool(waits=[endless])]))
    )


@pytest.mark.parametrize("path", ["/", "/pools/a100", "/decisions", "/decisions/42", "/sources", "/costs"])
def test_no_page_shows_an_id_where_a_name_is_known(path: str) -> None:
    rejected = f"Civo rejected the request for pool {L40S}"
    concern = a_concern(what=rejected, why=rejected, doing=rejected, pool=A100)
    waits = [a_wait("grow", "backoff", ago(minutes=-7), rejected)]
    pools = [a_pool(because=rejected), a_pool(pool=A100, name="a100", because=rejected, waits=waits)]
    pod = a_waiting_pod(detail=rejected)
    picture = a_picture(pools=pools, concerns=[concern], waiting=[pod], waiting_total=1)
    reason = Reason(rule="demand", verdict=Verdict.WANTS, target=4, detail=rejected)
    store = a_full_store(picture=(picture, NOW), decisions=[a_decision(reasons=(reason,))])
    html = page(path, store).partition("Id at Civo, for its API")[0]  # which is there to be pasted
    assert L40S not in html.replace(f'"/api/v1/decisions?pool={L40S}', "")


def test_the_worst_comes_first() -> None:
    found = concerns(concerned(a_concern(), a_concern("note", what="is paused"), a_concern("bad", what="is stuck")))
    assert [text.split()[0] for text in found] == ["Problem", "Warning", "Note"]


def test_what_is_wrong_in_one_pool_is_not_hidden_behind_the_same_in_another_where_no_work_waits() -> None:
    shared = {"kind": "out_of_stock", "what": "cannot grow: Civo has no GPU of its kind free"}
    store = concerned(a_concern(**shared), a_concern("bad", pool=A100, **shared))
    assert headline(store) == "1 problem, 1 warning."
    assert [text.split(" cannot")[0] for text in concerns(store)] == ["Problem : a100", "Warning : l40s"]


def test_each_request_for_an_approval_stands_alone_with_its_own_answer() -> None:
    asked = [a_concern(kind="question", what="waits for an approval", question=f"q{n}", todo=f"q{n}") for n in (1, 2)]
    found = concerns(concerned(*asked))
    assert ["l40s waits for an approval" in text for text in found] == [True, True]
    assert [f"q{n}" in text for n, text in enumerate(found, 1)] == [True, True]


def test_a_concern_says_how_long_why_what_happens_and_what_to_do() -> None:
    (found,) = concerns(
        concerned(
            a_concern(
                what="does not grow",
                since=ago(minutes=6),
                why="the budget: $80.00 of $100.00 spent",
                doing="it waits",
                todo="raise the budget",
                guide="runbooks/GpuBudgetHold.md",
                decision=42,
            )
        )
    )
    assert "l40s does not grow." in found
    assert "For 6 min. The budget: $80.00 of $100.00 spent. It waits." in found
    assert "To do: raise the budget." in found
    assert "Decision&nbsp;42" in found
    assert found.endswith("What to do Pool l40s")


def test_what_another_system_wrote_is_not_shown_at_any_length() -> None:
    (found,) = concerns(concerned(a_concern(why="database_error: " + "x" * 900)))
    assert "Database_error: xxx" in found or "database_error: xxx" in found
    assert len(found) < 500


def test_a_picture_of_an_older_version_or_with_an_unknown_level_is_shown_all_the_same() -> None:
    assert concerns(showing_pools(well())) == []
    (found,) = concerns(concerned(a_concern("terrible")))
    assert found.startswith("Warning")


def test_pools_with_the_same_trouble_share_one_entry_without_the_reasons_of_one_of_them() -> None:
    one, two = (
        a_concern(what="has no stock", why="one", decision=1),
        a_concern(pool=A100, what="has no stock", why="two"),
    )
    (found,) = concerns(concerned(one, two))
    assert "have no stock. The pages of the pools say for which work, and what to do. Pool l40s Pool a100" in found
    assert L40S not in found
    assert "Decision" not in found


@pytest.mark.parametrize(
    "one, several",
    [
        ("does not grow: it is at its maximum", "do not grow: they are at their maximum"),
        ("grows only to 3 nodes: it waits for an approval", "grow only to 3 nodes: they wait for an approval"),
        ("does not grow: its price is unknown", "do not grow: their price is unknown"),
        ("is paused by a silence", "are paused by a silence"),
        ("cannot grow: Civo has no GPU of its kind free", "cannot grow: Civo has no GPU of their kind free"),
    ],
)
def test_several_pools_are_spoken_of_in_the_plural(one: str, several: str) -> None:
    (found,) = concerns(concerned(a_concern(what=one), a_concern(pool=A100, what=one)))
    assert f"l40s, a100 {several}." in found


def test_messages_that_fail_to_get_out_are_told_and_those_on_their_way_are_not() -> None:
    store = showing_pools()
    notice = Notice(topic="t", key="k", title="grew", body="", severity=Severity.INFO, cause="grew")
    add_messages(store, StoredNotice(id=1, notice=notice, at=NOW))
    assert concerns(store) == []
    for _ in range(3):
        store.notice_failed(1, NOW, NOW, "slack: 404")
    (found,) = concerns(store)
    assert "1 message could not be delivered: slack: 404." in found


def test_a_loop_that_does_not_beat_is_the_first_concern() -> None:
    found = concerns(concerned(a_concern()), health=FakeHealth(beat_age=timedelta(minutes=5)))
    assert "The loop is not running. It last made progress 5 min ago" in found[0]


def test_many_concerns_leave_room_for_the_pools_and_can_be_unfolded() -> None:
    html = page(store=concerned(*(a_concern(what=f"has changed {n} times") for n in range(1, 12))))
    assert html.partition('id="more-concerns"')[0].count('<li class="concern') == 4
    assert "And 7 more" in html


def test_what_is_wrong_is_never_folded_away_for_what_is_only_odd() -> None:
    wrong = [a_concern("bad", what=f"is stuck {n} times") for n in range(5)]
    html = page(store=concerned(*wrong, a_concern()))
    assert html.partition('id="more-concerns"')[0].count('<li class="concern bad') == 5


def test_a_concern_links_to_its_guide_here_or_where_the_documents_are() -> None:
    store = concerned(a_concern(guide="runbooks/GpuAutoscalerSourceDown.md"))
    assert 'href="/docs/runbooks/GpuAutoscalerSourceDown.md"' in page(store=store)
    html = page(store=store, docs_url="https://docs.example")
    assert 'href="https://docs.example/runbooks/GpuAutoscalerSourceDown.md"' in html


def test_what_is_being_done_says_what_it_waits_for() -> None:
    text = words(page(store=showing_pools(a_pool(waits=[]))))
    assert "In progress: l40s : 1 node is being built at Civo, usable in about 3 min." in text
    calm = a_pool(open_action=None, building=0, awaited_since=None)
    assert "In progress: no pool is being changed." in words(page(store=showing_pools(calm)))


def test_a_node_on_its_way_that_no_open_change_asks_for_is_in_progress_too() -> None:
    nodes = [a_node(f"n{n}", stage="installing") for n in range(2)]
    text = words(page(store=showing_pools(a_pool(open_action=None, building=2, nodes=nodes))))
    assert "In progress: l40s : 2 nodes install their GPU drivers, usable in about 3 min." in text


def test_nodes_that_civo_does_not_list_yet_are_requested() -> None:
    text = words(page(store=showing_pools(a_pool(nodes=[], awaited_since=None))))
    assert "In progress: l40s : grow 3 → 4 nodes, requested at Civo." in text
    text = words(page(store=showing_pools(a_pool(nodes=[], awaited_since=None, open_action=None))))
    assert "In progress: l40s : 1 node requested at Civo." in text


def test_a_pool_that_wants_more_than_it_may_have_says_both_numbers() -> None:
    text = words(page(store=showing_pools(well(ready=1, required=1, wanted=9, max_nodes=3))))
    assert "; wants 9, at most 3" in text
    empty = words(page(store=showing_pools(well(ready=0, busy=0, idle=0, building=0, required=0, wanted=1))))
    assert " 0 ready wants 1 " in empty


def test_a_pool_has_one_of_three_states_and_a_blocked_one_says_what_blocks_it() -> None:
    blocking = [{"rule": "within_budget", "verdict": "holds", "target": 3, "detail": ""}]
    wanting = [{"rule": "demand", "verdict": "wants", "target": 5, "detail": ""}]
    still = {"building": 0, "because": "why."}
    for changes, state in (
        ({}, "steady"),
        ({"reasons": blocking}, "blocked the budget does not cover it"),
        ({"building": 1}, "scaling"),
        ({"mode": "observe"}, "steady"),
        ({"mode": "observe", "reasons": blocking}, "would be blocked the budget does not cover it"),
        ({"mode": "observe", "verdict": "grow", "required": 4, "reasons": wanting}, "would scale 4 → 5"),
    ):
        assert f" {state} 3 ready " in words(page(store=showing_pools(well(**{**still, **changes}))))


def test_a_decision_in_the_list_has_the_state_that_follows_from_it() -> None:
    decisions = words(page().partition('class="decisions"')[2])
    assert "a100 blocked its price is unknown , 1 node" in decisions
    assert "l40s scaling 3 → 4 nodes" in decisions


def test_each_pool_links_to_its_page() -> None:
    links = [a.get("href") for tag, a in Page(page()).elements if tag == "a"]
    assert "/pools/l40s" in links


def test_many_misfits_are_cut_and_counted() -> None:
    misfits = [{"workload": f"ml/j{n}", "gpus": 1, "detail": "no"} for n in range(50)]
    html = page(store=showing_pools(misfits=misfits))
    assert "And 30 more." in html
    assert "ml/j20" not in html


def test_a_page_with_20_pools_and_hundreds_of_waiting_pods_stays_small() -> None:
    pools = [well(pool=f"p{n}", name=f"p{n}") for n in range(20)]
    waiting = [{**a_picture()["waiting"][0], "name": f"job-{n}", "owner": ""} for n in range(500)]
    assert len(page(store=showing_pools(*pools, waiting=waiting, waiting_total=900))) < 150_000


def test_observe_mode_shows_what_act_mode_would_have_cost_with_its_margin() -> None:
    text = words(page(store=showing_pools(mode="observe", observed=an_observed())))
    assert "Act mode would save $225.10 ± $31.05 since Sat 7 Mar; $1,065.00 less than always-on" in text
    assert "Act mode $1,035.00 ± $31.05 5 min 12 added, 9 removed" in text
    assert "As the pools ran $1,260.10 2 h as they were" in text
    assert "Always-on $2,100.00 0 s 6 l40s, 2 a100" in text
    assert "4 pods never ran: counted as long as others run on average." in text


def test_observe_mode_lists_what_it_would_have_done() -> None:
    text = words(page(store=showing_pools(mode="observe", observed=an_observed())))
    assert "What it would have done: 21 changes l40s 3 → 2 nodes 1 h ago l40s 1 → 3 nodes for ml/train-llm" in text


def test_what_act_mode_would_have_cost_more_is_no_saving() -> None:
    text = words(page(store=showing_pools(mode="observe", observed=an_observed(as_run_usd="1000.00"))))
    assert "Act mode would add $35.00" in text


def test_why_nothing_was_replayed_is_said() -> None:
    shown = an_observed(would_usd=None, margin_usd=None, problem="Prometheus does not answer")
    text = words(page(store=showing_pools(mode="observe", observed=shown)))
    assert "No pods have been replayed yet. Not replayed 20 min ago : Prometheus does not answer" in text
    assert "Act mode would" not in text


# --- the page of sources


def stands_still(source: Source, target: int, fallback: Fallback) -> bool:
    """True when the guardrail lets no change to *target* (of one node) through while *source* alone is silent."""
    policy = core.a_policy(fallback=fallback)
    facts = core.facts(core.a_state(core.a_node()))
    silent = replace(facts.sources[source], up=False)
    facts = replace(facts, sources={**facts.sources, source: silent})
    wanted = assign(facts, policy).pools["l40s-id"]
    case = case_of(facts.pools[0], wanted, facts, policy)
    return sources_answer(target, case) is not None


@pytest.mark.parametrize("fallback", list(Fallback))
@pytest.mark.parametrize("source", list(Source))
def test_what_the_page_says_that_stops_is_what_the_guardrail_stops(source: Source, fallback: Fallback) -> None:
    found = source_guide(source, replace(a_policy(), fallback=fallback))
    needed = (found.stops == NO_CHANGE, found.stops in (NO_CHANGE, NO_REMOVAL))
    assert needed == (
        stands_still(source, 2, fallback),
        stands_still(source, 0, fallback),
    )


def test_every_source_has_a_line() -> None:
    assert set(SOURCES) == set(Source)


def test_a_silent_source_comes_first_with_since_when_what_stops_and_what_to_do() -> None:
    sources = a_picture()["sources"]
    sources[3]["since"] = ago(minutes=6)
    html = page("/sources", showing(sources=sources))
    text = words(html)
    assert "reports whether GPUs are in use silent 6 min ago before 6 min ago no series for l40s" in text
    assert "Pods alone decide whether a node is busy or idle." in text
    assert 'href="/docs/runbooks/GpuTelemetryMissing.md"' in html
    assert text.index("DCGM (GPU telemetry) reports") < text.index("Civo reports")


def test_the_headline_names_who_is_silent() -> None:
    assert "Silent: DCGM (GPU telemetry)." in page("/sources")
    up = [{**s, "up": True} for s in a_picture()["sources"]]
    assert "Every configured source answers." in page("/sources", showing(sources=up))


def test_what_nobody_configured_is_not_called_silent() -> None:
    text = words(page("/sources"))
    assert "Alertmanager reports which alerts fire, and which pools are silenced not configured – –" in text
    assert "Optional; without it, silences are not seen." in text


def test_the_loop_and_who_leads_are_told() -> None:
    assert "leading: this process runs the steps and writes" in page("/sources")
    assert "Leader gpu-autoscaler-0-1-c0ffee term 4" in words(page("/sources"))
    assert "Leader unknown" in words(page("/sources", health=FakeHealth(leader=None)))
    assert "another process leads" in page("/sources", health=FakeHealth(state="waiting"))
    assert "stalled" in page("/sources", health=FakeHealth(beat_age=timedelta(minutes=5)))


@pytest.mark.parametrize("state", list(WatchState))
def test_how_the_watch_of_pods_stands_is_told(state: WatchState) -> None:
    assert f"Pod watch {WATCHES[state]}" in words(page("/sources", watch=state.value))


def test_deliveries_heartbeat_and_messages_are_told() -> None:
    store = a_full_store()
    hear(store, NOW - timedelta(seconds=50), "heartbeat", alertname=HEARTBEAT_ALERT)
    hear(store, NOW - timedelta(minutes=3), "scale_up")
    oldest = a_message("oldest", timedelta(hours=1))
    add_messages(store, replace(oldest, attempts=4, last_error="slack: 404"))
    add_messages(store, *(a_message(f"waits {n}", timedelta(minutes=9)) for n in range(30)))
    add_messages(store, *(a_message(f"sent {n}", timedelta(minutes=9), NOW) for n in range(12)))
    given_up = replace(a_message("", timedelta(minutes=9)), attempts=1, given_up_at=NOW)
    add_messages(store, *(replace(given_up, notice=replace(given_up.notice, topic=t)) for t in ("lost", "too")))
    text = words(page("/sources", store))
    assert "Last delivery from Alertmanager 3 min ago 2 in total Last heartbeat 50 s ago" in text
    assert "31 on the way, 12 delivered, 2 given up; the oldest has waited since 1 h ago" in text
    assert "l40s grew 1 h ago 4 slack: 404" in text
    assert "And 11 more." in text


def test_where_messages_go_and_how_well_is_told() -> None:
    assert "They go to the log only: no destination is set" in page("/sources")
    store = a_full_store()
    for outcome in ("delivered",) * 7 + ("failed",) * 2:
        store.tell({}, "a-digest", ("slack 1a2b", outcome))
    text = words(page("/sources", store, messages_to=("slack 1a2b", "telegram 3c")))
    assert "They go to slack 1a2b (7 delivered, 2 attempts failed )" in text
    assert "telegram 3c (0 delivered, 0 attempts failed )" in text


def test_the_page_of_sources_renders_before_the_first_step_and_with_an_empty_store() -> None:
    assert "Unknown until the first step has finished." in page("/sources", MemoryStore())
