"""The documentation on a phone: nothing is cut off, and a row of a table is a card."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ViewportSize
from werkzeug.serving import make_server

from receiver.web.app import create_app
from receiver.web.pages.guides import shipped
from tests.browser.chromium import Tab, a_tab
from tests.web.builders import Bench, a_full_store

PHONE: ViewportSize = {"width": 390, "height": 844}
SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
OPEN_FOLDS = "() => document.querySelectorAll('details').forEach(fold => { fold.open = true })"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the pages are served; the documentation needs no live stack."""
    server = make_server("127.0.0.1", 0, create_app(Bench(store=a_full_store()).parts()), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def phone(browser: Browser, address: str) -> Iterator[Tab]:
    with a_tab(browser, address, PHONE) as tab:
        yield tab


def test_no_guide_is_cut_off_on_a_phone(phone: Tab) -> None:
    wide = {}
    for name in (*shipped(), "search?q=node"):
        phone.page.goto(f"/docs/{name}")
        phone.page.evaluate(OPEN_FOLDS)
        wide[name] = phone.page.evaluate(SIDEWAYS)
    assert {name: pixels for name, pixels in wide.items() if pixels} == {}
    assert phone.wrong == []


def test_a_row_of_a_reference_is_a_card_with_the_column_before_each_cell(phone: Tab) -> None:
    phone.page.goto("/docs/configuration.md")
    row = phone.page.locator(".guide tbody tr").first
    boxes = [cell.bounding_box() for cell in row.locator("td").all()]
    tops = [box["y"] for box in boxes if box]
    assert len(tops) == 3
    assert tops == sorted(set(tops))
    label = "cell => getComputedStyle(cell, '::before').content"
    assert row.locator("td").nth(2).evaluate(label) == '"meaning: "'
