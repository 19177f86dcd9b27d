"""A simulated cluster's metrics over a month, written as a Prometheus would have scraped them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from simulator.config import MetricsFace
from simulator.dcgm import Ills, dcgm, samples_on
from simulator.exposition import Family, exposed
from simulator.kube_state_metrics import kube_state_metrics
from simulator.world import World
from tests.rules.files import run

SCRAPE = timedelta(seconds=30)
QUIET = timedelta(seconds=120)  # where there is no pod nothing but `up` is worth a line
POD_FAMILIES = ("kube_pod_", "kube_job_")
USE = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL")
RENAMED = {"namespace": "exported_namespace", "pod": "exported_pod", "container": "exported_container"}

Hole = tuple[datetime, datetime]


def record(
    world: World,
    until: datetime,
    folder: Path,
    *,
    holes: Sequence[Hole] = (),
    meanwhile: Mapping[datetime, Callable[[World], object]],
    beside: Callable[[datetime], Iterable[str]] = lambda _: (),
) -> Path:
    """Let *world* go on to *until*, and return the database of a Prometheus that scraped it, except in *holes*.

    What *meanwhile* says happens at its moment, which must be a multiple of QUIET. *beside* are series of
    kube-state-metrics that the world does not show, as they are at a moment.
    """
    page = folder / "scraped.txt"
    with page.open("w", encoding="utf-8") as file:
        while world.now < until:
            busy = world.pods or world.now.timestamp() % QUIET.total_seconds()
            world.advance(world.now + (SCRAPE if busy else QUIET))
            if world.now in meanwhile:
                meanwhile[world.now](world)
            if not any(begin <= world.now < end for begin, end in holes):
                file.writelines(_scraped(world))
                file.writelines(f"{series} {world.now.timestamp():.0f}\n" for series in beside(world.now))
        file.write("# EOF\n")
    made = run(
        "promtool", "tsdb", "create-blocks-from", "--max-block-duration=744h", "openmetrics", page, folder / "data"
    )
    assert made.returncode == 0, made.stderr
    return folder / "data"


def _scraped(world: World) -> Iterator[str]:
    at = f" {world.now.timestamp():.0f}\n"
    yield 'up{job="kube-state-metrics",instance="ksm"} 1' + at
    if not world.pods:
        return
    face = MetricsFace()
    families = [f for f in kube_state_metrics(world, face, "v1.32", world.now) if f.name.startswith(POD_FAMILIES)]
    yield from _lines(families, {"job": "kube-state-metrics", "instance": "ksm"}, at)
    for node in {p.node for p in world.active_pods.values() if p.node}:
        spec = world.pools[world.nodes[node].labels["kubernetes.civo.com/civo-node-pool"]].spec
        exporter = [f for f in dcgm(samples_on(world, node), spec, face, Ills(now=world.now)) if f.name in USE]
        for family in exporter:  # as the operator's ServiceMonitor does without honor_labels
            family.samples = [({RENAMED.get(k, k): v for k, v in labels.items()}, n) for labels, n in family.samples]
        yield from _lines(exporter, {"job": "dcgm", "namespace": "gpu-operator", "pod": f"exporter-{node}"}, at)


def _lines(families: Iterable[Family], target: Mapping[str, str], at: str) -> Iterator[str]:
    for family in families:
        family.samples = [({**labels, **target}, value) for labels, value in family.samples]
        yield from (line + at for line in exposed([family]).splitlines() if not line.startswith("#") and line)
