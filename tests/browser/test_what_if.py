"""A what-if question asked and answered in a real browser, wide and on a phone."""

from playwright.sync_api import Browser, expect

from tests.browser.accessibility import CONTRAST, OVERFLOWING_ELEMENTS, findings
from tests.browser.chromium import PHONE, a_tab
from tests.browser.live import LiveStack
from tests.browser.places import token_for


def test_an_answer_stands_above_the_form_and_reads_well_on_a_phone(browser: Browser, scene: LiveStack) -> None:
    with a_tab(browser, scene.places.url("receiver"), token=token_for("what-if")) as tab:
        page = tab.page
        page.goto("/what-if")
        page.get_by_label("Keys that differ").fill("pools.l40s.max_nodes: 1")
        page.get_by_role("button", name="Compare as changes").click()
        expect(page.get_by_role("heading", name="Pools")).to_be_visible()
        expect(page.get_by_role("row", name="l40s")).to_be_visible()
        found = findings(page)
        page.set_viewport_size(PHONE)
        assert found + findings(page, but=CONTRAST) == []
        assert page.evaluate(OVERFLOWING_ELEMENTS) == []
