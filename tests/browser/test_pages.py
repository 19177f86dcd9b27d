"""Every page in a real browser, over a stack on which everything happens at once: what all of them promise."""

import hashlib

import pytest
from playwright.sync_api import Browser

from tests.browser.accessibility import AXE, findings, load
from tests.browser.chromium import DESK, PHONE, a_tab
from tests.browser.keyboard import go_to, stops
from tests.browser.live import LiveStack
from tests.browser.places import ANSWERS_404, PLACES, path_of, token_for

SIZES = {"wide": DESK, "phone": PHONE}
NPM = "66a8aaa95a8b044a7fd74a5435873bf04ff65a1ca75567c921b7509742085a14"  # package/axe.min.js of axe-core 4.12.1

# What sticks out may be cut off by an ancestor and never scroll: each element is asked, but for what scrolls in itself.
OUTSIDE = """() => [...document.querySelectorAll('header, header *, main, main *, footer *')]
    .filter(e => e.checkVisibility() && !e.closest('.sr, pre, svg, table.cards thead'))
    .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map(e => `${e.tagName} ${e.className}: ${e.textContent.trim().slice(0, 40)}`).slice(0, 5)"""


@pytest.fixture(scope="session")
def url(scene: LiveStack) -> str:
    """Where the pages are."""
    return scene.places.url("receiver")


@pytest.mark.parametrize("place", PLACES)
def test_a_page_asks_for_nothing_that_fails_or_is_not_ours_and_breaks_no_policy(
    place: str, browser: Browser, scene: LiveStack, url: str
) -> None:
    with a_tab(browser, url) as tab:
        response = tab.page.goto(path_of(place, scene), wait_until="networkidle")

        assert response is not None
        assert response.status == (404 if place in ANSWERS_404 else 200)
        assert tab.page.locator("main h1, main h2").count() > 0
        assert [w for w in tab.wrong if place not in ANSWERS_404 or "404" not in w] == []


@pytest.mark.parametrize("place", PLACES)
def test_axe_finds_nothing_serious_wide_and_on_a_phone_light_and_dark(
    place: str, browser: Browser, scene: LiveStack, url: str
) -> None:
    with a_tab(browser, url, token=token_for(place)) as tab:
        tab.page.goto(path_of(place, scene))
        load(tab.page)
        found = []
        for name, size in SIZES.items():
            tab.page.set_viewport_size(size)
            tab.page.emulate_media(color_scheme="light")
            found += [f"{name}: {finding}" for finding in findings(tab.page)]
            tab.page.emulate_media(color_scheme="dark")  # changes nothing but colours
            found += [f"{name}, dark: {finding}" for finding in findings(tab.page, "color-contrast")]

        assert found == []


def test_axe_does_find_what_is_wrong(browser: Browser, url: str) -> None:
    wrong = """() => {
        document.querySelector('main').innerHTML = '<img src="/static/icon.svg"><button></button><p>grey on grey</p>';
        document.querySelector('main p').style.color = '#999';
    }"""
    with a_tab(browser, url) as tab:
        tab.page.goto("/")
        tab.page.evaluate(wrong)
        load(tab.page)

        assert {"image-alt", "button-name", "color-contrast"} <= {f.split()[0] for f in findings(tab.page)}


def test_axe_is_what_npm_has() -> None:
    assert hashlib.sha256(AXE.read_bytes().rstrip(b"\n")).hexdigest() == NPM


@pytest.mark.parametrize("place", PLACES)
def test_no_page_scrolls_sideways(place: str, browser: Browser, scene: LiveStack, url: str) -> None:
    with a_tab(browser, url, token=token_for(place)) as tab:
        tab.page.goto(path_of(place, scene))
        out = {}
        for width in (320, 375, 768, 1024):
            tab.page.set_viewport_size({"width": width, "height": 700})
            out[width] = tab.page.evaluate(OUTSIDE)

        assert {width: found for width, found in out.items() if found} == {}


@pytest.mark.parametrize("place", PLACES)
def test_a_page_says_the_same_without_scripts(place: str, browser: Browser, scene: LiveStack, url: str) -> None:
    path = path_of(place, scene)

    def headings(scripts: bool) -> list[str]:
        with a_tab(browser, url, scripts=scripts) as tab:
            tab.page.goto(path)
            assert [w for w in tab.wrong if place not in ANSWERS_404 or "404" not in w] == []
            return tab.page.locator("h1, h2, h3").all_inner_texts()

    assert headings(scripts=False) == headings(scripts=True) != []


@pytest.mark.parametrize("place", PLACES)
def test_tab_goes_through_a_page_from_the_skip_link_on_and_what_has_the_focus_is_seen(
    place: str, browser: Browser, scene: LiveStack, url: str
) -> None:
    with a_tab(browser, url) as tab:
        tab.page.goto(path_of(place, scene))
        passed = stops(tab.page)

        assert list(passed)[:5] == ["Skip to the content", "GPU autoscaler", "Overview", "Costs", "Sources"]
        assert [words for words, seen in passed.items() if not seen] == []


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
        said = tab.page.inner_text("main")

    for what in (
        "2 nodes on the way",  # l40s has grown
        "no GPU of this kind is free",  # h100
        "silenced in Alertmanager by ben",  # a100
        "Pin of 1 node by ada",  # batch
        "window closed",  # notebooks
        "ml/quantum-0",  # fits nowhere
        "budget of team language",
        "heartbeat",
    ):
        assert what in said
