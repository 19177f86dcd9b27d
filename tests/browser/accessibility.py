"""What axe-core finds on a page, and what sticks out of one.

axe-core is npm's, carried unmodified by a Python package.
"""

from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import Page

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
COUNTS = ("serious", "critical")
CONTRAST = "color-contrast"
# What sticks out may be cut off by an ancestor and never scroll: each element is asked, but for what scrolls in itself.
OVERFLOWING_ELEMENTS = """() => [...document.querySelectorAll('header, header *, main, main *, footer *')]
    .filter(e => e.checkVisibility() && !e.closest('.sr, pre, svg, .scroll > table, table.cards thead'))
    .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map(e => `${e.tagName} ${e.className}: ${e.textContent.trim().slice(0, 40)}`).slice(0, 5)"""


def findings(page: Page, only: str = "", but: str = "") -> list[str]:
    """Return every serious or critical finding, of one rule *only* or of all *but* one: the rule, its words, where."""
    if page.evaluate("typeof axe") == "undefined":  # the debugger evaluates it: no policy of the page forbids that
        page.evaluate(AXE.read_text(encoding="utf-8"))
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if only:
        options["runOnly"] = [only]
    if but:
        options["rules"] = {but: {"enabled": False}}
    found: dict[str, Any] = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{violation['id']} ({violation['impact']}): {violation['help']}: {node['target']}: {node['html'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in COUNTS
        for node in violation["nodes"]
    ]
