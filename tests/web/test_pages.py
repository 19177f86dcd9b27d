"""The pages: they render whatever the store holds and say what is not known."""

import json
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from receiver.core.model.policy import Policy
from receiver.ports import TryLater
from simulator.store import MemoryStore
from tests.web.builders import L40S, NOW, Bench, a_full_store, a_misfit_pod, a_picture, a_pool, a_waiting_pod
from tests.web.fakes import FakeHealth
from tests.web.seen import Page, page, words
from tests.web.stores import a_store_with


def showing(**more: Any) -> MemoryStore:
    """Return a store whose picture differs from the full one in *more*."""
    return a_store_with(picture=(a_picture(**more), NOW - timedelta(seconds=4)))


def test_the_status_page_shows_each_pool_with_its_numbers_and_the_reason() -> None:
    row = words(page().partition("<tbody>")[2].partition("</tr>")[0])
    assert "l40s an.g1.l40s.kube.x1 · $1.29/h · 0–8 nodes scaling 3 ready 2 busy, 1 idle, 1 on the way 1 81%" in row
    assert "1 GPU is waited for and 1 node is on its way." in row


def test_the_status_page_renders_before_the_first_step() -> None:
    text = words(page(store=MemoryStore()))
    assert "No step has finished yet. Nothing is known about the 2 configured pools" in text
    assert "an.g1.l40s.kube.x1, 0–8 nodes" in text


def test_the_status_page_renders_without_any_pool() -> None:
    assert "No pool is configured." in page(store=MemoryStore(), policy=Policy(pools=()))


@pytest.mark.parametrize(
    "missing",
    ["at", "mode", "pools", "budget", "sources", "signals", "misfits", "waiting", "waiting_total", "charges", "rights"],
)
def test_the_status_page_renders_when_the_picture_lacks_a_part(missing: str) -> None:
    picture = {k: v for k, v in a_picture().items() if k != missing}
    assert "Latest decisions" in page(store=a_store_with(picture=(picture, NOW)))


@pytest.mark.parametrize("missing", a_pool().keys())
def test_the_status_page_renders_when_a_pool_lacks_a_field(missing: str) -> None:
    pool = {k: v for k, v in a_pool().items() if k != missing}
    assert "Latest decisions" in page(store=showing(pools=[pool]))


def test_a_picture_of_empty_parts_renders() -> None:
    picture: dict[str, Any] = {
        "pools": [{}],
        "budget": {},
        "charges": {},
        "rights": {},
        "sources": [{}],
        "signals": [{}],
        "misfits": [{}],
        "waiting": [{}],
    }
    assert "Latest decisions" in page(store=a_store_with(picture=(picture, NOW)))


def test_a_count_nobody_knows_is_a_question_mark() -> None:
    html = page(store=showing(pools=[a_pool(ready=None)]))
    assert "<strong>?</strong> ready" in html


def test_a_pool_without_a_price_says_so() -> None:
    assert "price unknown" in page(store=showing(pools=[a_pool(price_usd_per_hour=None)]))


def test_a_price_of_zero_is_a_price() -> None:
    text = words(page(store=showing(pools=[a_pool(price_usd_per_hour="0")])))
    assert "$0.00/h" in text
    assert "price unknown" not in text


def test_observe_mode_is_marked_on_every_page() -> None:
    store = a_full_store()
    store.keep_snapshot(a_picture(mode="observe"), NOW)
    for path in ("/", "/decisions/42"):
        assert "Observe mode." in page(path, store, mode="observe")


def test_the_observe_banner_says_what_act_mode_would_do_first() -> None:
    acts = ["request 2 nodes in l40s (1 -> 3)", "", "cordon a100-2 and remove it at 14:20:00 UTC"]
    said = words(page(store=showing(pools=[a_pool(mode="observe", would=act) for act in acts], mode="observe")))
    assert "it would request 2 nodes in l40s (1 → 3); cordon a100-2 and remove it at 14:20:00 UTC." in said
    said = words(page(store=showing(pools=[a_pool(mode="observe", would="")], mode="observe")))
    assert "With mode: act it would change nothing now." in said


def test_act_mode_shows_no_observe_banner() -> None:
    assert "Observe mode" not in page()


def test_an_old_picture_is_called_old() -> None:
    store = a_store_with(picture=(a_picture(), NOW - timedelta(minutes=9)))
    assert "This page shows old data." in page(store=store)
    assert "This page shows old data." not in page()


def test_a_loop_that_does_not_beat_is_told() -> None:
    assert "The loop is not running." in page(health=FakeHealth(beat_age=timedelta(minutes=5)))
    assert "The loop is not running." not in page()


def test_a_replica_that_waits_says_that_another_leads() -> None:
    assert "another replica leads" in page(health=FakeHealth(state="waiting"))


def test_backoff_and_silence_are_told_with_their_reasons_folded() -> None:
    text = words(page())
    assert "No growth: backoff, ends in 7 min After 3 failures: Civo is out of stock" in text
    assert "No removal of a100-0: backoff, ends in 12 min After 1 failure: ml/web is protected" in text
    assert "Paused by a silence silenced in Alertmanager by night shift" in text


def test_a_cooldown_is_told_on_the_page_of_its_pool_alone() -> None:
    said = "No growth: cooldown, ends in 20 s it grew at 2026-03-10 14:29:50 UTC"
    assert said in words(page(f"/pools/{L40S}"))
    assert "cooldown" not in words(page())


def test_open_windows_stand_behind_the_bounds_that_they_make() -> None:
    text = words(page(store=showing(pools=[a_pool(max_nodes=2, windows=["nights", "weekends"])])))
    assert "0–2 nodes (window nights, weekends)" in text


def test_the_budget_tells_spend_reservation_and_what_has_no_price() -> None:
    text = words(page())
    assert "$3,120.44 of $5,000.00 spent (62%), $412.80 reserved." in text
    assert "because they have no price: an.g1.a100.kube.x8" in text


def meter_of(html: str) -> dict[str, float]:
    """Return the numbers of the budget's meter, in USD."""
    [found] = [a for tag, a in Page(html).elements if tag == "meter"]
    return {name: float(str(found[name])) for name in ("max", "low", "high", "value")}


def test_the_budget_has_a_meter_with_its_thresholds() -> None:
    html = page()
    assert meter_of(html) == {"max": 5000, "low": 2500, "high": 4000, "value": 3120.44}
    assert "Warns at 50%, holds at 80%, stops at 100%." in words(html)


def test_an_overspent_budget_still_fits_its_meter() -> None:
    budget = {**a_picture()["budget"], "spent_usd": "7000", "reserved_usd": "3000", "stage": "stop", "ratio": 1.4}
    meter = meter_of(page(store=showing(budget=budget)))
    assert meter["max"] == meter["value"] == 7000


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [("hold", "</code>; running work continues."), ("stop", "No pool grows, and idle nodes are removed before")],
)
def test_a_budget_that_holds_says_what_that_means(stage: str, sentence: str) -> None:
    assert sentence in page(store=showing(budget={**a_picture()["budget"], "stage": stage}))


def test_civos_charges_are_told_with_their_age_what_differs_and_what_has_no_price() -> None:
    said = words(page())
    assert "Civo's charges of 7 min ago : 1 node differs from the ledger by more than an hour" in said
    assert "the account has cost $1,301.22, not counting dbaas-small" in said


def test_charges_that_never_answered_say_why() -> None:
    charges = {**a_picture()["charges"], "answered_at": None, "failure": "no answer within 30 s"}
    assert "Civo's charges have not been read yet. no answer within 30 s" in words(page(store=showing(charges=charges)))


def test_a_cluster_without_a_budget_says_so() -> None:
    assert "No budget is set" in page(store=showing(budget=None))


def test_work_that_no_pool_fits_is_shown() -> None:
    assert "research/needs-mig 4 GPUs: asks for nvidia.com/mig-1g.10gb" in words(page())


def test_a_waiting_pod_is_shown_with_its_fate_and_what_to_do() -> None:
    text = words(page())
    assert f"research/train-llm-2 1 4 min ago blocked {a_waiting_pod()['detail']}" in text
    assert "The scheduler says: 0/3 nodes are available" in text
    assert "What to do: raise the budget (gpu-autoscaler budget set USD --why REASON --who YOU)" in text


@pytest.mark.parametrize("missing", a_waiting_pod().keys())
def test_the_status_page_renders_when_a_waiting_pod_lacks_a_field(missing: str) -> None:
    pod = {k: v for k, v in a_waiting_pod().items() if k != missing}
    assert "Latest decisions" in page(store=showing(waiting=[pod]))


def test_waiting_pods_of_one_owner_and_fate_share_a_row() -> None:
    pods = [a_waiting_pod(f"train-llm-{i}", gpus=2) for i in range(2, 5)]
    text = words(page(store=showing(waiting=pods, waiting_total=3)))
    assert "research/train-llm-2 and 2 more of Job/train-llm 6 4 min ago" in text
    assert "train-llm-3" not in text
    assert "pods are waiting in total" not in text


@pytest.mark.parametrize("other", ["state", "pool", "rule", "node", "owner", "namespace"])
def test_waiting_pods_that_differ_have_a_row_each(other: str) -> None:
    pods = [a_waiting_pod(), a_waiting_pod("train-llm-3", **{other: "another"})]
    assert "/train-llm-3 " in words(page(store=showing(waiting=pods)))


def test_more_waiting_pods_than_the_page_shows_are_counted() -> None:
    pods = [a_waiting_pod(f"job-{i}", owner="") for i in range(30)]
    text = words(page(store=showing(waiting=pods, waiting_total=812)))
    assert "812 pods are waiting in total" in text
    assert "job-19" in text
    assert "job-20" not in text


def test_pods_that_no_pool_fits_stand_in_their_own_list_only() -> None:
    html = page(store=showing(waiting=[a_misfit_pod()], waiting_total=1))
    assert 'id="waiting"' not in html
    assert 'id="misfits"' in html


def test_firing_alerts_show_pools_by_name() -> None:
    text = words(page())
    assert "GpuPoolPendingPods scale_up l40s 4 min ago" in text
    assert "GpuAutoscalerHeartbeat heartbeat every pool 3 d ago" in text


def test_latest_decisions_link_to_their_pages() -> None:
    links = [a.get("href") for tag, a in Page(page()).elements if tag == "a"]
    assert "/decisions/42" in links
    assert "/decisions/41" in links


def test_each_of_the_latest_decisions_is_known_by_its_number_so_that_a_newer_one_replaces_none_of_them() -> None:
    keys = [li.get("data-key") for tag, li in Page(page()).elements if tag == "li"]
    assert {"42", "41"} <= set(keys)


def test_a_decision_page_tells_every_reason_in_order_with_its_verdict() -> None:
    text = words(page("/decisions/42"))
    assert text.index("wants demand 3 GPUs are waited for. (3 → 6 nodes)") < text.index("limits within_limits 1 of 3")
    assert text.index("limits within_limits 1 of 3") < text.index("1 guardrail passed within_maximum passed")


def test_a_decision_page_shows_evidence_and_the_moment_it_can_change() -> None:
    html = page("/decisions/42")
    assert "&#34;research/train-llm-2&#34;" in html
    assert "Can change by itself in 57 min" in words(html)
    assert 'datetime="2026-03-10T15:27:00Z"' in html


def test_a_decision_that_cannot_change_by_itself_says_so() -> None:
    assert "when the facts change" in page("/decisions/41")


def test_a_decision_page_shows_what_followed() -> None:
    text = words(page("/decisions/42"))
    assert "Retire 3 → 2 nodes Opened 30 min ago 2026-03-10 14:00:00 UTC l40s-9 gone 20 min ago" in text
    assert "confirmed 20 min ago 2026-03-10 14:10:00 UTC : the instance is gone" in text


def test_an_unknown_decision_is_a_page_with_a_way_back() -> None:
    html = page("/decisions/43", code=404)
    assert "no decision has this id" in html
    assert 'href="/"' in html


def test_an_unknown_path_is_a_page_too() -> None:
    assert "404: not found" in page("/nothing", code=404)


@pytest.mark.parametrize("path", ["/", "/decisions/42"])
def test_a_store_that_is_down_is_told_on_a_page(path: str) -> None:
    html = page(path, error=TryLater("disk full"), code=503)
    assert "the store does not answer: disk full" in html


def test_a_bug_is_a_page_without_a_trace() -> None:
    html = page(error=RuntimeError("secret detail"), code=500)
    assert "internal error" in html
    assert "secret detail" not in html


@pytest.mark.parametrize("path", ["/static/style.css", "/static/icon.svg"])
def test_what_the_pages_load_is_served(path: str) -> None:
    client = Bench(store=a_full_store()).client()
    assert f'"{path}"' in client.get("/").text
    response = client.get(path)
    assert response.status_code == 200
    response.close()


def test_every_column_has_its_label_for_narrow_screens() -> None:
    cells = [a for tag, a in Page(page()).elements if tag == "td"]
    assert cells
    assert all(a.get("data-label") for a in cells)


def test_the_evidence_on_the_page_is_the_apis() -> None:
    client = Bench(store=a_full_store()).client()
    evidence = client.get("/api/v1/decisions/42").get_json()["evidence"]
    assert json.dumps(evidence, indent=2).replace('"', "&#34;") in client.get("/decisions/42").text


@pytest.mark.parametrize("path", ["/", f"/pools/{L40S}", "/sources"])
def test_live_pages_name_what_is_brought_up_to_date_and_can_be_reloaded_without_script(path: str) -> None:
    elements = Page(page(path)).elements
    live = [a.get("id") for _, a in elements if "data-live" in a]
    assert {"asof", "headline"} - {"headline" if "pools" in path else ""} <= set(live)
    assert len(live) == len(set(live))
    assert None not in live
    assert path in [a.get("href") for tag, a in elements if tag == "a"]
    assert [a.get("src") for tag, a in elements if tag == "script"] == ["/static/live.js"]


def test_no_page_reloads_itself_under_the_readers_eyes() -> None:
    for path in ("/", f"/pools/{L40S}", "/sources", "/decisions/42", "/costs"):
        assert "http-equiv" not in page(path)
    assert "live.js" not in page("/decisions/42")


@pytest.mark.parametrize(
    ("path", "current"), [("/", ["/"]), ("/costs", ["/costs"]), ("/sources", ["/sources"]), ("/decisions/42", [])]
)
def test_the_navigation_says_where_the_reader_is(path: str, current: list[str]) -> None:
    assert [a.get("href") for _, a in Page(page(path)).elements if a.get("aria-current") == "page"] == current


@pytest.mark.parametrize("path", ["/", f"/pools/{L40S}", "/sources"])
def test_pages_have_one_main_part_that_the_first_link_leads_to_and_every_table_has_a_caption(path: str) -> None:
    elements = Page(page(path)).elements
    assert [a.get("id") for tag, a in elements if tag == "main"] == ["content"]
    assert next(a.get("href") for tag, a in elements if tag == "a") == "#content"
    tags = [tag for tag, _ in elements]
    assert tags.count("table") == tags.count("caption")
    headings = [int(tag[1]) for tag in tags if tag in ("h1", "h2", "h3", "h4")]
    assert headings[0] == 1
    assert all(deeper - level <= 1 for level, deeper in pairwise(headings))
