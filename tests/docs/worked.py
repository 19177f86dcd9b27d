"""The example of docs/how-it-decides.md as a life: the page shows what it gives, in a table that is generated."""

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from receiver.core.model.policy import Billing, Budget
from simulator.store import MemoryStore
from tests.docs.pages import ROOT
from tests.given import lives
from tests.given.life import TICK, Life, a_job

MINUTE = timedelta(minutes=1)
PAGE = ROOT / "docs" / "how-it-decides.md"
MARKED = re.compile(r"(<!-- lived: an_hour -->\n\n\|.*\n\|.*\n)(?:\|.*\n)*")


def an_hour(store: MemoryStore) -> Life:
    """One pod of ten minutes, and the node that is bought for it, from beginning to end."""
    life = lives.waiting(store, a_job(duration=10 * MINUTE), budget=Budget(monthly_usd=Decimal(100)), billing=Billing())
    for length, tick in ((4, TICK), (10, MINUTE), (1, TICK), (42, 3 * MINUTE), (2, TICK)):
        life.run(length * MINUTE, tick)  # the tick of ten seconds shows only where something changes
    return life


def rows(life: Life) -> list[list[str]]:
    """The decisions as the page's table shows them: when the size or what settled it changed, oldest first."""
    [lived] = life.world.lives
    found: list[list[str]] = []
    last: list[str] = []
    for stored in reversed(life.store.decisions(limit=500)):
        decision = stored.decision
        said = f"{decision.deciding.rule}: {decision.deciding.detail}".replace(lived.hostname, "the node")
        change = [f"{decision.present} -> {decision.target}", said]
        if change != last:  # a signal that comes or goes is stored too, and changes nothing
            found.append([f"{decision.at:%H:%M:%S}", *change])
        last = change
    return found


def filled(page: str) -> str:
    """Return *page* with the table of its example as it is lived now."""
    lived = rows(an_hour(MemoryStore()))
    return MARKED.sub(lambda found: found[1] + "".join(f"| {' | '.join(row)} |\n" for row in lived), page)


def generated() -> dict[Path, str]:
    """Return the page as it should be."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
