"""Two replicas over one store are sent the same at the same moment: it is done and told once, and nobody is refused."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from receiver.adapters.store import SqlStore, open_store
from receiver.core.notices.grouping import Seal
from receiver.core.notices.notice import Notice
from tests.adapters.store.builders import migrated
from tests.web.builders import NOW, OPERATOR, Bench, a_question
from tests.web.people import Person, field_of

PATH = "/pools/l40s/overrides"
PIN = {"kind": "pin", "nodes": "4", "for": "2h", "why": "load test", "who": "alice"}


class Together:
    """A replica's store: the first look at what is there is over when the other replica has looked as well."""

    def __init__(self, store: SqlStore, looks: str, gate: threading.Barrier) -> None:
        self._store, self._looks, self._gate = store, looks, gate
        self._met = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != self._looks or self._met:
            return found

        def look(*arguments: Any) -> Any:
            seen = found(*arguments)
            self._met = True
            self._gate.wait(60)
            return seen

        return look


def at_once(store: SqlStore, looks: str, send: Callable[[Bench, int], TestResponse]) -> list[TestResponse]:
    """Return what two replicas answer to *send*."""
    gate = threading.Barrier(2)
    benches = [Bench(store=Together(store, looks, gate), wake=lambda: None) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(send, benches, range(2)))


@pytest.fixture
def store(tmp_path: Path) -> Any:
    opened = open_store(migrated(tmp_path / "store.db"))
    yield opened
    opened.close()


def test_a_form_that_two_replicas_get_at_once_sets_one_override(store: SqlStore) -> None:
    page = Person.at(Bench(store=store))
    page.log_in()
    html = page.get(PATH).text
    form = {**PIN, "form_token": field_of(html, "form_token"), "once": field_of(html, "once")}
    [cookie] = [c for c in [page.client.get_cookie("gpu_autoscaler_session")] if c]

    def send(bench: Bench, _: int) -> TestResponse:
        person = Person.at(bench)
        person.client.set_cookie(cookie.key, cookie.value)
        return person.send(PATH, form)

    answers = at_once(store, "override", send)
    [kept] = store.overrides()
    assert [(a.status_code, a.location) for a in answers] == [(303, f"{PATH}?done={kept.override.id}")] * 2
    assert len(store.notices_due(NOW)) == 1


@pytest.mark.parametrize("words", [("approve", "approve"), ("snooze-1h", "snooze-1h"), ("approve", "snooze-1h")])
def test_a_question_that_is_answered_through_two_replicas_at_once_has_one_answer(
    store: SqlStore, words: tuple[str, str]
) -> None:
    store.ask(a_question("n1"), Notice(topic="question:q1", key="asks", title="n1 may go?", body="", cause="asks"))
    signed = Seal(OPERATOR, store.sealing_key()).sign("q1")

    def send(bench: Bench, n: int) -> TestResponse:
        return Person.at(bench).send(f"/answer/{signed}", {"answer": words[n], "who": words[n]})

    codes = sorted(answer.status_code for answer in at_once(store, "question", send))
    kept = store.question("q1")
    assert kept is not None
    assert codes == ([303, 303] if words[0] == words[1] else [303, 409])
    assert kept.who in words
    assert len(store.overrides()) == (kept.answer != "approve")
    assert len(store.notices_due(NOW)) == 2
