"""Every page in a real browser, over a stack on which everything happens at once: what all of them promise."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.accessibility import AXE, CONTRAST, OVERFLOWING_ELEMENTS, findings
from tests.browser.chromium import DESK, PHONE, Tab, a_tab
from tests.browser.keyboard import go_to, stops
from tests.browser.live import LiveStack
from tests.browser.places import ANSWERS_404, PLACES, path_of, token_for

ON_A_PHONE = (
    "what-if",
    "overview",
    "decisions",
    "decision-grow",
    "costs",
    "pool-held",
    "sources",
    "question",
    "budgets",
    "overrides",
    "log-in",
    "runbook",
)  # a kind each
IN_THREE_SCREENS = (
    "overview",
    "decisions",
    "decision-grow",
    "decision-shrink",
    "decision-hold",
    "costs",
    "pool",
    "pool-held",
    "sources",
)
NPM = "66a8aaa95a8b044a7fd74a5435873bf04ff65a1ca75567c921b7509742085a14"  # package/axe.min.js of axe-core 4.12.1


@pytest.fixture(scope="module")
def url(scene: LiveStack) -> str:
    """Where the pages are."""
    return scene.places.url("receiver")


@pytest.fixture(scope="module", params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    """The name of a page."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def reader(browser: Browser, url: str) -> Iterator[Callable[[str, bool], Tab]]:
    """Return the tab in which one with a token reads, with or without scripts: one for all pages."""
    tabs: dict[tuple[str, bool], Tab] = {}
    with ExitStack() as ends:

        def tab(token: str, scripts: bool) -> Tab:
            if (token, scripts) not in tabs:
                tabs[token, scripts] = ends.enter_context(a_tab(browser, url, token=token, scripts=scripts))
            return tabs[token, scripts]

        yield tab


@pytest.fixture(scope="module")
def opened(place: str, scene: LiveStack, reader: Callable[[str, bool], Tab]) -> Tab:
    """That page, once for all tests of it, as the one sees it who sees most."""
    tab = reader(token_for(place), True)
    tab.wrong.clear()
    tab.page.goto(path_of(place, scene))
    return tab


@pytest.fixture
def tab(opened: Tab) -> Tab:
    """That page on a desk, in light, with the focus nowhere."""
    opened.page.set_viewport_size(DESK)
    opened.page.emulate_media(color_scheme="light")
    return opened


@pytest.fixture
def unfolded(tab: Tab) -> Iterator[Tab]:
    """That page with everything unfolded."""
    tab.page.evaluate("document.querySelectorAll('details:not([open])').forEach(e => e.open = e.wasFolded = true)")
    yield tab
    tab.page.evaluate("document.querySelectorAll('details').forEach(e => e.open = e.open && !e.wasFolded)")


def test_axe_finds_nothing_serious_light_and_dark_and_on_a_phone(place: str, unfolded: Tab) -> None:
    tab = unfolded
    found = [f"wide: {finding}" for finding in findings(tab.page)]
    tab.page.emulate_media(color_scheme="dark")  # changes nothing but colours
    found += [f"dark: {finding}" for finding in findings(tab.page, only=CONTRAST)]
    if place in ON_A_PHONE:
        tab.page.set_viewport_size(PHONE)  # changes no colours
        found += [f"phone: {finding}" for finding in findings(tab.page, but=CONTRAST)]

    assert found == []


def test_no_page_scrolls_sideways(unfolded: Tab) -> None:
    tab, out = unfolded, {}
    for width in (320, 375, 768, 1030):
        tab.page.set_viewport_size({"width": width, "height": 700})
        out[width] = tab.page.evaluate(OVERFLOWING_ELEMENTS)

    assert {width: found for width, found in out.items() if found} == {}


def test_tab_goes_through_a_page_from_the_skip_link_on_and_what_has_the_focus_is_seen(tab: Tab) -> None:
    passed = stops(tab.page)

    words = list(passed)
    assert words[:5] == ["Skip to the content", "GPU autoscaler prod-lon1", "Now", "Pool", "Costs"]
    assert {"Decisions", "What if", "Sources", "Docs"} <= set(words)
    assert [words for words, seen in passed.items() if not seen] == []


def test_a_page_says_the_same_without_scripts(place: str, tab: Tab, reader: Callable[[str, bool], Tab]) -> None:
    plain = reader(token_for(place), False)
    tab.page.reload()
    plain.page.goto(tab.page.url)
    headings = plain.page.locator("h1, h2, h3").all_inner_texts()

    assert headings == tab.page.locator("h1, h2, h3").all_inner_texts()
    assert len(headings) > 0


def test_a_page_asks_for_nothing_that_fails_or_is_not_ours_and_breaks_no_policy(place: str, tab: Tab) -> None:
    # The last of those that look at the page: it judges all that the page did meanwhile.
    assert tab.page.locator("main h1").count() == 1
    assert [w for w in tab.wrong if not (place in ANSWERS_404 and "404" in w)] == []


def test_axe_does_find_what_is_wrong(browser: Browser, url: str) -> None:
    wrong = """() => {
        document.querySelector('main').innerHTML = '<img src="/static/icon.svg"><button></button><p>grey on grey</p>';
        document.querySelector('main p').style.color = '#999';
    }"""
    with a_tab(browser, url) as tab:
        tab.page.goto("/")
        tab.page.evaluate(wrong)

        assert {"image-alt", "button-name", "color-contrast"} <= {f.split()[0] for f in findings(tab.page)}


def test_axe_is_what_npm_has() -> None:
    assert hashlib.sha256(AXE.read_bytes().rstrip(b"\n")).hexdigest() == NPM


def test_the_skip_link_leads_past_the_navigation(browser: Browser, url: str) -> None:
    with a_tab(browser, url) as tab:
        tab.page.goto("/costs")
        go_to(tab.page, "Skip to the content")
        tab.page.keyboard.press("Enter")
        tab.page.keyboard.press("Tab")

        assert tab.page.evaluate("document.activeElement.closest('main') !== null")


def test_the_overview_shows_every_pool_as_it_is(browser: Browser, scene: LiveStack, url: str) -> None:
    with a_tab(browser, url) as tab:
        tab.page.goto("/")
        assert "ml/quantum-0" not in tab.page.inner_text("main")
        tab.page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
        said = tab.page.inner_text("main")

    for what in (
        "2 on the way",  # l40s has grown
        "ml/pretrain-0",  # waits for h100, whose stock was out when the scene began; later its budget holds it
        "silenced in Alertmanager by ben",  # a100
        "Pin of 1 node by ada",  # batch
        "window closed",  # notebooks
        "ml/quantum-0",  # fits nowhere
        "budget of team language",
        "The heartbeat alert no longer arrives",
    ):
        assert what in said


@pytest.mark.parametrize("where", IN_THREE_SCREENS)
def test_a_page_fits_on_three_screens_of_a_phone(browser: Browser, scene: LiveStack, url: str, where: str) -> None:
    with a_tab(browser, url, PHONE, token=token_for(where)) as tab:
        tab.page.goto(path_of(where, scene))

        assert tab.page.evaluate("document.documentElement.scrollHeight") <= 3 * PHONE["height"]


def test_decisions_are_filtered_by_keyboard_without_scripts(browser: Browser, scene: LiveStack, url: str) -> None:
    with a_tab(browser, url, PHONE, scripts=False) as tab:
        tab.page.goto("/decisions")
        tab.page.get_by_label("Result").focus()
        tab.page.keyboard.type("blocked")
        go_to(tab.page, "Show")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("**kind=blocked**")

        states = tab.page.locator(".decisions .chip").all_inner_texts()
        assert states
        assert set(states) == {"blocked"}


def test_an_approval_request_fits_on_one_screen_of_a_phone(browser: Browser, scene: LiveStack, url: str) -> None:
    with a_tab(browser, url, {"width": 390, "height": 844}) as tab:
        tab.page.goto(path_of("question", scene))
        last = tab.page.get_by_role("button", name="Reject").bounding_box()
        height = tab.page.evaluate("document.body.getBoundingClientRect().height")

    assert height <= 844
    assert last is not None
    assert last["height"] >= 44


def test_a_name_is_offered_behind_a_link_from_another_site(browser: Browser, scene: LiveStack, url: str) -> None:
    with a_tab(browser, url) as tab:
        tab.page.context.add_cookies(
            [{"name": "gpu_autoscaler_name", "value": "ada", "url": url, "sameSite": "Strict", "httpOnly": True}]
        )
        link = f"{url}{path_of('question', scene)}"
        chat = "https://chat.example.com/"
        tab.page.route(chat, lambda route: route.fulfill(content_type="text/html", body=f'<a href="{link}">Answer</a>'))
        tab.page.goto(chat)
        tab.page.get_by_role("link").click()

        expect(tab.page.get_by_label("Your name")).to_have_value("ada")


def test_the_guardrails_that_passed_unfold_by_keyboard_without_scripts(
    browser: Browser, scene: LiveStack, url: str
) -> None:
    with a_tab(browser, url, PHONE, scripts=False) as tab:
        tab.page.goto(path_of("decision-grow", scene))
        passed = tab.page.get_by_role("link", name="one_change_at_a_time")
        summary = tab.page.locator("summary", has_text="guardrails passed")
        assert not passed.is_visible()
        summary.focus()
        tab.page.keyboard.press("Enter")

        assert passed.is_visible()


def test_a_page_brings_itself_up_to_date_and_leaves_scroll_focus_and_what_was_unfolded(
    browser: Browser, scene: LiveStack, url: str
) -> None:
    with a_tab(browser, url) as tab:
        page = tab.page
        page.clock.install()
        page.goto("/")
        unfolded = page.locator("#decisions-fold")
        unfolded.locator("summary").click()
        # One of the newest, as new ones push the last off the page, and the first in view: a new one comes in above.
        link = page.locator("main .decisions a").element_handles()[0]
        page.set_viewport_size({"width": 1280, "height": 240})
        link.focus()
        link.evaluate("e => e.scrollIntoView()")
        before = (page.evaluate("scrollY"), link.bounding_box())
        assert before[0] > 100

        scene.submit({"id": "latecomer", "duration": "1h", "gpus_per_pod": 64, "namespace": "ml", "team": "vision"})
        scene.wait_until(
            lambda: "ml/latecomer-0" in scene.get("receiver", "/api/v1/waiting", text=True), 20, "a pod that waits"
        )
        page.clock.fast_forward("00:20")
        page.locator("main").get_by_text("ml/latecomer-0").first.wait_for(state="attached")

        assert unfolded.evaluate("e => e.open")
        assert link.evaluate("e => e === document.activeElement")
        box = link.bounding_box()
        assert box is not None
        assert before[1] is not None
        assert abs(box["y"] - before[1]["y"]) < 5
        assert tab.wrong == []
