"""The overview leads with what needs attention: what is wrong, what is done about it, what is waited for."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.core.explain.samples import PoolSample
from receiver.core.model.model import Rights, never_asked
from receiver.core.notices.links import Seal
from receiver.core.notices.sentences import Notice, Severity
from receiver.ports import Told
from receiver.reports.picture import RightsDocument
from tests.core.builders import NOW as THEN
from tests.core.builders import a_state, facts
from tests.web.builders import (
    A100,
    L40S,
    NOW,
    OPERATOR,
    Bench,
    a_full_store,
    a_picture,
    a_pool,
    a_team_budget,
    a_wait,
    ago,
)
from tests.web.fakes import FakeHealth, FakeStore
from tests.web.people import Person
from tests.web.seen import Page, page, words


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


def showing(*pools: dict[str, Any], **more: Any) -> FakeStore:
    quiet: dict[str, Any] = {"signals": [], "misfits": [], "waiting": [], "sources": [], "budget": None, "budgets": []}
    return FakeStore(picture=(a_picture(**{**quiet, "pools": list(pools) or [well()], **more}), NOW))


def concerns(store: FakeStore, **bench: Any) -> list[str]:
    """What needs attention, one text each, as the reader meets them."""
    html = page(store=store, **bench)
    return [
        words(part.partition("</li>")[0]).partition("> ")[2].strip() for part in html.split('<li class="concern')[1:]
    ]


def headline(store: FakeStore, **bench: Any) -> str:
    html = page(store=store, **bench)
    return words(html.partition('id="headline"')[2].partition(">")[2].partition("</p>")[0])


def test_when_all_is_well_it_says_so_and_lists_nothing() -> None:
    assert headline(showing()) == "All is well with 1 pool."
    assert concerns(showing()) == []


def test_the_headline_counts_what_is_wrong_and_what_to_look_at() -> None:
    stuck = well(awaited_since=ago(minutes=31))
    assert headline(showing(stuck)) == "1 thing is wrong."
    assert headline(showing({**stuck, "drifts": 2})) == "1 thing is wrong, 1 more to look at."
    assert headline(showing(well(drifts=2))) == "1 thing to look at."


def test_the_headline_is_the_only_thing_that_a_screen_reader_is_told_of_and_names_no_time() -> None:
    html = page()
    assert [a["id"] for _, a in Page(html).elements if a.get("role") == "status" or "aria-live" in a] == ["headline"]
    later = a_full_store()
    assert later.picture is not None
    later.picture = (later.picture[0], NOW - timedelta(seconds=40))
    assert headline(later) == headline(a_full_store())


def test_the_worst_comes_first() -> None:
    found = concerns(showing(well(drifts=1), sources=[silent("civo")]))
    assert [text.split()[0] for text in found] == ["Wrong", "Look"]


def silent(source: str, **more: Any) -> dict[str, Any]:
    return {"source": source, "up": False, "since": ago(minutes=6), "detail": "503", "configured": True, **more}


def test_a_silent_source_says_since_when_and_what_stops() -> None:
    (found,) = concerns(showing(sources=[silent("prometheus")]))
    assert "Prometheus has been silent for 6 min: 503." in found
    assert "Nothing grows and nothing is removed. Waits for its answer" in found


@pytest.mark.parametrize(
    ("rights", "told"),
    [
        (never_asked(THEN).answered(("patch nodes",), THEN), ["Kubernetes does not let us patch nodes. No pool grows"]),
        (never_asked(THEN), ["It is not known whether nodes may be removed: not answered yet. No pool grows"]),
        (never_asked(THEN - timedelta(hours=1)), ["not answered yet. Pools grow all the same"]),
        (never_asked(THEN).answered((), THEN), []),
        (None, []),
    ],
)
def test_rights_that_are_missing_are_named_with_what_stops(rights: Rights | None, told: list[str]) -> None:
    found = concerns(
        showing(rights=None if rights is None else RightsDocument.of_rights(rights, facts(a_state()).at).document())
    )
    assert len(found) == len(told)
    assert all(words in text for words, text in zip(told, found, strict=True))


def test_a_source_that_nobody_configured_is_no_concern() -> None:
    assert concerns(showing(sources=[silent("alertmanager", configured=False)])) == []


def test_the_budgets_that_hold_say_what_that_means() -> None:
    found = concerns(showing(budgets=[a_team_budget()]))
    assert "Budget of team research is at its hold line: $80.50 of $100.00 (80 %) spent." in found[0].replace(
        "\xa0", " "
    )
    assert "Nothing grows but for passing priority classes; running work goes on. Waits for the next month" in found[0]


def test_a_pool_out_of_stock_says_when_it_is_tried_again() -> None:
    wait = a_wait("grow", "backoff", ago(minutes=-7), "gpu_count_exceeded: no GPU of this kind is free", failures=3)
    (found,) = concerns(showing(well(waits=[wait])))
    assert "l40s cannot grow: Civo has no GPU of its kind free." in found
    assert "Other pools that fit are used meanwhile. Waits for the next try in 7 min." in found
    assert "docs/runbooks/GpuPoolOutOfStock.md" in found


def test_another_refusal_is_told_in_civos_words_but_not_at_any_length() -> None:
    (found,) = concerns(
        showing(well(waits=[a_wait("grow", "backoff", ago(minutes=-7), "database_error: " + "x" * 900)]))
    )
    assert "l40s cannot grow: database_error: xxx" in found
    assert len(found) < 400


def test_pools_with_the_same_trouble_share_one_entry() -> None:
    waits = [a_wait("grow", "backoff", ago(minutes=-m), "Civo is out of stock", failures=1) for m in (7, 9)]
    found = concerns(showing(well(waits=waits[:1]), well(pool=A100, name="a100", waits=waits[1:])))
    assert len(found) == 1
    assert "l40s , a100 cannot grow" in found[0]
    assert "next try" not in found[0]


def test_a_node_that_does_not_come_is_told_as_stuck() -> None:
    (found,) = concerns(showing(well(awaited_since=ago(minutes=31))))
    assert "l40s is stuck: a node that was asked for is not usable." in found
    assert "on its way for 31 min (usually 7 min)" in found
    assert concerns(showing(well(awaited_since=ago(minutes=4)))) == []


def test_a_pool_whose_nodes_never_become_usable_says_what_is_tried() -> None:
    until = (NOW + timedelta(minutes=9)).isoformat()
    provisioning = {"until": until, "reason": "l40s-3 boots", "failures": 2}
    wait = a_wait("grow", "provisioning", until, "l40s-3 boots", failures=2)
    (found,) = concerns(showing(well(provisioning=provisioning, waits=[wait])))
    assert "l40s had 2 nodes in a row that never became usable: l40s-3 boots." in found
    assert "One at a time is tried until one works. Waits for the next try in 9 min." in found
    (found,) = concerns(showing(well(provisioning=provisioning)))
    assert "Waits for the node on trial." in found


def test_waiting_work_that_a_rule_holds_says_why_and_what_to_do() -> None:
    held = well(pending_gpus=16, held_by=["cooled_down", "within_budget"], because="the budget: USD 80 of 100 spent")
    (found,) = concerns(showing(held))
    assert "l40s is held while GPUs are waited for: the budget does not cover it." in found
    assert "The budget: USD 80 of 100 spent." in found
    assert "To do: raise the budget (gpu-autoscaler budget set)" in found
    assert "Decision&nbsp;42" in found


def test_pools_that_one_rule_holds_share_an_entry_without_the_reasons_of_one_of_them() -> None:
    held = {"pending_gpus": 1, "held_by": ["within_budget"]}
    (found,) = concerns(showing(well(because="one", **held), well(pool=A100, name="a100", because="two", **held)))
    assert "l40s , a100 are held while GPUs are waited for" in found
    assert "One." not in found
    assert "Decision" not in found


@pytest.mark.parametrize("calm", [{"pending_gpus": 0}, {"held_by": ["cooled_down"]}, {"pending_gpus": None}])
def test_a_rule_that_keeps_nobody_waiting_or_ends_by_itself_is_no_concern(calm: dict[str, Any]) -> None:
    assert concerns(showing(well(**{"pending_gpus": 1, "held_by": ["within_budget"], **calm}))) == []


def a_question(**more: Any) -> dict[str, Any]:
    said = "people are asked until 14:45:00 UTC whether n1 may go; without an answer it goes"
    return {"id": "l40s-removal-0a", "state": "open", "said": said, "wanted": True, **more}


def test_an_open_question_says_until_when_what_comes_then_and_how_to_answer() -> None:
    (found,) = concerns(showing(well(questions=[a_question()], pending_gpus=1, held_by=["approved"])))
    assert "l40s waits for an answer: people are asked until 14:45:00 UTC whether n1 may go" in found
    assert "gpu-autoscaler answer l40s-removal-0a approve" in found


@pytest.mark.parametrize("over", [{"state": "answered"}, {"wanted": False}])
def test_a_question_that_nobody_needs_to_answer_is_no_concern(over: dict[str, Any]) -> None:
    assert concerns(showing(well(questions=[a_question(**over)]))) == []


def test_only_an_operator_gets_the_link_that_answers() -> None:
    bench = Bench(store=showing(well(questions=[a_question()])))
    person = Person.at(bench)
    assert "/answer/" not in person.get("/").text
    person.log_in()
    html = person.get("/").text
    link = next(str(a["href"]) for _, a in Page(html).elements if (a.get("href") or "").startswith("/answer/"))
    assert Seal(OPERATOR).read(link.removeprefix("/answer/")) == "l40s-removal-0a"


def test_who_paused_or_pinned_a_pool_is_noted_without_alarm() -> None:
    pin = {
        "id": "p",
        "kind": "pin",
        "nodes": 3,
        "who": "ada",
        "why": "demo",
        "until": ago(hours=-2),
        "every_pool": False,
    }
    found = concerns(showing(well(silenced_by="night shift until 18:00: rack", overrides=[pin])))
    assert [text.split()[0] for text in found] == ["Note", "Note"]
    assert "l40s is paused: night shift until 18:00: rack." in found[0]
    assert "l40s has a pin of 3 nodes by ada: demo. Waits for its end in 2 h." in found[1]


def test_an_alert_that_freezes_is_told() -> None:
    freeze = {"alertname": "GpuKubeStateMetricsDown", "action": "freeze", "pool": None, "starts_at": ago(minutes=1)}
    (found,) = concerns(showing(signals=[freeze]))
    assert "GpuKubeStateMetricsDown fires: nothing changes." in found


def test_messages_that_fail_to_get_out_are_told_and_those_on_their_way_are_not() -> None:
    store = showing()
    notice = Notice(topic="t", key="k", title="grew", body="", severity=Severity.INFO, cause="grew")
    store.kept_messages = [Told(id=1, notice=notice, at=NOW)]
    assert concerns(store) == []
    store.kept_messages = [Told(id=1, notice=notice, at=NOW, attempts=3, last_error="slack: 404")]
    (found,) = concerns(store)
    assert "1 message did not get out: slack: 404." in found


def test_a_loop_that_does_not_beat_is_the_first_concern() -> None:
    found = concerns(showing(well(drifts=1)), health=FakeHealth(beat_age=timedelta(minutes=5)))
    assert "The loop does not beat. Its last sign of life was 5 min ago" in found[0]


def test_many_concerns_leave_room_for_the_pools_and_can_be_unfolded() -> None:
    pools = [well(pool=f"p{n}", name=f"p{n}", drifts=n) for n in range(1, 12)]
    html = page(store=showing(*pools))
    assert html.partition('id="more-concerns"')[0].count('<li class="concern') == 4
    assert "And 7 more" in html


def test_what_is_wrong_is_never_folded_away_for_what_is_only_odd() -> None:
    stuck = [well(pool=p, name=p, awaited_since=ago(minutes=30)) for p in (L40S, A100)]
    html = page(store=showing(*stuck, sources=[silent(s) for s in ("civo", "kubernetes", "heartbeat", "prometheus")]))
    assert html.partition('id="more-concerns"')[0].count('<li class="concern bad') == 5  # the pools share one


def test_with_an_address_of_the_documents_concerns_link_there() -> None:
    html = page(store=showing(sources=[silent("civo")]), docs_url="https://docs.example")
    assert 'href="https://docs.example/runbooks/GpuAutoscalerSourceDown.md"' in html


def test_what_is_being_done_says_what_it_waits_for() -> None:
    text = words(page(store=showing(a_pool(waits=[]))))
    assert "Being done: l40s grows 3 → 4 nodes, waits for usable GPUs in about 3 min." in text
    assert "Being done: no pool is being changed." in words(page(store=showing()))


def test_utilization_is_drawn_and_what_nobody_measured_is_a_gap() -> None:
    blind = {"required": 1, "ready": 1, "building": 0, "busy": 1, "idle": 0, "unknown": 0, "pending_gpus": 0}
    store = showing()
    store.kept_samples = [
        PoolSample(pool=L40S, at=NOW - timedelta(minutes=m), utilization=None if 60 <= m < 90 else 0.5, **blind)
        for m in range(179, 0, -1)
    ]
    html = page(store=store)
    assert html.count('class="line"') == 2
    assert "Utilization of the last 3 h: 50\xa0% to 50\xa0%, last 50\xa0%; unknown for 30 min." in html


def test_each_pool_links_to_its_page() -> None:
    links = [a.get("href") for tag, a in Page(page()).elements if tag == "a"]
    assert f"/pools/{L40S}" in links


def test_many_misfits_are_cut_and_counted() -> None:
    misfits = [{"workload": f"ml/j{n}", "gpus": 1, "detail": "no"} for n in range(50)]
    html = page(store=showing(misfits=misfits))
    assert "And 30 more." in html
    assert "ml/j20" not in html


def test_a_page_with_20_pools_and_hundreds_of_waiting_pods_stays_small() -> None:
    pools = [well(pool=f"p{n}", name=f"p{n}") for n in range(20)]
    waiting = [{**a_picture()["waiting"][0], "name": f"job-{n}", "owner": ""} for n in range(500)]
    assert len(page(store=showing(*pools, waiting=waiting, waiting_total=900))) < 150_000
