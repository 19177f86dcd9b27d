"""A page that brings itself up to date in a real browser: what it leaves alone, and what it says when it cannot.

Over a store in memory, so that the server can be told what to answer; the page's clock is moved instead of waited for.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Response, redirect, request
from playwright.sync_api import Browser, Page, expect
from werkzeug.serving import make_server
from werkzeug.wrappers import Response as Answer

from receiver.web.app import create_app
from tests.browser.chromium import a_tab
from tests.web.builders import COMPILED, L40S, NOW, Bench, a_full_store, a_picture, a_pool

PATH = f"/pools/{L40S}"


@dataclass
class Shown:
    """A page over such a store. *answers* takes the place of every page while it is set, *asked* are their paths."""

    bench: Bench = field(default_factory=lambda: Bench(store=a_full_store()))
    answers: Answer | None = None
    asked: list[str] = field(default_factory=list)
    page: Page = field(init=False)

    def now(self, **pool: Any) -> None:
        """Let the last step have found *pool*."""
        self.bench.store.keep_snapshot(a_picture(pools=[a_pool(**pool)]), NOW)

    def later(self) -> None:
        """Let the time of one update pass."""
        self.page.clock.run_for(16_000)

    @property
    def ready(self) -> Any:
        """Where the page says how many nodes are ready."""
        return self.page.locator("#now-region .figures dd").first

    @property
    def updates(self) -> Any:
        """Where it says how updates do."""
        return self.page.locator("#updates")


@pytest.fixture
def shown(browser: Browser) -> Iterator[Shown]:
    """A pool's page that has just been opened, with three nodes ready."""
    given = Shown()
    app = create_app(given.bench.parts())
    app.jinja_env.bytecode_cache = COMPILED

    @app.before_request
    def instead() -> Answer | None:
        if request.path.startswith("/static/"):
            return None
        given.asked.append(request.path)
        return given.answers

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        with a_tab(browser, f"http://127.0.0.1:{server.server_port}") as tab:
            given.page = tab.page
            given.page.clock.install()
            given.page.goto(PATH)
            expect(given.ready).to_have_text("3")
            yield given
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_region_in_which_somebody_wrote_waits_and_the_others_go_on(shown: Shown) -> None:
    form = '<form><input id="mine"></form>'
    shown.page.locator("#now-region").evaluate("(region, form) => region.insertAdjacentHTML('beforeend', form)", form)
    shown.page.fill("#mine", "half a sentence")
    shown.page.evaluate("document.activeElement.blur()")
    shown.now(ready=5, because="moved on")
    shown.page.evaluate("document.querySelector('#why-region').append('stale')")
    shown.later()

    expect(shown.updates).to_contain_text("What you write in or select waits for you")
    expect(shown.page.locator("#why-region")).not_to_contain_text("stale")
    expect(shown.page.locator("#mine")).to_have_value("half a sentence")
    expect(shown.ready).to_have_text("3")


def test_selected_text_stays_selected_until_the_reader_lets_go(shown: Shown) -> None:
    shown.page.evaluate("getSelection().selectAllChildren(document.querySelector('#now-region'))")
    shown.now(ready=5)
    shown.later()
    expect(shown.updates).to_contain_text("waits for you")
    assert "Nodes ready" in shown.page.evaluate("getSelection().toString()")

    shown.page.evaluate("getSelection().removeAllRanges()")
    shown.later()
    expect(shown.ready).to_have_text("5")


def test_a_server_that_fails_is_told_and_updates_go_on_when_it_is_back(shown: Shown) -> None:
    shown.answers = Response("down", 503)
    shown.later()
    expect(shown.updates).to_contain_text("Updates stopped: the server answers 503.")
    expect(shown.page.get_by_role("link", name="Reload")).to_be_visible()
    expect(shown.ready).to_have_text("3")

    shown.answers = None
    shown.now(ready=5)
    shown.later()
    expect(shown.ready).to_have_text("5")
    expect(shown.updates).to_contain_text("Updates every 15 s.")
    expect(shown.page.get_by_role("link", name="Reload")).to_have_count(0)


def test_a_server_that_does_not_answer_is_told(shown: Shown) -> None:
    shown.page.context.set_offline(True)
    shown.later()
    expect(shown.updates).to_contain_text("the server does not answer")


def test_who_is_sent_to_the_log_in_is_told_and_asked_no_more(shown: Shown) -> None:
    shown.answers = redirect("/login")
    shown.later()
    expect(shown.updates).to_contain_text("log in to read on")
    shown.later()
    assert shown.asked == [PATH, PATH]  # when it was opened, and once since; the log-in's page never


def test_updates_can_be_paused_and_go_on_at_once(shown: Shown) -> None:
    shown.page.get_by_role("button", name="Pause updates").click()
    shown.now(ready=5)
    shown.later()
    expect(shown.ready).to_have_text("3")

    shown.page.get_by_role("button", name="Go on updating").click()
    expect(shown.ready).to_have_text("5")


def test_an_element_that_says_the_same_is_the_same_element_after_an_update(shown: Shown) -> None:
    kept = shown.page.evaluate_handle("document.querySelector('#nodes-region tbody tr:nth-child(2)')")
    shown.now(ready=5)
    shown.later()
    expect(shown.ready).to_have_text("5")
    assert kept.evaluate("row => row.isConnected")
