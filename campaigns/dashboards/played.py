"""The demo, played in two clusters one after the other, and a store that has the series of both."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from campaigns.dashboards.figures import FIGURES, Documents, documents
from demo.__main__ import Play
from demo.plan import PoolPlan
from demo.playground import lasting
from demo.scenario import NAMESPACE, POOL_LABEL, POOLS, demo_plan
from demo.screen import Screen
from demo.stack import Stack, running
from demo.summary import Summary
from tests.rules.servers import running as serving
from tests.rules.versions import Chosen, using

SCRAPE = 5.0  # seconds, of `lasting`
LONGEST = 400.0  # seconds until figures are steady
AT_REST, AT_WORK = 80.0, 40.0  # seconds for which they have to be; those of costs are a minute old

# What each cluster works on after the demo: pods by pool and the GPUs of each; None is for pods that fit no pool.
WORK: Mapping[str, Mapping[str | None, tuple[int, int]]] = {
    "lon": {"l40s": (2, 1), "a100": (1, 1), None: (1, 1)},
    "fra": {"l40s": (1, 1), "h100": (1, 4), "h200": (1, 1), None: (2, 1)},
}
CLUSTERS = tuple(WORK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment in which the figures of every cluster were steady: Unix seconds, and what the API said, by cluster."""

    at: float
    documents: Mapping[str, Documents]


@contextmanager
def store(folder: Path, chosen: Chosen) -> Iterator[str]:
    """A Prometheus that gets its series by remote write, of the *chosen* version; what is in *folder* stays there."""
    folder.mkdir(exist_ok=True)
    (folder / "prometheus.yml").write_text("{}")
    flags = (
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--web.enable-remote-write-receiver",
    )
    with using(chosen), serving("prometheus", folder / "log", *flags) as url:
        yield url


@contextmanager
def demo_in(cluster: str, chosen: Chosen, folder: Path, write_to: str) -> Iterator[Stack]:
    """A stack of the demo in a cluster of that name, whose Prometheus sends its series to *write_to* as well."""
    prometheus: dict[str, Any] = {
        "global": {"external_labels": {"cluster": cluster}},
        "remote_write": [{"url": f"{write_to}/api/v1/write", "queue_config": {"batch_send_deadline": "1s"}}],
    }
    plan = replace(demo_plan(), receiver={"cluster_name": cluster}, prometheus=prometheus)
    with using(chosen), running(plan, folder) as stack:
        yield stack


def play(stack: Stack, screen: Screen) -> Summary:
    """Play the demo to its end; then the stack goes on as `KEEP=1 make demo` leaves it, slower."""
    stack.wait_for_heartbeat(180)
    summary = Play(stack, screen).run()
    stack.change(lasting(stack.plan))
    return summary


def work(stack: Stack, cluster: str) -> None:
    """Let the jobs of *cluster* come, which last, and wait until their nodes are busy."""
    ids = {pool.name: pool.id for pool in POOLS}
    for pool, (pods, gpus) in WORK[cluster].items():
        selector = {POOL_LABEL: ids[pool]} if pool else {"gpu": "quantum"}
        job = {"id": f"steady-{pool or 'nowhere'}", "duration": "6h", "pods": pods, "gpus_per_pod": gpus}
        stack.submit({**job, "namespace": NAMESPACE, "team": "vision", "node_selector": selector})
    nodes = sum(_nodes(pool, *size) for pool in POOLS for name, size in WORK[cluster].items() if name == pool.name)
    stack.wait_until(lambda: _busy(stack) == nodes, 180, f"{nodes} busy nodes in {cluster}")


def _nodes(pool: PoolPlan, pods: int, gpus: int) -> int:
    return -(-pods * gpus // pool.gpus)


def _busy(stack: Stack) -> int:
    return sum(pool["busy"] or 0 for pool in stack.get("receiver", "/api/v1/pools"))


def steady(stacks: Mapping[str, Stack], seconds: float, *, at_rest: bool) -> Moment:
    """Wait until no figure of any cluster has changed for *seconds*. Raises TimeoutError."""
    figures = [figure for figure in FIGURES if at_rest or not figure.at_rest]
    return unchanged(
        lambda: {name: documents(stack) for name, stack in stacks.items()},
        lambda found: [figure.read(of) for of in found.values() for figure in figures],
        seconds,
    )


def unchanged(
    read: Callable[[], Mapping[str, Documents]], figures: Callable[[Mapping[str, Documents]], Any], seconds: float
) -> Moment:
    """Return the first moment at which *figures* of what is *read* have been the same for *seconds*."""
    began = since = time.time()
    last = figures(read())
    while time.time() - began < LONGEST:
        time.sleep(SCRAPE)
        found, now = read(), time.time()
        if (new := figures(found)) != last:
            last, since = new, now
        elif now - since >= seconds:
            return Moment(at=now, documents=found)
    raise TimeoutError(f"figures change more often than every {seconds:.0f} s")


@contextmanager
def both(folder: Path, choices: Mapping[str, Chosen], write_to: str, screen: Screen) -> Iterator[Mapping[str, Stack]]:
    """The demo, played in one cluster after the other; *choices* are the versions of Prometheus by cluster."""
    with ExitStack() as stopping:
        stacks: dict[str, Stack] = {}
        for name, chosen in choices.items():
            screen.heading(f"The demo in {name}")
            stacks[name] = stopping.enter_context(demo_in(name, chosen, folder / name, write_to))
            summary = play(stacks[name], screen)
            held = sum(check.holds for check in summary.checks)
            screen.line(f"{held} of {len(summary.checks)} checks of the demo hold")
        yield stacks
