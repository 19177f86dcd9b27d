"""/api/v1/questions: how requests stand, who may answer, what is kept, and how a wrong answer is refused."""

from typing import Any

import pytest

from receiver.core.model.overrides import Answer
from tests.web.builders import NOW, OPERATOR, TOKEN, Bench, a_picture, a_question
from tests.web.stores import a_store_with, outbox, stored_overrides, the_question

QUESTION_PATH = "/api/v1/questions/q1"
APPROVES = {"answer": "approve", "who": "alice"}


def with_a_question(**changes: Any) -> Bench:
    return Bench(
        store=a_store_with(picture=(a_picture(), NOW), questions=[a_question("gpu-1", **changes)]),
    )


def answer(bench: Bench, body: Any, token: str = OPERATOR, path: str = QUESTION_PATH) -> Any:
    return bench.client().post(path, json=body, headers={"Authorization": f"Bearer {token}"})


def test_a_question_is_shown_with_how_it_stands() -> None:
    document = with_a_question().client().get(QUESTION_PATH).get_json()
    assert (
        document
        | {
            "id": "q1",
            "pool_name": "l40s",
            "asks": "removal",
            "from": 2,
            "to": 1,
            "nodes": ["gpu-1"],
            "usd_per_hour": "1.29",
            "state": "open",
            "said": "approval requested until 14:40 UTC: remove gpu-1; without an answer it is removed",
            "wait_ends": "2026-03-10T14:40:00Z",
            "unanswered": "proceed",
            "answer": None,
        }
        == document
    )


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "open"),
        ({"answer": Answer.PIN, "who": "bob", "expires_at": NOW}, "answered"),
        ({"done_at": NOW}, "done"),
        ({"expires_at": NOW}, "expired"),
    ],
)
def test_the_list_of_questions_says_of_each_how_it_stands(changes: dict[str, Any], state: str) -> None:
    [document] = with_a_question(**changes).client().get("/api/v1/questions?pool=l40s").get_json()
    assert document["state"] == state


def test_an_answer_is_kept_with_who_and_why_and_acted_upon() -> None:
    bench = with_a_question()
    response = answer(bench, {**APPROVES, "why": "demo is over"})
    assert (response.status_code, response.get_json()["state"]) == (200, "answered")
    kept = the_question(bench.store)
    assert (kept.answer, kept.who, kept.why) == (Answer.APPROVE, "alice", "demo is over")
    assert "wake" in bench.log


def test_a_rejection_is_kept_and_says_when_the_same_is_requested_again() -> None:
    document = answer(with_a_question(), {"answer": "reject", "who": "alice"}).get_json()
    assert (document["state"], document["answer"]) == ("answered", "reject")
    assert document["said"] == "alice rejected: remove gpu-1; not requested again before 14:45 UTC"


def test_the_same_answer_again_is_fine_and_another_is_refused() -> None:
    bench = with_a_question()
    assert [answer(bench, APPROVES).status_code for _ in range(2)] == [200, 200]
    refused = answer(bench, {"answer": "pin", "who": "bob"})
    assert (refused.status_code, refused.get_json()["state"]) == (409, "answered")
    assert "alice approved: remove gpu-1" in refused.get_json()["error"]
    assert (len(outbox(bench.store)), stored_overrides(bench.store)) == (1, {})


@pytest.mark.parametrize("token", ["", TOKEN])
def test_nobody_answers_without_the_operators_token(token: str) -> None:
    bench = with_a_question()
    assert answer(bench, APPROVES, token).status_code == 401
    assert the_question(bench.store).answer is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"who": "alice"}, "answer"),
        ({"answer": "aprove", "who": "alice"}, "answer"),
        ({"answer": ["approve"], "who": "alice"}, "answer"),
        ({"answer": "approve"}, "who"),
        ({**APPROVES, "wo": "x"}, "wo"),
        ([], None),
    ],
)
def test_a_mistake_in_an_answer_is_told_with_its_field(body: Any, field: str | None) -> None:
    bench = with_a_question()
    response = answer(bench, body)
    assert (response.status_code, response.get_json().get("field")) == (400, field)
    assert the_question(bench.store).answer is None


def test_an_unknown_question_is_a_404() -> None:
    assert answer(with_a_question(), APPROVES, path="/api/v1/questions/q9").status_code == 404
