"""The page behind a message's link: what it shows, that looking changes nothing, and that one answer counts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs

from receiver.capabilities.approvals.notices import answered, unanswered
from receiver.config.web import ReadAccess
from receiver.core.model.overrides import Answer, Asks, OverrideKind, Question
from receiver.core.model.policy import Approval
from receiver.core.notices.grouping import PageLinks, Seal
from receiver.ports import StoredDecision, TryLater
from tests.web.builders import (
    ANSWER_LINK,
    L40S,
    NOW,
    OPERATOR,
    READER,
    SEAL,
    Bench,
    a_concern,
    a_decision,
    a_picture,
    a_policy,
    a_pool,
    a_question,
    showing,
)
from tests.web.people import Person
from tests.web.seen import Page, words
from tests.web.stores import KEY, a_store_with, add_questions, outbox, stored_overrides, the_question


def a_bench(question: Question | None = None, decisions: Sequence[StoredDecision] = (), **more: Any) -> Bench:
    found = question or a_question("gpu-1")
    return Bench(store=a_store_with(picture=(a_picture(), NOW), questions=[found], decisions=decisions), **more)


def answer(bench: Bench, word: str, who: str = "alice", link: str = ANSWER_LINK) -> Any:
    return Person.at(bench).send(link, {"answer": word, "who": who})


def buttons(html: str) -> list[str | None]:
    return [a.get("value") for tag, a in Page(html).elements if tag == "button" and a.get("name") == "answer"]


# --- looking


def test_the_page_says_what_is_asked_what_comes_without_an_answer_and_what_each_answer_does() -> None:
    html = Person.at(a_bench()).get(ANSWER_LINK).text
    said = words(html)
    assert "GPU pool l40s: remove gpu-1 at 14:40 UTC?" in said
    assert "Without an answer by 14:40 UTC it is removed." in said
    assert "Saves $1.29 an hour" in said
    assert "Not today No removal in this pool before 2026-03-11 00:00 UTC." in said
    assert buttons(html) == ["approve", "snooze-1h", "snooze-today", "reject"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_looking_changes_nothing(method: str) -> None:
    bench = a_bench()
    before = bench.store.questions()
    response = bench.client().open(f"{ANSWER_LINK}?answer=approve&who=bot", method=method)
    assert response.status_code == 200
    assert bench.store.questions() == before
    assert (stored_overrides(bench.store), outbox(bench.store), "wake" in bench.log) == ({}, [], False)


def test_a_page_with_a_link_in_it_is_kept_by_nobody() -> None:
    headers = Person.at(a_bench()).get(ANSWER_LINK).headers
    assert headers["X-Robots-Tag"] == "noindex, nofollow"
    assert headers["Cache-Control"] == "no-store"


def test_the_link_opens_where_reading_takes_a_token() -> None:
    assert Person.at(a_bench(reading=ReadAccess.TOKEN, reader_token=READER)).get(ANSWER_LINK).status_code == 200


def test_typing_a_name_and_pressing_enter_sends_nothing() -> None:
    first = next(a for tag, a in Page(Person.at(a_bench()).get(ANSWER_LINK).text).elements if tag == "button")
    assert "disabled" in first
    assert first.get("name") is None


def test_every_field_and_button_has_a_name_and_says_what_it_does() -> None:
    page = Page(Person.at(a_bench()).get(ANSWER_LINK).text)
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        if tag in ("button", "input") and attributes.get("aria-describedby"):
            assert set(str(attributes["aria-describedby"]).split()) <= set(ids)
    assert ("label", {"for": "who"}) in page.elements


@pytest.mark.parametrize(
    ("wanted", "told"), [(False, True), (True, False), (None, False)], ids=["no", "yes", "the picture does not say"]
)
def test_it_says_when_the_change_would_not_help_any_more(wanted: bool | None, told: bool) -> None:
    bench = a_bench()
    picture = a_picture()
    picture["pools"][0]["questions"] = [] if wanted is None else [{"id": "q1", "wanted": wanted}]
    bench.store.keep_snapshot(picture, NOW)
    assert ("no longer wanted this change" in words(Person.at(bench).get(ANSWER_LINK).text)) is told


@pytest.mark.parametrize(
    ("link", "code", "said"),
    [
        ("/answer/q1", 403, "is incomplete"),
        ("/answer/q1.", 403, "is incomplete"),
        (ANSWER_LINK[:-1] + ("A" if ANSWER_LINK[-1] != "A" else "B"), 403, "is incomplete"),
        (ANSWER_LINK.replace("q1.", "q2."), 403, "is incomplete"),
        (f"/answer/{Seal('another token', KEY).sign('q1')}", 403, "token that signed it has been replaced"),
        (f"/answer/{SEAL.sign('q9')}", 404, "no longer stored"),
        ("/answer/%ff%00.x", 403, "is incomplete"),
    ],
)
def test_a_link_that_is_not_ours_says_what_to_do(link: str, code: int, said: str) -> None:
    bench = a_bench()
    for response in (Person.at(bench).get(link), answer(bench, "approve", link=link)):
        assert response.status_code == code
        assert said in words(response.text)
        assert "gpu-autoscaler" in response.text
    assert the_question(bench.store).answer is None


def test_without_an_operator_token_no_link_works_and_the_page_says_what_to_set() -> None:
    response = Person.at(a_bench(operator_token=None)).get(ANSWER_LINK)
    assert response.status_code == 403
    assert "GPU_AUTOSCALER_OPERATOR_TOKEN" in response.text


def test_a_link_that_is_over_says_so_and_takes_no_answer() -> None:
    bench = a_bench(a_question("gpu-1", expires_at=NOW))
    response = Person.at(bench).get(ANSWER_LINK)
    assert (response.status_code, buttons(response.text)) == (410, [])
    assert "This link expired 0 s ago" in words(response.text)
    late = answer(bench, "approve")
    assert (late.status_code, the_question(bench.store).answer) == (409, None)
    assert "Nothing was changed" in late.text


def test_where_another_request_to_grow_was_rejected_it_does_not_say_that_the_pool_grows_without_an_answer() -> None:
    bench = a_bench(a_question(asks=Asks.GROWTH))
    assert "it grows" in bench.client().get(ANSWER_LINK).text
    add_questions(bench.store, a_question(id="q2", asks=Asks.GROWTH, answer=Answer.REJECT, who="ada"))
    said = words(bench.client().get(ANSWER_LINK).text)
    assert unanswered(the_question(bench.store), yields=True) in said


def test_what_has_happened_is_not_asked_any_more() -> None:
    html = Person.at(a_bench(a_question("gpu-1", done_at=NOW))).get(ANSWER_LINK).text
    assert "Nothing is left to approve" in html
    assert buttons(html) == []


# --- what there is to know before an answer


def growing(evidence: Mapping[str, Any] | None = None, **pool: Any) -> Bench:
    """Whether the pool may grow to 8 nodes, while a job waits that the latest decision knows."""
    policy = a_policy()
    asks = replace(policy.pools[0], approval=Approval(growth_above_usd_per_hour=Decimal(5)))
    job = {"workload": "ml/train-0", "owner": "Job/train", "team": "vision", "pods": 2, "gpus": 4}
    decision = a_decision(evidence={"workloads": [job]} if evidence is None else evidence)
    bench = a_bench(a_question(), [decision], policy=replace(policy, pools=(asks, *policy.pools[1:])))
    picture = a_picture()
    reasons = [{"rule": "demand", "detail": "ml/train-0 waits for 4 GPUs: 4 more nodes"}]
    picture["pools"][0] |= {"decision": 42, "reasons": reasons, **pool}
    bench.store.keep_snapshot(picture, NOW)
    return bench


def test_growth_is_shown_with_why_for_whom_what_it_costs_and_the_decision() -> None:
    html = Person.at(growing()).get(ANSWER_LINK).text
    said = words(html)
    assert "Why ml/train-0 waits for 4 GPUs: 4 more nodes." in said
    assert "For Job ml/train of team vision (2 pods, 4 GPUs)" in said
    assert "Costs $7.74 an hour (an approval is needed above $5.00)" in said
    assert 'href="/decisions/42"' in html


def test_the_budget_is_shown_with_the_forecast_before_and_after_the_change() -> None:
    said = words(Person.at(growing()).get(ANSWER_LINK).text)  # 513.5 hours are left of the month
    assert "Budget $3,120.44 of $5,000.00 spent; forecast $6,100.50, if approved $10,074.99" in said
    said = words(Person.at(a_bench()).get(ANSWER_LINK).text)
    assert "forecast $6,100.50, if approved $5,438.09" in said


@pytest.mark.parametrize("changes", [{"usd_per_hour": None}, {}], ids=["no price", "no budget"])
def test_a_forecast_that_is_not_known_is_left_out(changes: dict[str, Any]) -> None:
    bench = a_bench(a_question("gpu-1", **changes))
    if not changes:
        bench.store.keep_snapshot(a_picture(budget=None), NOW)
    assert "if approved" not in words(Person.at(bench).get(ANSWER_LINK).text)


def test_a_removal_says_how_long_the_nodes_have_been_idle() -> None:
    bench = a_bench(a_question("l40s-2"))
    bench.store.keep_snapshot(a_picture(pools=[a_pool(pending_gpus=0)]), NOW)
    assert "Why No GPU pod for 12 min; no pod waits for the pool." in words(Person.at(bench).get(ANSWER_LINK).text)


def test_emptying_names_the_pods_that_would_be_moved() -> None:
    said = words(Person.at(a_bench(a_question("l40s-0", asks=Asks.EMPTYING))).get(ANSWER_LINK).text)
    assert "Moves research/train-llm-0" in said


def test_once_it_is_answered_the_link_shows_neither_work_nor_money() -> None:
    bench = growing()
    answer(bench, "approve")
    said = words(Person.at(bench).get(ANSWER_LINK).text)
    assert "ml/train" not in said
    assert "$" not in said


@pytest.mark.parametrize("evidence", [{}, {"workloads": None}, {"workloads": [{"workload": "x"}]}])
def test_a_decision_of_another_version_leaves_out_who_waits(evidence: dict[str, Any]) -> None:
    bench = growing(evidence)
    assert "<dt>For</dt>" not in Person.at(bench).get(ANSWER_LINK).text


# --- answering


def test_an_approval_is_kept_told_acted_upon_and_shown() -> None:
    bench = a_bench()
    response = answer(bench, "approve")
    assert (response.status_code, response.headers["Location"]) == (303, ANSWER_LINK)
    kept = the_question(bench.store)
    assert (kept.answer, kept.who, kept.answered_at) == (Answer.APPROVE, "alice", NOW)
    assert outbox(bench.store) == [answered(kept, None, a_policy())]
    assert (stored_overrides(bench.store), bench.log.count("wake")) == ({}, 1)
    assert "alice answered: Approve" in words(Person.at(bench).get(ANSWER_LINK).text)


def test_a_rejection_is_kept_told_and_shown_and_sets_no_override() -> None:
    bench = a_bench()
    answer(bench, "reject")
    question = the_question(bench.store)
    assert question.answer is Answer.REJECT
    assert outbox(bench.store) == [answered(question, None, a_policy())]
    assert stored_overrides(bench.store) == {}
    said = words(Person.at(bench).get(ANSWER_LINK).text)
    assert "alice answered: Reject" in said
    assert "not requested again before 2026-03-10 14:45:00 UTC" in said


@pytest.mark.parametrize(
    ("word", "kind", "nodes", "hours"),
    [
        ("snooze-1h", "snooze", None, 1),
        ("snooze-4h", "snooze", None, 4),
        ("snooze-today", "snooze", None, 9.5),
        ("pin", "pin", 4, 24),
    ],
)
def test_a_snooze_or_a_pin_sets_an_override_of_the_pool(word: str, kind: str, nodes: int | None, hours: float) -> None:
    bench = a_bench()
    answer(bench, word)
    [stored] = stored_overrides(bench.store).values()
    found = stored.override
    assert (found.kind, found.pool, found.nodes, found.who) == (OverrideKind(kind), L40S, nodes, "alice")
    assert found.until == NOW + timedelta(hours=hours)
    assert f"gpu-autoscaler override end {found.id}" in Person.at(bench).get(ANSWER_LINK).text


def test_a_snooze_of_growth_is_a_ceiling_at_the_present_size_with_what_was_just_asked_for() -> None:
    bench = a_bench(a_question())
    picture = a_picture()
    picture["pools"][0] |= {"required": 3, "open_action": {"kind": "grow", "to": 5}}
    bench.store.keep_snapshot(picture, NOW)
    answer(bench, "snooze-4h")
    [stored] = stored_overrides(bench.store).values()
    assert (stored.override.kind, stored.override.nodes) == (OverrideKind.CEILING, 5)


@pytest.mark.parametrize("word", ["pin", "snooze-1h"])
def test_while_nobody_knows_the_size_no_answer_says_one(word: str) -> None:
    bench = a_bench(a_question())
    picture = a_picture()
    picture["pools"][0]["required"] = None
    bench.store.keep_snapshot(picture, NOW)
    assert buttons(Person.at(bench).get(ANSWER_LINK).text) == ["approve", "reject"]
    assert (answer(bench, word).status_code, stored_overrides(bench.store)) == (503, {})
    assert answer(bench, "approve").status_code == 303


def test_the_same_answer_twice_acts_once_and_looks_the_same() -> None:
    bench = a_bench()
    assert [answer(bench, "snooze-1h").status_code for _ in range(3)] == [303, 303, 303]
    assert (len(stored_overrides(bench.store)), len(outbox(bench.store)), bench.log.count("wake")) == (1, 1, 1)


def test_another_answer_after_the_first_changes_nothing_and_says_who_was_first() -> None:
    bench = a_bench()
    answer(bench, "approve")
    second = answer(bench, "pin", who="bob")
    assert second.status_code == 409
    said = words(second.text)
    assert "Nothing was changed" in said
    assert "alice answered: Approve" in said
    assert stored_overrides(bench.store) == {}


@pytest.mark.parametrize("form", [{}, {"answer": ""}, {"answer": "delete"}, {"who": "alice"}])
def test_a_form_without_an_answer_of_ours_changes_nothing(form: dict[str, str]) -> None:
    bench = a_bench()
    response = Person.at(bench).send(ANSWER_LINK, form)
    assert (response.status_code, the_question(bench.store).answer) == (400, None)
    assert buttons(response.text)


@pytest.mark.parametrize(
    ("who", "kept"),
    [("", "someone with the link"), (" \n ", "someone with the link"), ("a\r\nb\x00", "a b"), ("x" * 500, "x" * 100)],
)
def test_a_name_is_one_short_line_or_nobodys(who: str, kept: str) -> None:
    bench = a_bench()
    answer(bench, "approve", who=who)
    assert the_question(bench.store).who == kept


def test_a_body_that_is_too_large_changes_nothing() -> None:
    bench = a_bench()
    assert answer(bench, "approve", who="x" * 20_000).status_code == 413
    assert the_question(bench.store).answer is None


def test_names_become_no_elements() -> None:
    attack = "<script>alert(1)</script>"
    bench = a_bench(a_question(attack))
    answer(bench, "pin", who=attack)
    assert "<script>" not in Person.at(bench).get(ANSWER_LINK).text


def test_while_the_store_is_down_nothing_is_promised() -> None:
    bench = a_bench()
    bench.error = TryLater("store: no", code="store")
    assert answer(bench, "approve").status_code == 503


@pytest.mark.parametrize("failure", [TryLater("store: no", code="store"), RuntimeError("a bug")])
def test_the_link_is_in_no_log(failure: Exception) -> None:
    """Whoever reads the log could answer with it."""
    bench = a_bench(error=failure)
    with capture_logs() as logs:
        assert Person.at(bench).get(ANSWER_LINK).status_code >= 500
    assert [line["path"] for line in logs] == ["/answer/..."]
    assert ANSWER_LINK not in str(logs)


# --- links


def test_a_message_has_one_link_that_this_server_reads_and_another_token_does_not() -> None:
    links = PageLinks(public_url="https://gpu.example.com", seal=lambda: SEAL)
    [(label, address)] = links.answers("l40s-growth-0123456789ab")
    assert label == "Approve, postpone or reject"
    signed = address.removeprefix("https://gpu.example.com/answer/")
    assert SEAL.read(signed) == "l40s-growth-0123456789ab"
    assert Seal("another", KEY).read(signed) is None
    assert OPERATOR not in repr(links)


def test_without_an_address_or_a_token_there_is_no_link() -> None:
    assert PageLinks(public_url="https://gpu.example.com").answers("q1") == ()
    assert PageLinks(seal=lambda: SEAL).answers("q1") == ()


def test_only_an_operator_gets_the_link_that_answers() -> None:
    bench = Bench(store=showing(concerns=[a_concern(what="waits for an approval", question="l40s-removal-0a")]))
    person = Person.at(bench)
    assert "/answer/" not in person.get("/").text
    person.log_in()
    html = person.get("/").text
    link = next(str(a["href"]) for _, a in Page(html).elements if (a.get("href") or "").startswith("/answer/"))
    assert Seal(OPERATOR, KEY).read(link.removeprefix("/answer/")) == "l40s-removal-0a"
