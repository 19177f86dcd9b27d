"""The page of a replay in a real browser: a file that is opened from a disk, wide and on a phone, light and dark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser

from receiver.cli.main import main
from tests.browser.accessibility import CONTRAST, OVERFLOWING_ELEMENTS, findings
from tests.browser.chromium import DESK, PHONE, Tab, a_tab

TRACES = Path(__file__).parents[1] / "replay" / "traces"


@pytest.fixture(scope="module")
def tab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """The page of a small trace under the product and two peers, with everything unfolded."""
    path = tmp_path_factory.mktemp("replay") / "page.html"
    words = ["replay", "--trace", str(TRACES / "office.csv"), "--max-gpus", "32", "--html", str(path)]
    for peer in ("cluster-autoscaler", "karpenter-when-empty"):
        words += ["--compare", peer]
    assert CliRunner().invoke(main, words).exit_code == 0
    with a_tab(browser, "file://") as opened:
        opened.page.goto(path.as_uri())
        opened.page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true; })")
        yield opened


def test_the_page_obeys_its_own_security_policy_and_asks_nobody(tab: Tab) -> None:
    assert tab.wrong == []
    background = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(246, 247, 249)"  # so that the style sheet was let in


def test_axe_finds_nothing_serious_on_it(tab: Tab) -> None:
    tab.page.set_viewport_size(PHONE)
    tab.page.emulate_media(color_scheme="light")
    light = findings(tab.page)
    tab.page.emulate_media(color_scheme="dark")  # changes nothing but colours
    assert (light, findings(tab.page, only=CONTRAST)) == ([], [])


def test_it_does_not_scroll_sideways(tab: Tab) -> None:
    out = {}
    for width in (320, 375, 768, 1280):
        tab.page.set_viewport_size({"width": width, "height": 700})
        out[width] = tab.page.evaluate(OVERFLOWING_ELEMENTS)
    assert {width: found for width, found in out.items() if found} == {}


def test_bars_are_drawn_inside_their_picture(tab: Tab) -> None:
    tab.page.set_viewport_size(DESK)
    outside = """() => [...document.querySelectorAll('.picture > svg')].flatMap(svg => {
        const frame = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('rect')].filter(it => {
            const box = it.getBoundingClientRect();
            return box.left < frame.left - 2 || box.right > frame.right + 2 || box.top < frame.top - 2
                || box.bottom > frame.bottom + 2;
        }).map(it => it.outerHTML.slice(0, 80));
    })"""
    assert tab.page.evaluate(outside) == []
    assert tab.page.locator(".picture rect").count() == 6
