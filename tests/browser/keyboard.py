"""A reader without a mouse: moves on by Tab alone and knows what has the focus."""

from playwright.sync_api import Page

STOPS = 150  # more than any page has

_FOCUSED = """() => {
    const e = document.activeElement;
    if (!e || e === document.body || e === document.documentElement) return '';
    const label = e.labels?.length ? e.labels[0].innerText : '';
    return (e.getAttribute('aria-label') || label || e.innerText || e.value || e.name || '').trim().split('\\n')[0];
}"""
_MARKED = """() => {
    const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
    const on_screen = box.width > 1 && box.height > 1 && box.left >= 0 && box.right <= innerWidth
        && box.bottom > 0 && box.top < innerHeight;
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
    return on_screen && (outlined || style.boxShadow !== 'none');
}"""


def focused(page: Page) -> str:
    """What has the focus, in its own words; empty when nothing has."""
    found: str = page.evaluate(_FOCUSED)
    return found


def stops(page: Page) -> dict[str, bool]:
    """Press Tab until the focus leaves the page; return what had it, in order, and whether that could be seen."""
    found: dict[str, bool] = {}
    for _ in range(STOPS):
        page.keyboard.press("Tab")
        here = focused(page)
        if not here:
            return found
        found[here] = found.get(here, True) and bool(page.evaluate(_MARKED))
    raise AssertionError(f"the focus does not leave the page: {list(found)[-5:]}")


def go_to(page: Page, words: str) -> None:
    """Press Tab until what has the focus begins with *words*; AssertionError when it never does."""
    passed: list[str] = []
    for _ in range(STOPS):
        page.keyboard.press("Tab")
        here = focused(page)
        if here.startswith(words):
            return
        passed.append(here)
    raise AssertionError(f"Tab never comes to {words!r}, only to {passed}")
