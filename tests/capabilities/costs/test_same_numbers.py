"""A number that two outputs print is the same in both: pages, API, metrics, reports, FOCUS, digest and status."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from flask.testing import FlaskClient
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from receiver.capabilities.costs.formats import as_csv, as_text
from receiver.cli.status import about_status
from receiver.core.model.policy import Attribution, Budget, Policy
from receiver.core.money.budget import month_of
from receiver.core.money.cost import units_between
from receiver.core.notices.digest import Week, WeekFound, digest
from receiver.metrics.collector import StoreCollector
from receiver.replay.world.objects import WorldPool
from tests.clocks import FixedClock
from tests.given.life import BIG_SIZE, GPU, HOUR, MINUTE, PRICE, START, Life, a_policy, a_world
from tests.given.pods import bound, waiting
from tests.metrics.scrapes import ADDED_FAMILIES
from tests.settings import settings_of
from tests.stores import a_store
from tests.web.builders import Bench
from tests.web.seen import words

CENT, ZERO = Decimal("0.01"), Decimal(0)
MONEY = re.compile(r"\$[0-9][0-9,]*\.[0-9]+")


class Seen:
    """A day of a node of eight GPUs, of which teams hold three, and everything that is printed of them."""

    def __init__(self, life: Life, policy: Policy) -> None:
        self.life, self.policy, self.store = life, policy, life.store
        registry = CollectorRegistry()
        clock = FixedClock(life.now)
        registry.register(StoreCollector(life.store, settings_of(policy), clock, version="0.1.0", added=ADDED_FAMILIES))
        store: Any = life.store
        client = Bench(store=store, policy=policy, clock=clock, registry=registry).client()
        self.overview = unescape(words(client.get("/").text))
        self.costs = unescape(words(client.get("/costs").text))
        self.report = self.json(client, "report")
        self.text = "\n".join(as_text(self.report))
        rows = list(csv.DictReader(io.StringIO(as_csv(self.report))))
        self.facts = {row["fact"]: row["value"] for row in rows if row["record"] == "fact"}
        self.lines = [row for row in rows if row["record"] == "line"]
        focus = client.get("/api/v1/report?format=focus").text
        self.focus = list(csv.DictReader(io.StringIO(focus, newline="")))
        self.budget = self.json(client, "budget")
        self.summary = self.json(client, "summary")
        self.pools = self.json(client, "pools")
        self.by_team = self.json(client, "costs?by=team")
        self.status = "\n".join(about_status(self.json(client, "status"), life.now))
        self.metrics = {
            (sample.name.removeprefix("gpu_autoscaler_"), *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(generate_latest(registry).decode())
            for sample in family.samples
        }
        week = Week(name="2026-11-23", start=START, end=START + 27 * HOUR)
        found = WeekFound(
            week=week,
            now=life.now,
            lives=life.store.node_lives(START),
            workloads=(),
            minutes=life.store.pool_minutes(week.start, week.end),
            held=life.store.held(week.start, week.end),
        )
        self.digest = digest(found, policy)

    @staticmethod
    def json(client: FlaskClient, path: str) -> Any:
        return json.loads(client.get(f"/api/v1/{path}").text)

    def after(self, page: str, words_before: str) -> str:
        """What *page* prints behind *words_before*, in one line."""
        assert words_before in page, words_before
        return page.partition(words_before)[2][:160]


def money(text: str, number: int = 0) -> Decimal:
    """The amount of that *number* in *text*."""
    return Decimal(MONEY.findall(text)[number].strip("$").replace(",", ""))


def percent(text: str) -> str:
    found = re.search(r"(\d+)\s?%", text)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    first = a_policy().pools[0]
    pools = (
        replace(first, max_nodes=1),
        replace(
            first,
            id="big-id",
            name="big",
            size=BIG_SIZE,
            resources={GPU: 8},
            price_usd_per_hour=8 * PRICE,
            min_nodes=1,
            max_nodes=1,
        ),
    )
    budget = Budget(monthly_usd=Decimal("617.21"), teams={"vision": Decimal(300)})
    policy = a_policy(*pools, budget=budget, attribution=Attribution(team="team"))
    world = a_world(
        WorldPool(id=first.id, size=first.size, resources={GPU: 1}),
        WorldPool(id="big-id", size=BIG_SIZE, resources={GPU: 8}, count=1),
    )
    with a_store() as store:
        life = Life(world=world, policy=policy, store=store, rest=3 * MINUTE)
        life.run(5 * MINUTE, tick=MINUTE)
        node = world.lives[0].hostname
        world.add_pod(bound("train", node, labels={"team": "vision"}, gpu_util=0.0, gpu_memory=0.0))
        world.add_pod(bound("serve", node, requests={GPU: 2}, labels={"team": "search"}, gpu_util=0.9))
        life.run(8 * HOUR, tick=3 * MINUTE)
        life.rest = 10 * MINUTE  # longer than a gap that counts as watched
        life.run(18 * HOUR - 10 * MINUTE, tick=10 * MINUTE)
        world.add_pod(waiting("big", requests={GPU: 16}))
        world.add_pod(waiting("small", requests={GPU: 7}))
        life.run(5 * MINUTE + timedelta(seconds=1), tick=MINUTE)
        yield Seen(life, policy)


def test_the_month_is_one_of_partly_used_nodes(seen: Seen) -> None:
    parts = {name: Decimal(part["usd"]) for name, part in seen.report["paid_for"].items()}
    least = {"used": 20, "idle": 5, "unallocated": 40, "unwatched": 40, "ahead": 0}
    assert {name: parts[name] for name in least if parts[name] <= least[name]} == {}


def test_what_was_spent_is_one_number(seen: Seen) -> None:
    spent = Decimal(seen.report["usd"])
    told = {
        "overview": money(seen.after(seen.overview, "Month's budget")),
        "costs page": money(seen.after(seen.costs, " Spent ")),
        "report text": money(seen.after(seen.text, "\ncost ")),
        "report CSV": Decimal(seen.facts["usd"]),
        "lines of CSV": sum(Decimal(row["usd"]) for row in seen.lines),
        "budget of report": Decimal(seen.report["budget"]["spent_usd"]),
        "API budget": Decimal(seen.budget["spent_usd"]),
        "API summary": Decimal(seen.summary["spent_usd"]),
        "API costs": Decimal(seen.by_team["total_usd"]),
        "status": money(seen.after(seen.status, "cluster budget")),
        "digest": money(seen.digest.title),
        "FOCUS": sum((Decimal(row["BilledCost"]) for row in seen.focus), ZERO).quantize(CENT),
        "metrics of the budget": Decimal(str(seen.metrics["budget_spent_usd", "", "cluster"])).quantize(CENT),
        "metrics of costs": sum(
            (Decimal(str(value)) for (name, *_), value in seen.metrics.items() if name == "cost_usd"), ZERO
        ).quantize(CENT),
    }
    assert told == dict.fromkeys(told, spent)


def test_a_percentage_of_the_budget_is_one_number(seen: Seen) -> None:
    told = {
        "overview": percent(seen.after(seen.overview, "Month's budget")),
        "costs page": percent(seen.after(seen.costs, " Budget ")),
        "report text": percent(seen.after(seen.text, "\nbudget ")),
        "status": percent(seen.after(seen.status, "cluster budget")),
    }
    assert len(set(told.values())) == 1, told
    assert seen.report["budget"]["ratio"] == seen.budget["ratio"]


def test_the_parts_of_the_cost_are_the_same_and_add_up(seen: Seen) -> None:
    parts = {name: Decimal(part["usd"]) for name, part in seen.report["paid_for"].items()}
    assert sum(parts.values()) == Decimal(seen.report["usd"])
    line = seen.after(seen.costs, "What it was paid for")
    shown = dict(re.findall(r"(\w+) (\$[0-9.,]+)", line.partition(" Category")[0]))
    assert {name: money(amount) for name, amount in shown.items()} == {n: usd for n, usd in parts.items() if usd}
    focus: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in seen.focus:
        focus[row["x_PaidFor"]] += Decimal(row["BilledCost"])
    for name, usd in parts.items():
        assert Decimal(seen.facts[f"paid_for.{name}.usd"]) == usd
        assert abs(focus[name] - usd) <= CENT
    tile = seen.after(seen.costs, " Unused ")
    assert [money(tile, n) for n in range(3)] == [
        parts["idle"] + parts["unallocated"],
        parts["idle"],
        parts["unallocated"],
    ]


def test_what_each_team_held_is_one_number(seen: Seen) -> None:
    teams = {row["name"]: Decimal(row["usd"]) for row in seen.report["teams"]}
    assert set(teams) == {"vision", "search"}
    told = {line["key"]: Decimal(line["usd"]) for line in seen.by_team["lines"] if line["part"] == "held"}
    metric = {team: Decimal(str(seen.metrics["cost_team_usd", team])).quantize(CENT) for team in teams}
    assert told == metric == teams
    for team, usd in teams.items():
        shown = re.search(rf" {team} [0-9.,]+ (\$[0-9.,]+)", seen.costs)
        assert shown is not None
        assert money(shown[1]) == usd
        rows = [row for row in seen.focus if json.loads(row["Tags"]).get("team") == team]
        assert abs(sum(Decimal(row["BilledCost"]) for row in rows) - usd) <= CENT


def test_held_gpu_hours_are_one_number_and_not_those_of_whole_nodes(seen: Seen) -> None:
    parts = seen.report["paid_for"]
    held = parts["used"]["gpu_hours"] + parts["idle"]["gpu_hours"]
    found = re.search(r"paid, ([0-9,]+) held by workloads \(([0-9]+)%\)", seen.digest.body)
    assert found is not None
    assert float(found[1].replace(",", "")) == pytest.approx(held, abs=0.6)
    assert held == pytest.approx(3 * 26, abs=1)
    focus = sum(float(r["ConsumedQuantity"]) for r in seen.focus if r["x_PaidFor"] in ("used", "idle"))
    assert focus == pytest.approx(held, abs=0.01)
    seconds = sum(v for (name, *labels), v in seen.metrics.items() if name == "team_gpu_seconds" and "held" in labels)
    assert seconds / 3600 == pytest.approx(held, abs=0.01)


def test_a_node_has_its_paid_hours_in_focus(seen: Seen) -> None:
    hours: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in seen.focus:
        hours[row["ResourceId"]] += Decimal(row["PricingQuantity"])
    month = month_of(seen.life.now, "UTC")
    paid = {
        life.instance: units_between(life, month.start, month.end, seen.life.now, seen.policy.billing)
        for life in seen.store.node_lives(month.start)
    }
    assert hours == paid


def test_busy_and_pending_gpus_are_the_same_on_tiles_and_in_the_table(seen: Seen) -> None:
    busy = seen.after(seen.overview, "GPUs busy")
    assert busy.startswith(" 3 of 8 5 paid for, not busy")
    assert seen.summary["gpus_busy"] == sum(pool["held_gpus"] for pool in seen.pools) == 3
    found = re.search(r"GPUs pending (\d+) (\d+) of them in no pool", seen.overview)
    assert found is not None
    pending, unplaced = map(int, found.groups())
    assert pending == seen.summary["gpus_waiting"]
    assert pending - unplaced == sum(pool["pending_gpus"] for pool in seen.pools)


def test_the_forecast_is_one_number(seen: Seen) -> None:
    forecast = Decimal(seen.report["budget"]["forecast_usd"])
    assert forecast > 0
    assert money(seen.after(seen.overview, "; forecast ")) == forecast
    assert Decimal(seen.summary["forecast_usd"]) == forecast


def test_no_computed_amount_has_more_than_four_decimals(seen: Seen) -> None:
    def amounts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from amounts(inner, key)
        elif isinstance(value, list):
            for inner in value:
                yield from amounts(inner, name)
        elif isinstance(value, str) and "usd" in name.split("_"):
            yield name, value

    found = list(amounts([seen.report, seen.budget, seen.summary, seen.pools, seen.by_team]))
    assert len(found) > 30
    assert [(name, usd) for name, usd in found if len(usd.partition(".")[2]) > 4] == []
