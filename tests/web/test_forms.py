"""Overrides by form: who sees one, what it sends, what comes back when something is wrong, and who cannot send it.

Whose form it is: a session that ended, another session, another site, a reader, and what is no form of ours.
"""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.config.web import ReadAccess
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.policy import Budget
from receiver.ports import TryLater
from tests.web.builders import A100, L40S, NOW, OPERATOR, READER, Bench, a_policy
from tests.web.override_form import (
    OVERRIDES_PATH,
    PIN_FORM,
    a_bench_for_operators,
    a_stored_override,
    an_operator,
    input_fields,
)
from tests.web.people import Person, field_of
from tests.web.seen import Page, words
from tests.web.stores import outbox, stored_overrides

# --- who sees the form


def test_an_operator_sees_the_form_with_a_label_and_a_hint_for_every_field() -> None:
    html = an_operator(a_bench_for_operators()).get(OVERRIDES_PATH).text
    page = Page(html)
    labels = {a.get("for") for tag, a in page.elements if tag == "label"}
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    assert set(input_fields(html)) <= labels
    for name in ("nodes", "for", "why", "who"):
        assert input_fields(html)[name]["aria-describedby"] == f"{name}-hint"
        assert f"{name}-hint" in ids
    assert [tag for tag, _ in page.elements].count("legend") == 2


def test_a_pause_of_two_hours_is_one_tap() -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    html = person.get(OVERRIDES_PATH).text
    first = html[html.index('class="ask"') : html.index('id="more"')]
    inputs = [a for tag, a in Page(first).elements if tag == "input"]
    chosen = {str(a["name"]): a["value"] for a in inputs if a["type"] == "hidden" or "checked" in a}
    assert "Pause l40s for 2 h" in words(first)
    person.send(OVERRIDES_PATH, {**chosen, "who": "alice", "preset": "2h"})
    [stored] = stored_overrides(bench.store).values()
    assert (stored.override.kind, stored.override.why) == (OverrideKind.PAUSE, "investigating")
    assert stored.override.until == NOW + timedelta(hours=2)


def test_nothing_that_stops_a_pool_looks_like_the_main_button() -> None:
    html = an_operator(a_bench_for_operators()).get(OVERRIDES_PATH).text
    buttons = [a for tag, a in Page(html[html.index('class="ask"') :]).elements if tag == "button"]
    assert {button["class"] for button in buttons} == {"careful"}


@pytest.mark.parametrize("token", [None, READER])
def test_who_is_no_operator_sees_where_to_log_in_and_the_command(token: str | None) -> None:
    person = Person.at(a_bench_for_operators(a_stored_override()))
    if token:
        person.log_in(token)
    html = person.get(OVERRIDES_PATH).text
    assert not [a for tag, a in Page(html).elements if tag == "form" and a.get("action") != "/logout"]
    assert "/login?next=/pools/l40s/overrides" in html
    assert "gpu-autoscaler pause l40s" in words(html)


def test_without_an_operator_token_the_page_says_what_to_set() -> None:
    assert "GPU_AUTOSCALER_OPERATOR_TOKEN" in Person.at(Bench(operator_token=None)).get(OVERRIDES_PATH).text


def test_everybody_who_may_read_sees_what_is_in_force() -> None:
    over = a_stored_override("pin-l40s-old", until=NOW)
    html = words(
        Person.at(a_bench_for_operators(a_stored_override(), over, a_stored_override("floor-a100", pool=A100)))
        .get(OVERRIDES_PATH)
        .text
    )
    assert "Pin of 4 nodes alice: load test. Set 1 h ago , ends in 1 h . pin-l40s-1" in html
    assert "pin-l40s-old" not in html
    assert "floor-a100" not in html


def test_an_unknown_pool_is_a_404_that_names_those_there_are() -> None:
    response = an_operator(a_bench_for_operators()).get("/pools/h100/overrides")
    assert (response.status_code, "use one of: l40s, a100" in response.text) == (404, True)


# --- what it does


def test_what_is_typed_is_set_told_and_acted_upon_and_shown() -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    response = person.fill_in(OVERRIDES_PATH, PIN_FORM)
    [stored] = stored_overrides(bench.store).values()
    override = stored.override
    assert (override.kind, override.pool, override.nodes, override.who, override.why, override.until) == (
        OverrideKind.PIN,
        L40S,
        4,
        "alice",
        "load test",
        NOW + timedelta(hours=2),
    )
    assert bench.log[-2:] == ["set_override", "wake"]
    assert len(outbox(bench.store)) == 1
    assert (response.status_code, response.location) == (303, f"{OVERRIDES_PATH}?done={override.id}")
    shown = words(person.get(response.location).text)
    assert f"Set. The next step acts on it: {override.id}" in shown
    assert "Pin of 4 nodes alice: load test." in shown


@pytest.mark.parametrize("kind", ["pause", "snooze"])
def test_every_pool_can_be_paused_and_snoozed(kind: str) -> None:
    bench = a_bench_for_operators()
    an_operator(bench).fill_in("/pools/all/overrides", {**PIN_FORM, "kind": kind, "nodes": ""})
    [stored] = stored_overrides(bench.store).values()
    assert (stored.override.kind, stored.override.pool, stored.override.nodes) == (kind, None, None)


def test_a_pool_may_be_called_by_its_id() -> None:
    bench = a_bench_for_operators()
    assert an_operator(bench).fill_in(f"/pools/{L40S}/overrides", PIN_FORM).location.startswith(OVERRIDES_PATH)


def test_one_is_ended_by_the_button_beside_it() -> None:
    bench = a_bench_for_operators(a_stored_override())
    person = an_operator(bench)
    response = person.fill_in("/overrides/pin-l40s-1/end", {"who": "bob"}, page=OVERRIDES_PATH)
    assert (response.status_code, response.location) == (303, f"{OVERRIDES_PATH}?done=pin-l40s-1")
    assert stored_overrides(bench.store)["pin-l40s-1"].ended_by == "bob"
    assert bench.log.count("wake") == 1
    assert "Ended. The next step acts on it: pin-l40s-1" in words(person.get(response.location).text)


def test_who_ends_one_need_not_say_a_name() -> None:
    bench = a_bench_for_operators(a_stored_override())
    an_operator(bench).fill_in("/overrides/pin-l40s-1/end", {}, page=OVERRIDES_PATH)
    assert stored_overrides(bench.store)["pin-l40s-1"].ended_by == "an operator"


@pytest.mark.parametrize("number", ["nothing", "pin-l40s-1"])
def test_ending_what_is_not_there_or_over_is_a_404_and_tells_nobody(number: str) -> None:
    bench = a_bench_for_operators(a_stored_override())
    person = an_operator(bench)
    token = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    person.send("/overrides/pin-l40s-1/end", {"form_token": token})
    assert person.send(f"/overrides/{number}/end", {"form_token": token}).status_code == 404
    assert len(outbox(bench.store)) == 1


@pytest.mark.parametrize("path", [OVERRIDES_PATH, "/overrides/pin-l40s-1/end", "/logout"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_reading_never_acts(path: str, method: str) -> None:
    bench = a_bench_for_operators(a_stored_override())
    an_operator(bench).client.open(path + "?kind=pause&for=1h&why=x&who=y", method=method)
    assert outbox(bench.store) == []
    assert "wake" not in bench.log


def test_a_form_that_is_sent_twice_sets_one_and_tells_once() -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    page = person.get(OVERRIDES_PATH).text
    form = {name: field_of(page, name) for name in ("form_token", "once")}
    first = person.send(OVERRIDES_PATH, {**PIN_FORM, **form})
    bench.clock.at += timedelta(seconds=2)
    again = person.send(OVERRIDES_PATH, {**PIN_FORM, **form})
    assert (again.status_code, again.location) == (303, first.location)
    assert (len(stored_overrides(bench.store)), len(outbox(bench.store))) == (1, 1)


@pytest.mark.parametrize("changed", [{"nodes": "5"}, {"for": "3h"}, {"why": "another test"}, {"kind": "floor"}])
def test_whoever_goes_back_and_changes_the_form_sets_another(changed: dict[str, str]) -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    page = person.get(OVERRIDES_PATH).text
    form = {name: field_of(page, name) for name in ("form_token", "once")}
    person.send(OVERRIDES_PATH, {**PIN_FORM, **form})
    person.send(OVERRIDES_PATH, {**PIN_FORM, **form, **changed})
    assert (len(stored_overrides(bench.store)), len(outbox(bench.store))) == (2, 2)


@pytest.mark.parametrize(("preset", "hours"), [("30m", 0.5), ("2h", 2), ("until 09:00", 18.5)])
def test_a_preset_needs_no_typed_length(preset: str, hours: float) -> None:
    bench = a_bench_for_operators()
    an_operator(bench).fill_in(OVERRIDES_PATH, {**PIN_FORM, "for": "", "preset": preset})
    [stored] = stored_overrides(bench.store).values()
    assert stored.override.until == NOW + timedelta(hours=hours)


def test_a_preset_counts_before_what_is_typed_and_a_mistake_elsewhere_keeps_it() -> None:
    html = (
        an_operator(a_bench_for_operators())
        .fill_in(OVERRIDES_PATH, {**PIN_FORM, "for": "3d", "preset": "2h", "why": ""})
        .text
    )
    assert input_fields(html)["for"]["value"] == "2h"


def test_enter_sends_what_is_typed_and_no_preset() -> None:
    html = an_operator(a_bench_for_operators()).get(OVERRIDES_PATH).text
    form = html[html.index('id="more"') :]
    first = next(a for tag, a in Page(form).elements if tag == "button")
    assert "name" not in first


@pytest.mark.parametrize(
    ("zone", "label"),
    [
        ("UTC", "until 09:00 tomorrow (UTC)"),
        ("Asia/Tokyo", "until 09:00 tomorrow (Asia/Tokyo)"),
        ("America/Los_Angeles", "until 09:00 today (America/Los_Angeles)"),
    ],
)
def test_the_morning_is_the_next_one_on_the_clock_of_the_budget(zone: str, label: str) -> None:
    policy = replace(a_policy(), budget=Budget(monthly_usd=Decimal(5000), timezone=zone))
    assert label in words(an_operator(a_bench_for_operators(policy=policy)).get(OVERRIDES_PATH).text)


def test_a_preset_beyond_the_longest_override_is_not_offered() -> None:
    html = (
        an_operator(a_bench_for_operators(policy=replace(a_policy(), longest_override=timedelta(hours=1))))
        .get(OVERRIDES_PATH)
        .text
    )
    assert [a["value"] for tag, a in Page(html).elements if tag == "button" and a.get("name") == "preset"] == ["30m"]


def test_the_morning_that_is_sent_twice_sets_one() -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    page = person.get(OVERRIDES_PATH).text
    form = {name: field_of(page, name) for name in ("form_token", "once")}
    person.send(OVERRIDES_PATH, {**PIN_FORM, **form, "preset": "until 09:00"})
    bench.clock.at += timedelta(seconds=2)
    person.send(OVERRIDES_PATH, {**PIN_FORM, **form, "preset": "until 09:00"})
    assert (len(stored_overrides(bench.store)), len(outbox(bench.store))) == (1, 1)


def test_the_same_again_after_it_was_ended_is_set_again() -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    page = person.get(OVERRIDES_PATH).text
    form = {name: field_of(page, name) for name in ("form_token", "once")}
    person.send(OVERRIDES_PATH, {**PIN_FORM, **form})
    [name] = stored_overrides(bench.store)
    person.send(f"/overrides/{name}/end", form)
    person.send(OVERRIDES_PATH, {**PIN_FORM, **form})
    overrides = stored_overrides(bench.store)
    assert overrides.pop(name).ended_at == NOW
    assert [again.ended_at for again in overrides.values()] == [None]


def test_a_corrected_form_is_still_the_same_form() -> None:
    person = an_operator(a_bench_for_operators())
    page = person.get(OVERRIDES_PATH).text
    form = {name: field_of(page, name) for name in ("form_token", "once")}
    assert field_of(person.send(OVERRIDES_PATH, form).text, "once") == form["once"]


@pytest.mark.parametrize("once", ["", "x", "../../etc", "<script>", "AAAAAAAA", "a" * 9])
def test_nobody_writes_an_id_of_their_own(once: str) -> None:
    bench = a_bench_for_operators()
    an_operator(bench).fill_in(OVERRIDES_PATH, {**PIN_FORM, "once": once})
    [name] = stored_overrides(bench.store)
    assert re.fullmatch("pin-l40s-[0-9a-f]{8}", name)


# --- what is wrong


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("kind", "", "kind is missing"),
        ("kind", "freeze", "unknown kind"),
        ("nodes", "", "nodes is missing: a pin needs a number"),
        ("nodes", "four", "nodes is not a whole number"),
        ("nodes", "4.5", "nodes is not a whole number"),
        ("nodes", "-1", "nodes is negative"),
        ("nodes", "9", "nodes is above max_nodes of l40s (8)"),
        ("nodes", "9" * 40, "nodes is not a whole number"),
        ("for", "", "for is missing"),
        ("for", "soon", "for: "),
        ("for", "8d", "for is more than 168h ahead"),
        ("why", " ", "why is missing"),
        ("why", "x" * 501, "why is longer than 500 characters"),
        ("who", "", "who is missing"),
    ],
)
def test_a_mistake_is_told_beside_its_field_and_in_the_summary_and_nothing_typed_is_lost(
    field: str, value: str, says: str
) -> None:
    bench = a_bench_for_operators()
    response = an_operator(bench).fill_in(OVERRIDES_PATH, {**PIN_FORM, field: value})
    assert (response.status_code, stored_overrides(bench.store)) == (400, {})
    html = response.text
    [summary] = re.findall(r'<div class="banner bad" role="alert".*?</div>', html, flags=re.DOTALL)
    target = "kind-pin" if field == "kind" else field
    assert re.search(rf'<a href="#{target}">{re.escape(says)}', summary)
    assert f'id="{field}-mistake"' in html
    described = input_fields(html)[field] if field != "kind" else dict(Page(html).elements)["fieldset"]
    assert f"{field}-mistake" in (described["aria-describedby"] or "")
    for name in {"nodes", "for", "why", "who"}:
        typed = value if name == field else PIN_FORM[name]
        assert input_fields(html)[name]["value"] == typed
    chosen = [a["value"] for _, a in Page(html).elements if "checked" in a and a["name"] == "kind"]
    assert chosen == ([] if field == "kind" else ["pin"])
    assert "<title>Error: Overrides of l40s" in html


def test_a_number_for_a_pause_is_told_beside_the_number() -> None:
    response = an_operator(a_bench_for_operators()).fill_in(OVERRIDES_PATH, {**PIN_FORM, "kind": "pause"})
    assert (response.status_code, "nodes does not apply to a pause" in response.text) == (400, True)


def test_every_mistake_is_told_at_once() -> None:
    html = an_operator(a_bench_for_operators()).fill_in(OVERRIDES_PATH, {}).text
    assert "4 mistakes" in html
    assert re.findall(r'<a href="#([\w-]+)">', html) == ["kind-pin", "for", "why", "who"]


def test_while_the_store_is_down_nothing_typed_is_lost() -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    token = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    bench.error = TryLater("disk full", code="store")
    response = person.send(OVERRIDES_PATH, {"form_token": token, **PIN_FORM})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert "The override was not saved: disk full" in response.text
    assert input_fields(response.text)["why"]["value"] == "load test"


def test_a_link_cannot_say_that_something_was_done() -> None:
    html = (
        an_operator(a_bench_for_operators(a_stored_override()))
        .get(f"{OVERRIDES_PATH}?done=nothing;+send+your+token+to+evil.test")
        .text
    )
    assert "Ended" not in words(html)
    assert "evil.test" not in html


# --- whose form it is


def test_a_session_that_ended_while_somebody_typed_loses_nothing() -> None:
    bench = a_bench_for_operators(reading=ReadAccess.TOKEN)
    person = an_operator(bench)
    old = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    bench.clock.at += timedelta(hours=13)
    refused = person.send(OVERRIDES_PATH, {"form_token": old, **PIN_FORM})
    assert (refused.status_code, input_fields(refused.text)["why"]["value"]) == (403, "load test")
    assert "Log in (opens another tab)" in refused.text
    person.log_in()
    again = person.send(OVERRIDES_PATH, {"form_token": field_of(refused.text, "form_token"), **PIN_FORM})
    assert (again.status_code, "Check it and send it again" in again.text) == (403, True)
    done = person.send(OVERRIDES_PATH, {"form_token": field_of(again.text, "form_token"), **PIN_FORM})
    assert done.status_code == 303
    assert len(outbox(bench.store)) == 1


@pytest.mark.parametrize("pool", ["l40s", "all", "h100", L40S])
@pytest.mark.parametrize("form", [{}, PIN_FORM])
def test_who_may_not_read_learns_nothing_by_sending_a_form(form: dict[str, str], pool: str) -> None:
    bench = a_bench_for_operators(a_stored_override(), reading=ReadAccess.TOKEN)
    response = Person.at(bench).send(f"/pools/{pool}/overrides", form)
    assert response.status_code == 403
    text = response.text.replace(f"/pools/{pool}/overrides", "").replace(f"%2Fpools%2F{pool}%2Foverrides", "")
    for secret in ("pin-l40s-1", "In force", "a100", "0 to 8"):
        assert secret not in text


@pytest.mark.parametrize(("token", "who"), [("", "operator"), ("wrong", "operator"), ("é", "operator"), ("", "nobody")])
@pytest.mark.parametrize("path", [OVERRIDES_PATH, "/overrides/pin-l40s-1/end"])
def test_a_form_without_the_sessions_own_token_does_nothing(path: str, token: str, who: str) -> None:
    bench = a_bench_for_operators(a_stored_override())
    person = an_operator(bench) if who == "operator" else Person.at(bench)
    assert person.send(path, {"form_token": token, **PIN_FORM}).status_code == 403
    assert outbox(bench.store) == []


def test_the_form_token_of_another_session_does_nothing() -> None:
    bench = a_bench_for_operators()
    theirs = field_of(an_operator(bench).get(OVERRIDES_PATH).text, "form_token")
    assert an_operator(bench).send(OVERRIDES_PATH, {"form_token": theirs, **PIN_FORM}).status_code == 403
    assert outbox(bench.store) == []


@pytest.mark.parametrize("path", [OVERRIDES_PATH, "/overrides/pin-l40s-1/end"])
def test_a_reader_cannot_act(path: str) -> None:
    bench = a_bench_for_operators(a_stored_override())
    person = Person.at(bench)
    person.log_in(READER)
    token = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    assert person.send(path, {"form_token": token, **PIN_FORM}).status_code == 403
    assert outbox(bench.store) == []


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.test"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
@pytest.mark.parametrize("path", [OVERRIDES_PATH, "/overrides/pin-l40s-1/end"])
def test_another_site_cannot_act_though_it_had_cookie_and_form_token(path: str, headers: dict[str, str]) -> None:
    bench = a_bench_for_operators(a_stored_override())
    person = an_operator(bench)
    token = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    response = person.send(path, {"form_token": token, **PIN_FORM}, **headers)
    assert (response.status_code, outbox(bench.store)) == (403, [])
    assert "load test" not in response.text  # what another site typed is not put before an operator


def test_the_operators_bearer_token_does_not_send_forms() -> None:
    bench = a_bench_for_operators()
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    assert bench.client().post(OVERRIDES_PATH, data=PIN_FORM, headers=headers).status_code == 403


def test_a_form_larger_than_any_form_is_refused() -> None:
    bench = a_bench_for_operators()
    assert an_operator(bench).send(OVERRIDES_PATH, {**PIN_FORM, "why": "x" * 20_000}).status_code == 413
    assert an_operator(bench).send(OVERRIDES_PATH, {f"f{n}": "" for n in range(30)}).status_code == 400
    assert outbox(bench.store) == []


def test_an_upload_is_no_form_of_ours() -> None:
    person = an_operator(a_bench_for_operators())
    response = person.client.post(
        OVERRIDES_PATH, data=PIN_FORM, content_type="multipart/form-data", headers={"Origin": "http://localhost"}
    )
    assert response.status_code == 403


@pytest.mark.parametrize(
    "pool", ["..", "%2e%2e", "l40s%00", "l40s%0d%0aX-Evil:1", "<script>", "%3Cscript%3E", "a" * 5000]
)
def test_no_trick_with_a_pools_name_does_more_than_a_404(pool: str) -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    token = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    response = person.send(f"/pools/{pool}/overrides", {"form_token": token, **PIN_FORM})
    assert response.status_code in (404, 405)
    assert "X-Evil" not in response.headers
    assert "<script>" not in response.text
    assert outbox(bench.store) == []
