"""The simulator's configuration: a YAML file, checked as a whole, with every error and its path at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import yaml

from receiver.replay.traces import load_jobs
from receiver.replay.traces.trace import BadTrace
from receiver.replay.world.objects import Behaviour, Job, Timings, WorldConfig, WorldPool
from simulator.demo_jobs import demo_jobs
from simulator.reading import Unreadable, read
from simulator.sizes import PRICES
from simulator.world import Pdb

__all__ = ["Config", "Unreadable", "load", "parse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CivoFace:
    """Civo's API: *other_charges* are shown beside the nodes' (``volume``, ``loadbalancer``, ...), as given."""

    api_key: str = "SECRET-civo-api-key"
    require_region: bool = True  # an assumption: official clients always send it
    other_charges: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesFace:
    """The Kubernetes API. *rules* are those of the caller's ClusterRoles, in their words (None: it may do everything);
    *denied* are rights that it lacks all the same, such as ``patch nodes`` or ``create pods/eviction``; *expired* is
    how a watch from too old a version is refused, as an ERROR event in a 200 stream or as HTTP 410; *daemonsets* puts
    the GPU operator's pods on every node; *dra* is the version of resource.k8s.io that is served where a pool has its
    GPUs served by a DRA driver; *installed* are the APIs of CRDs that are there from the start, such as
    ``kueue.x-k8s.io/v1beta2``; *policies* are ValidatingAdmissionPolicies that are bound; *kueue* runs a minimal Kueue
    on its objects."""

    token: str | None = None
    version: str = "v1.32.5+k3s1"
    rules: tuple[Mapping[str, tuple[str, ...]], ...] | None = None
    policies: tuple[Mapping[str, Any], ...] = ()
    denied: tuple[str, ...] = ()
    expired: Literal["event", "status"] = "event"
    daemonsets: bool = True
    dra: Literal["v1", "v1beta2", "v1beta1"] = "v1"
    installed: tuple[str, ...] = ()
    kueue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFace:
    """kube-state-metrics and dcgm-exporter. *node_label* is the DCGM label of the node name (lower case from
    exporter 4.8.3 on), *dcgm_interval* how often the exporter reads its GPUs (30s by default in real life);
    *pod_labels* and *node_labels* are kube-state-metrics' allowlists (``*``: every label). Without *profiling* there
    are no ``DCGM_FI_PROF_*`` (a GeForce, or the module did not load); *ecc* adds the counter of double-bit errors,
    which the exporter's default list has not."""

    node_label: Literal["Hostname", "hostname"] = "Hostname"
    dcgm_interval: timedelta = timedelta(0)
    fb_reserved: bool = True
    profiling: bool = True
    ecc: bool = False
    nodeselectors: bool = True
    node_labels: tuple[str, ...] = (
        "kubernetes.civo.com/civo-node-pool",
        "nvidia.com/gpu.product",
        "node.kubernetes.io/instance-type",
    )
    pod_labels: tuple[str, ...] = (
        "gpu-autoscaler/pool",
        "kueue.x-k8s.io/queue-name",
        "team",
        "project",
        "workload-class",
        "environment",
        "cost-center",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNames:
    """The cluster's id and name at Civo."""

    id: str = "c1a55e5e-0000-4000-8000-000000000001"
    name: str = "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The work that runs from the beginning: the *builtin* demo, a *csv* trace, or nothing."""

    builtin: Literal["demo"] | None = None
    csv: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A simulator at its beginning; see ``simulator/example.yaml`` for every key with its meaning."""

    pools: tuple[WorldPool, ...]
    listen: str = "127.0.0.1:0"
    seed: int = 0
    region: str = "lon1"
    cluster: ClusterNames = field(default_factory=ClusterNames)
    civo: CivoFace = field(default_factory=CivoFace)
    kubernetes: KubernetesFace = field(default_factory=KubernetesFace)
    metrics: MetricsFace = field(default_factory=MetricsFace)
    timings: Timings = field(default_factory=Timings)
    behaviour: Behaviour = field(default_factory=Behaviour)
    stock: Mapping[str, int | None] = field(default_factory=dict)
    quota: Mapping[str, int] = field(default_factory=dict)
    quota_used_elsewhere: Mapping[str, int] = field(default_factory=dict)
    price: Mapping[str, Decimal] = field(default_factory=dict)
    packing: Literal["most_allocated", "first_fit"] = "most_allocated"
    journal_limit: int = 50_000
    pdbs: tuple[Pdb, ...] = ()
    workload: Workload = field(default_factory=Workload)
    jobs: tuple[Mapping[str, Any], ...] = ()
    manifests: tuple[Mapping[str, Any], ...] = ()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on; port 0 takes a free one."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]") or "127.0.0.1", int(port)

    def world(self) -> WorldConfig:
        """Return the world's part."""
        return WorldConfig(
            pools=self.pools,
            cluster_id=self.cluster.id,
            cluster_name=self.cluster.name,
            region=self.region.lower(),
            timings=self.timings,
            behaviour=self.behaviour,
            stock=self.stock,
            quota=self.quota,
            quota_used_elsewhere=self.quota_used_elsewhere,
            price={**PRICES, **self.price},
            seed=self.seed,
            packing=self.packing,
            journal_limit=self.journal_limit,
        )

    def workload_jobs(self, start: datetime) -> list[Job]:
        """Return the jobs of the workload that begins at *start*. Raises Unreadable for a trace that is none."""
        if self.workload.builtin == "demo":
            return demo_jobs(start)
        if self.workload.csv is None:
            return []
        try:
            return load_jobs(self.workload.csv, start)
        except (OSError, BadTrace) as error:
            raise Unreadable([f"workload.csv: {line}" for line in str(error).splitlines()]) from None


def parse(given: object) -> Config:
    """Return *given* (what YAML makes of the file) as a Config. Raises Unreadable with every error."""
    config = read(Config, given)
    errors = list(_contradictions(config))
    if errors:
        raise Unreadable(errors)
    return config


def load(path: Path) -> Config:
    """Read a file; a relative *workload.csv* is relative to it. Raises Unreadable, also when it cannot be opened."""
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable([f"{path}: {error.strerror}"]) from None
    except yaml.YAMLError as error:
        raise Unreadable([f"{path}: is no YAML: {error}"]) from None
    config = parse(given)
    if config.workload.csv is not None:
        config = replace(config, workload=replace(config.workload, csv=path.parent / config.workload.csv))
    return config


def _contradictions(config: Config) -> Sequence[str]:
    errors = []
    try:
        port = config.address[1]
        if not 0 <= port <= 65535:
            raise ValueError
    except ValueError:
        errors.append(f"listen: {config.listen!r} is no host:port")
    ids = [p.id for p in config.pools]
    errors.extend(f"pools: the id {i!r} is used twice" for i in sorted({i for i in ids if ids.count(i) > 1}))
    errors.extend(f"pools.{n}.count: must not be negative" for n, p in enumerate(config.pools) if p.count < 0)
    if not config.pools:
        errors.append("pools: at least one is needed")
    if config.workload.builtin and config.workload.csv:
        errors.append("workload: builtin and csv exclude each other")
    return errors
