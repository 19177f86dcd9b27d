"""People act in a real browser: they answer from a message, log in and override by keyboard alone, and where reading is
closed they log in first."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Browser, expect
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from demo.processes import free_port
from simulator.server import Simulator
from tests.browser.chromium import a_tab
from tests.browser.keyboard import focused, go_to
from tests.e2e.clouds import a_cloud, required
from tests.e2e.installing import Install, a_beating_prometheus, installing
from tests.e2e.receivers import OPERATOR_TOKEN, Receiver, a_pool
from tests.e2e.waiting import until
from tests.payloads import heartbeat

READER_TOKEN = "SECRET-reader-token-of-the-tests"


@pytest.fixture(scope="module")
def cloud() -> Iterator[Simulator]:
    """A cloud with one pool at zero nodes."""
    with a_cloud() as simulator:
        yield simulator


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    """What installs receivers."""
    folder: Path = tmp_path_factory.mktemp("acting")
    with a_beating_prometheus() as prometheus, installing(folder, prometheus) as install:
        yield install


@pytest.fixture(scope="module")
def receiver(cloud: Simulator, install: Install) -> Receiver:
    """A receiver that whoever reaches it may read."""
    return install(cloud).serve()


@pytest.fixture(scope="module")
def closed(cloud: Simulator, install: Install, receiver: Receiver) -> Receiver:
    """One that only those with a token may read; it waits for its turn, for the other one writes."""
    environ = {"GPU_AUTOSCALER_READER_TOKEN": READER_TOKEN}
    closed = install(cloud, "closed", environ, web={"reading": "token"}).start()
    until(lambda: closed.get("/healthz").ok, "a page")
    return closed


def test_an_operator_logs_in_and_pins_a_pool_by_keyboard_alone(
    browser: Browser, cloud: Simulator, receiver: Receiver
) -> None:
    with a_tab(browser, receiver.url) as tab:
        page, keys = tab.page, tab.page.keyboard
        page.goto("/pools/l40s/overrides")
        go_to(page, "log in as operator")
        keys.press("Enter")
        page.wait_for_url(re.compile("/login"))
        go_to(page, "Token")
        keys.type(OPERATOR_TOKEN)
        keys.press("Enter")
        expect(page.get_by_role("button", name="Log out")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overrides of l40s")

        go_to(page, "More")
        keys.press("Enter")
        go_to(page, "Pause: ")  # what is chosen unless one says otherwise; arrows choose another kind
        for _ in range(2):
            keys.press("ArrowDown")
        for label, words in (("Nodes", "2"), ("Why", "A demo"), ("Who", "ada"), ("For how long", "2 hours")):
            go_to(page, label)
            keys.type(words)
        keys.press("Enter")

        expect(page.get_by_role("status").filter(has_text="Set.")).to_be_visible()
        expect(page.get_by_role("heading", name="Pin of 2 nodes")).to_be_visible()
        until(lambda: required(cloud) == 2, "two nodes asked for")
        until(lambda: [o["who"] for o in receiver.pool()["overrides"]] == ["ada"], "the pin on the pool")
        assert tab.wrong == []


def test_a_mistake_takes_the_focus_and_leads_to_its_field(browser: Browser, receiver: Receiver) -> None:
    with a_tab(browser, receiver.url) as tab:
        page, keys = tab.page, tab.page.keyboard
        page.goto("/login?next=/pools/l40s/overrides")
        page.get_by_label("Token").fill(OPERATOR_TOKEN)
        keys.press("Enter")
        page.get_by_text("More").click()
        page.get_by_label("Snooze").check()
        page.get_by_label("Why").fill("Nobody said who")
        page.get_by_label("For how long").fill("2 eternities")
        keys.press("Enter")

        expect(page.get_by_role("alert").first).to_be_focused()
        assert page.title().startswith("Error: ")
        keys.press("Tab")
        keys.press("Enter")
        expect(page.get_by_label("For how long")).to_be_focused()
        assert focused(page) == "For how long"
        assert page.get_by_label("For how long").input_value() == "2 eternities"
        assert page.get_by_label("Why").input_value() == "Nobody said who"


def test_a_preset_is_one_tap_and_the_name_is_offered_the_next_time(browser: Browser, receiver: Receiver) -> None:
    with a_tab(browser, receiver.url, token=OPERATOR_TOKEN) as tab:
        page = tab.page
        page.goto("/pools/all/overrides")
        page.get_by_label("maintenance").check()
        page.get_by_label("Your name").last.fill("ada")
        page.get_by_role("button", name="Pause every pool for 30 min").click()

        expect(page.get_by_role("status").filter(has_text="Set.")).to_be_visible()
        expect(page.get_by_label("Your name").last).to_have_value("ada")
        page.get_by_role("button", name="End it (pause").click()
        expect(page.get_by_role("status").filter(has_text="Ended.")).to_be_visible()
        assert tab.wrong == []


def test_a_wrong_token_is_refused_in_words_and_asked_for_again(browser: Browser, receiver: Receiver) -> None:
    with a_tab(browser, receiver.url) as tab:
        tab.page.goto("/login")
        tab.page.get_by_label("Token").fill("a guess")
        tab.page.keyboard.press("Enter")

        expect(tab.page.get_by_role("alert")).to_be_visible()
        expect(tab.page.get_by_label("Token")).to_be_focused()
        expect(tab.page.get_by_label("Token")).to_have_value("")


def test_where_reading_is_closed_every_page_leads_to_the_log_in_and_back(browser: Browser, closed: Receiver) -> None:
    with a_tab(browser, closed.url) as tab:
        for path in ("/", "/costs?team=vision", "/sources", "/pools/l40s", "/pools/l40s/overrides", "/decisions/1"):
            tab.page.context.clear_cookies()
            tab.page.goto(path)
            expect(tab.page.get_by_role("heading", level=1)).to_have_text("Log in")
            tab.page.get_by_label("Token").fill(READER_TOKEN)
            tab.page.keyboard.press("Enter")
            tab.page.wait_for_url(path)


def test_a_reader_is_offered_nothing_that_acts(browser: Browser, closed: Receiver) -> None:
    with a_tab(browser, closed.url) as tab:
        tab.page.goto("/pools/l40s/overrides")
        tab.page.get_by_label("Token").fill(READER_TOKEN)
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("/pools/l40s/overrides")

        assert tab.page.locator("form").count() == 1  # to log out
        expect(tab.page.get_by_role("button")).to_have_text("Log out")


@pytest.fixture
def chat() -> Iterator[tuple[str, list[str]]]:
    """The address of a chat, and every message that has come."""
    told: list[str] = []

    def take(request: Request) -> Response:
        message = json.loads(request.get_data())
        told.append(f"{message['title']}\n{message['message']}")
        return Response(status=200)

    with HTTPServer(host="127.0.0.1", port=0, threaded=True) as server:
        server.expect_request("/hook", method="POST").respond_with_handler(take)
        yield f"json://127.0.0.1:{server.port}/hook", told


@pytest.fixture
def asking(install: Install, chat: tuple[str, list[str]], tmp_path: Path) -> Iterator[Receiver]:
    """A receiver that asks in the chat before its one idle node goes; what is paid for is three minutes to that."""
    address = f"127.0.0.1:{free_port()}"
    with a_cloud(count=1) as cloud:
        approval = {"removals": True, "wait": "175s", "unanswered": "proceed"}
        asking = install(
            cloud,
            "asking",
            {
                "GPU_AUTOSCALER_LISTEN": address,
                "GPU_AUTOSCALER_NOTIFY_URLS": chat[0],
                "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{tmp_path}/asking.db",
            },
            public_url=f"http://{address}",
            tick="1s",
            billing={"granularity": "4m", "removal_margin": "1m"},
            pools=[a_pool(idle_for="1s", approval=approval)],
        )
        asking.address = address
        asking.serve().deliver(heartbeat())  # without a sign of life nothing is removed
        yield asking
        asking.end()


def test_a_message_asks_its_link_changes_nothing_until_a_click_and_the_click_snoozes(
    browser: Browser, asking: Receiver, chat: tuple[str, list[str]]
) -> None:
    def questions() -> list[tuple[str, str | None]]:
        return [(q["state"], q["answer"]) for q in asking.get("/api/v1/questions").json()]

    until(lambda: any("/answer/" in message for message in chat[1]), "a message with a link")
    message = next(message for message in chat[1] if "/answer/" in message)
    link = re.search(rf"{re.escape(asking.url)}/answer/[^\s)>\"]+", message)
    assert link is not None, message

    for method in ("GET", "HEAD"):  # as a chat does that shows what is behind a link
        assert requests.request(method, link[0], timeout=60).status_code == 200
    with a_tab(browser, asking.url) as tab:
        page = tab.page
        page.goto(link[0])
        expect(page.get_by_role("heading", level=1)).to_contain_text("l40s")
        assert questions() == [("open", None)]
        assert asking.pool()["overrides"] == []

        go_to(page, "Your name")
        page.keyboard.type("ada")
        page.keyboard.press("Enter")  # a name alone sends nothing
        go_to(page, "Not now (1 h)")
        assert questions() == [("open", None)]
        page.keyboard.press("Enter")
        expect(page.locator("#outcome")).to_contain_text("ada answered")

        assert questions() == [("answered", "snooze-1h")]
        until(lambda: [o["kind"] for o in asking.pool()["overrides"]] == ["snooze"], "a snooze on the pool")
        page.goto("/pools/l40s")
        expect(page.get_by_role("main")).to_contain_text("Snooze by ada")

        def latest() -> str:
            return asking.get("/api/v1/decisions?limit=1").text

        until(lambda: "ada" in latest(), "a decision that knows of the snooze")
        page.goto(f"/decisions/{json.loads(latest())[0]['id']}")
        expect(page.get_by_role("main")).to_contain_text("ada")
        assert tab.wrong == []
