"""A decision is explained a week later as it was made: the page, the API and the command line, to the letter.

By then its pool was renamed, resized, repriced or dropped, the budget is another, the program was upgraded and says
everything in other words, other decisions were made, and the store was pruned.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import SqlStore
from receiver.core.model.actions import Change
from receiver.core.model.policy import Budget, Policy
from receiver.core.model.signals import COMPONENT, Alert, Matcher, Silence
from receiver.ports import Delivery
from receiver.web.api import documents
from tests.cli.asked import ask, serving
from tests.clocks import FixedClock
from tests.core.builders import EVERY_SECOND, a_pool
from tests.given import lives
from tests.given.life import PRICE, Life, a_job, a_policy
from tests.stores import a_store
from tests.web.builders import Bench

MINUTE, HOUR, WEEK = timedelta(minutes=1), timedelta(hours=1), timedelta(days=7)
BUDGET = Budget(monthly_usd=Decimal("3.00"), hold_at=Decimal("0.8"))
NUMBERS: list[int] = []


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One decision as people meet it, less what may differ: how long ago, and what came before and after."""

    page: str
    document: Mapping[str, Any]
    lines: tuple[str, ...]


def without_ages(html: str) -> str:
    """The main part of a page without relative times, neighbours and the banner of the server's present mode."""
    main = re.search(r"<main.*?</main>", html, re.DOTALL)
    assert main is not None
    text = re.sub(r"(<time [^>]*>)[^<]*(</time>)", r"\1\2", main[0])
    text = re.sub(r'<nav class="beside".*?</nav>|<p class="banner.*?</p>', "", text, flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if line.strip())


def shown(store: SqlStore, policy: Policy, at: datetime, mode: str = "act") -> dict[int, Shown]:
    """Every decision of NUMBERS at *at* under *policy*."""
    bench = Bench(store=store, policy=policy, clock=FixedClock(at), mode=mode)
    client, found = bench.client(), {}
    with serving(bench.parts()) as url:
        for number in NUMBERS:
            said = ask(url, "explain", "decision", str(number), at=at)
            assert said.exit_code == 0, said.output
            document = client.get(f"/api/v1/decisions/{number}").get_json()
            lines = [re.sub(r" \([^)]* ago\)", "", line) for line in said.stdout.splitlines()]
            found[number] = Shown(
                page=without_ages(client.get(f"/decisions/{number}").text),
                document={k: v for k, v in document.items() if k not in ("previous", "next")},
                lines=tuple(line for line in lines if not line.startswith("adjacent decisions of this pool")),
            )
    return found


def lived(store: SqlStore) -> Life:
    """A quarter of an hour with an alert, growth, a silence, a hold by the budget and a removal."""
    pool = a_pool(idle_for=MINUTE, shrink_cooldown=MINUTE)
    life = lives.at_zero(store, pool, budget=BUDGET, billing=EVERY_SECOND)
    alert = Alert(
        fingerprint="ab12cd34",
        labels={"alertname": "GpuPodsPending", "action": "scale_up", "component": COMPONENT},
        starts_at=life.now,
    )
    life.alarms.extra = [alert]
    store.remember(Delivery(receiver="test", group_key="g", alerts=(alert,)), life.now)
    life.submit(a_job(duration=MINUTE))
    life.run(4 * MINUTE, tick=MINUTE / 2)
    silence = Silence(
        id="s-1",
        matchers=(Matcher(name="component", value=COMPONENT), Matcher(name="pool", value="l40s")),
        ends_at=life.now + 3 * MINUTE,
        created_by="night shift",
        comment="new driver",
    )
    life.alarms.silences.append(silence)
    life.run(4 * MINUTE, tick=MINUTE / 2)
    life.policy = replace(life.policy, budget=replace(BUDGET, monthly_usd=Decimal("0.01")))
    life.submit(a_job("more"))
    life.run(MINUTE, tick=MINUTE / 2)
    return life


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[dict[int, Shown], dict[int, Shown], dict[int, Shown]]]:
    """The decisions at once, a week later, and then without their pool in the configuration."""
    with a_store() as store, pytest.MonkeyPatch.context() as patch:
        life = lived(store)
        NUMBERS[:] = [d.id for d in reversed(store.decisions(limit=500))]
        at_once = shown(store, life.policy, life.now)
        pool, week = life.policy.pools[0], life.now + WEEK
        patch.setattr(documents, "why", lambda decision: "said otherwise")
        for number in NUMBERS[-3:]:
            stored = store.decision(number)
            assert stored is not None
            store.decided(replace(stored.decision, at=week - HOUR, target=9))
        store.prune(week)
        assert len(store.decisions(limit=500)) > len(NUMBERS), "nothing was decided since"
        renamed = replace(pool, name="cheap", price_usd_per_hour=PRICE * 2, max_nodes=3, idle_for=HOUR)
        later = a_policy(renamed, budget=Budget(monthly_usd=Decimal(9000)))
        dropped = a_policy(replace(pool, id="other-id", name="other"))
        yield at_once, shown(store, later, week, "observe"), shown(store, dropped, week, "observe")


Told = tuple[dict[int, Shown], dict[int, Shown], dict[int, Shown]]


def test_there_was_growth_a_removal_a_hold_by_the_budget_and_a_silence(told: Told) -> None:
    found = [one.document for one in told[0].values()]
    assert {d["verdict"] for d in found} == set(Change)
    held = {r["rule"] for d in found for r in d["reasons"] if r["verdict"] == "holds"}
    assert {"within_budget", "not_silenced"} <= held
    assert {a["kind"] for d in found for a in d["actions"]} == {"grow", "retire"}


@pytest.mark.parametrize("moment", [1, 2], ids=["another configuration", "the pool dropped"])
@pytest.mark.parametrize("face", ["page", "document", "lines"])
def test_a_week_later_a_decision_is_told_as_it_was_made(told: Told, face: str, moment: int) -> None:
    for number, at_once in told[0].items():
        assert getattr(told[moment][number], face) == getattr(at_once, face)


def test_what_is_told_is_the_evidence_of_then(told: Told) -> None:
    grown = next(d for d in told[1].values() if d.document["verdict"] == "grow")
    assert grown.document["pool_name"] == "l40s"
    assert "ab12cd34" in grown.page
    assert "ml/train" in grown.page
    assert any("GpuPodsPending (scale_up), ab12cd34" in line and "delivery 1" in line for line in grown.lines)
    silenced = next(d for d in told[1].values() if held_by(d, "not_silenced"))
    assert any("wait until the silence of night shift ends at" in line for line in silenced.lines)
    assert any("by at least $" in line for d in told[1].values() for line in d.lines)


def held_by(one: Shown, rule: str) -> bool:
    """True when *rule* held the decision."""
    return any((r["rule"], r["verdict"]) == (rule, "holds") for r in one.document["reasons"])
