"""Incidents as an on-call meets them: played by the real step, and read on the overview and in the messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from receiver.config import ConfigError
from receiver.config.settings import load_text
from receiver.core.model.configuration import ConfigurationFile
from receiver.core.model.policy import Budget
from receiver.core.model.signals import Alert
from receiver.core.notices.grouping import PageLinks, compose
from receiver.ports import TryLater
from receiver.web.pages.overview import ShownConcern, concerns, headline, scene_of
from simulator.store import MemoryStore
from tests.clocks import FixedClock
from tests.given import lives, troubles
from tests.given.life import FAST, SIZE, Life, a_job
from tests.web.builders import Bench

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
CLUSTER = "prod-lon1"
LINKS = PageLinks(cluster_name=CLUSTER, public_url="https://gpus.example.com", docs_url="https://gpus.example.com/docs")
BOOK = Path(__file__).parent / "incidents.md"
HEAD = """# Incidents

The first screen of the overview and every message of each incident, oldest first, as the person on call reads them.
Generated from `play.py` by `make generate`.
"""
BAD = """
pools:
  - name: l40s
    civo_pool_id: l40s-id
    size: an.g1.l40s.kube.x1
    resources: {nvidia.com/gpu: 1}
    max_nodes: twelve
"""
SHOWN = 3  # concerns: what a phone shows before it is scrolled


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """What happened (*title*), the *play* that makes it happen, and the words of the *cause* that must be seen."""

    title: str
    play: Callable[[], Life]
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the on-call sees: the *screen* before scrolling, and the *messages* since it began, oldest first."""

    screen: str
    messages: tuple[str, ...]


def a_life(count: int = 0, **changes: Any) -> Life:
    """A pool of L40S nodes, *count* of them usable, that have run for a while."""
    life = lives.at_zero(MemoryStore(), nodes=count, rest=MINUTE, **changes)
    life.run(20 * MINUTE if count else MINUTE, tick=MINUTE)
    return life


def working(life: Life, pods: int) -> Life:
    """Put *pods* to work that take a day."""
    life.submit(a_job("serve", pods=pods, duration=DAY, submit_at=life.now))
    life.run(2 * MINUTE)
    return life


def waiting(life: Life, pods: int = 2) -> None:
    life.submit(a_job("train", pods=pods, submit_at=life.now, duration=HOUR))


def frozen() -> Life:
    life = working(a_life(1), 1)
    labels = {"alertname": "Maintenance", "component": "gpu-autoscaler", "action": "freeze", "severity": "critical"}
    life.alarms.extra.append(Alert(fingerprint="f", labels=labels, starts_at=life.now))
    waiting(life)
    life.run(3 * MINUTE)
    return life


def out_of_stock() -> Life:
    life = working(a_life(1), 1)
    life.world.faults.stock[SIZE] = 0
    waiting(life)
    life.run(5 * MINUTE)
    return life


def stuck_node() -> Life:
    life = a_life(timings=replace(FAST, driver=DAY))
    waiting(life, pods=1)
    life.run(40 * MINUTE, tick=MINUTE)
    return life


def a_budget(spent: float) -> Budget:
    """A budget of which the node that has run since the start has spent that share after four hours."""
    return Budget(monthly_usd=(Decimal("1.29") * 5 / Decimal(str(spent))).quantize(Decimal("0.01")))


def spending(share: float) -> Life:
    life = working(a_life(1, budget=a_budget(share)), 1)
    life.run(4 * HOUR, tick=5 * MINUTE)
    return life


def held_with_waiting_work() -> Life:
    life = spending(0.85)
    waiting(life)
    life.run(5 * MINUTE)
    return life


def held_without_waiting_work() -> Life:
    life = spending(0.85)
    life.step()
    return life


def stopped() -> Life:
    life = spending(1.0)
    waiting(life)
    life.run(5 * MINUTE)
    return life


def telemetry_lost() -> Life:
    life = working(a_life(1), 1)
    troubles.dcgm_gone(life)
    life.run(30 * MINUTE, tick=MINUTE)
    return life


def prometheus_silent() -> Life:
    life = working(a_life(1), 1)
    life.telemetry.fail_always(TryLater("connection refused", code="connection_refused"))
    waiting(life)
    life.run(10 * MINUTE)
    return life


def sick_gpu() -> Life:
    life = working(a_life(1), 1)
    [node] = life.world.nodes
    life.world.faults.lose_gpu(node)
    life.run(30 * MINUTE, tick=MINUTE)
    return life


def foreign_cordon() -> Life:
    life = a_life(1)
    [node] = life.world.nodes
    life.world.patch_node(node, unschedulable=True)
    waiting(life, pods=1)
    life.run(20 * MINUTE)
    return life


def refused_configuration() -> Life:
    life = working(a_life(1), 1)
    with pytest.raises(ConfigError) as refused:
        load_text(BAD)
    mistakes = tuple(str(mistake) for mistake in refused.value.mistakes)
    life.file = ConfigurationFile(at=life.now, mistakes=mistakes, digest="of the file")
    life.run(2 * MINUTE)
    return life


INCIDENTS: Mapping[str, Incident] = {
    "freeze": Incident(title="A critical alert freezes everything; work waits", play=frozen, cause="Maintenance"),
    "stock-out": Incident(title="Civo has no GPU of the kind; work waits", play=out_of_stock, cause="Civo"),
    "stuck-node": Incident(title="A bought node never gets its GPU", play=stuck_node, cause="never"),
    "hold-with-waiting-work": Incident(
        title="The budget is past its hold line; work waits", play=held_with_waiting_work, cause="budget"
    ),
    "hold-without-waiting-work": Incident(
        title="The budget is past its hold line; no work waits", play=held_without_waiting_work, cause="budget"
    ),
    "budget-stop": Incident(title="The budget is past its stop line; work waits", play=stopped, cause="budget"),
    "lost-telemetry": Incident(title="GPU metrics are gone", play=telemetry_lost, cause="DCGM"),
    "silent-prometheus": Incident(
        title="Prometheus does not answer; work waits", play=prometheus_silent, cause="Prometheus does not answer"
    ),
    "sick-gpu": Incident(title="A busy node loses its GPU", play=sick_gpu, cause="lacked its GPUs"),
    "refused-configuration": Incident(
        title="The changed configuration file has a mistake", play=refused_configuration, cause="max_nodes"
    ),
    "foreign-cordon": Incident(
        title="Another person cordoned the only node; work waits", play=foreign_cordon, cause="cordoned"
    ),
}


def seen(life: Life) -> Seen:
    """Return what *life* shows now."""
    bench = Bench(store=life.store, clock=FixedClock(life.now), policy=life.policy)
    scene = scene_of(bench.parts())
    found = concerns(scene)
    due = life.store.notices_due(life.now + DAY, limit=1000)
    messages = [compose(stored.notice, LINKS) for stored in due]
    return Seen(
        screen="\n".join([headline(scene, found), *(_shown(concern) for concern in found[:SHOWN])]),
        messages=tuple(f"{message.title}\n{message.body}" for message in messages),
    )


def _shown(concern: ShownConcern) -> str:
    pools = ", ".join(name for _, name in concern.pools)
    text = f"{concern.level.word}: {pools} {concern.what}".replace(":  ", ": ")
    return "\n".join(f"  {line}" if line is not text else line for line in (text, concern.doing, concern.todo) if line)


def generated() -> dict[Path, str]:
    """Return the book as it should be."""
    return {BOOK: "\n".join([HEAD, *(_part(incident.title, seen(incident.play())) for incident in INCIDENTS.values())])}


def _part(title: str, shown: Seen) -> str:
    messages = "\n\n".join(shown.messages)
    return f"## {title}\n\nScreen:\n\n```text\n{shown.screen}\n```\n\nMessages:\n\n```text\n{messages}\n```\n"
