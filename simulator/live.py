"""The world while it runs: one lock around it, moved to the clock's time before anybody looks."""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from receiver.replay.world.objects import Denied, Job, PodSpec, WorldNode, WorldPod
from simulator.clocks import Clock, ManualClock
from simulator.config import Config
from simulator.kubernetes_admission import USER, Policy
from simulator.kubernetes_custom import CustomResources
from simulator.kubernetes_quotas import Quotas
from simulator.kueue_admission import Kueue
from simulator.manifests import pod_spec
from simulator.reading import Unreadable, duration, read
from simulator.world import Pdb, World

LOG = logging.getLogger("simulator")
OPERATOR_NAMESPACE = "gpu-operator"
EXPORTER = "nvidia-dcgm-exporter"
DAEMONS = ("nvidia-device-plugin-daemonset", EXPORTER)


class Live:
    """Holds the world. Use ``with live.moved() as world`` for every look and every change."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.stopping = threading.Event()
        self.started_at: datetime = clock.now()
        self.world = World(config.world(), self.started_at)
        self.world.pdbs.extend(config.pdbs)
        self.posted_events: dict[int, dict[str, Any]] = {}  # core/v1 bodies by the version of the world's event
        self.xids: dict[tuple[str, int], int] = {}  # last XID by node and GPU
        self.coming_xids: dict[str, tuple[int, int]] = {}  # GPU and XID of the next node by pool
        self.readings: dict[tuple[str, int], dict[str, float | None]] = {}  # DCGM's fields by node and GPU
        self.stalls: dict[tuple[str, int], float] = {}  # what the engine does (ratio) by node and GPU
        self.leaks: dict[tuple[str, int], tuple[datetime, float]] = {}  # since when, and MiB an hour, by node and GPU
        self.partial: dict[str, dict[str, object]] = {}  # what the cluster's answer says instead, by pool and field
        self.user = USER  # who asks
        self.policies = {p["metadata"]["name"]: Policy(p) for p in config.kubernetes.policies}
        self.rules: Sequence[Mapping[str, Sequence[str]]] | None = config.kubernetes.rules
        self.denied: set[str] = set(config.kubernetes.denied)
        self.custom = CustomResources(self.world.keep, self.world.claims)
        self.quotas = Quotas(self.world.keep)
        self.budgets: list[tuple[Pdb, int]] = []  # the world's PodDisruptionBudgets, each with its version
        self.expired: Literal["event", "status"] = config.kubernetes.expired
        self.watches: Literal["live", "hang", "close", "error"] = "live"
        self._told = 0
        self._job_ids: set[str] = set()
        self._begin()
        self._move()

    def _begin(self) -> None:
        for number, manifest in enumerate(self.config.manifests):
            try:
                self.world.add_pod(pod_spec(manifest))
            except Denied as refused:
                raise Unreadable([f"manifests.{number}: {refused.reason}"]) from None
        workload = self.config.workload_jobs(self.started_at)
        self._job_ids.update(job.id for job in workload)
        self.world.submit_later(workload)
        self.submit(self.config.jobs, "jobs")

    @contextmanager
    def moved(self) -> Iterator[World]:
        """Lock the world, bring it to the clock's time, and tell watches afterwards if something changed."""
        with self.lock:
            self._move()
            self._note_budgets()
            try:
                yield self.world
            finally:
                self._note_budgets()
                if self.world.version != self._told:
                    self._told = self.world.version
                    self.changed.notify_all()

    def _note_budgets(self) -> None:
        """Note which of the world's PodDisruptionBudgets came and went: their list is changed directly."""
        for gone in [noted for noted in self.budgets if noted[0] not in self.world.pdbs]:
            self.budgets.remove(gone)
            self.world.note("PodDisruptionBudget", "DELETED", gone[0].name, partial(_versioned, gone[0]), gone)
        known = [budget for budget, _ in self.budgets]
        for budget in [each for each in self.world.pdbs if each not in known]:
            noted = self.world.note("PodDisruptionBudget", "ADDED", budget.name, partial(_versioned, budget))
            self.budgets.append(noted)

    def tick(self) -> None:
        """Let time pass without requests, so that watches see spontaneous changes."""
        with self.moved():
            pass

    def turn(self, by: timedelta) -> datetime:
        """Turn a manual clock. Raises ValueError for a clock that turns by itself, or a step back."""
        if not isinstance(self.clock, ManualClock):
            raise ValueError("the clock turns by itself")
        with self.lock:
            self.clock.advance(by)
            self.tick()
            return self.world.now

    def submit(self, given: Sequence[Mapping[str, Any]], path: str = "") -> list[WorldPod]:
        """Submit jobs given as fields of Job, now or at *submit_at*; *after* is a delay instead.

        Returns the pods of those submitted now. Raises Unreadable, before anything was submitted; *path* leads
        its messages. An id is used once, finished or not, as a Job's name is while the Job is there.
        """
        with self.moved() as world:
            jobs = [self._job(fields, f"{path}.{n}".lstrip(".")) for n, fields in enumerate(given)]
            ids = [job.id for job in jobs]
            again = sorted({i for i in ids if i in self._job_ids or ids.count(i) > 1})
            if again:
                raise Unreadable([f"{path or 'id'}: the job {i!r} was submitted before" for i in again])
            self._job_ids.update(ids)
            world.submit_later(job for job in jobs if job.submit_at > world.now)
            return [pod for job in jobs if job.submit_at <= world.now for pod in world.submit(job)]

    def _job(self, given: Mapping[str, Any], path: str) -> Job:
        fields = dict(given)
        after = duration(fields.pop("after", 0), f"{path}.after")
        fields.setdefault("submit_at", self.world.now + after)
        return read(Job, fields, path)

    def wait_beyond(self, version: int, seconds: float) -> None:
        """Wait until the world is beyond *version*, at most *seconds*. The caller does not hold the lock."""
        with self.lock:
            if self.world.version <= version and not self.stopping.is_set():
                self.changed.wait(seconds)

    def stop(self) -> None:
        """Wake everything that waits, for good."""
        self.stopping.set()
        with self.lock:
            self.changed.notify_all()

    def exporter_on(self, node: str) -> str:
        """Return the name of the dcgm-exporter pod of *node*."""
        return f"{EXPORTER}-{node[-5:]}"

    def _move(self) -> None:
        """Go to the present step by step, so that a node's daemons come when the node does."""
        now = max(self.clock.now(), self.world.now)  # a wall clock may be set back, a world's may not
        while (due := self.world.next_event_at()) is not None and due <= now:
            try:
                self.world.advance(due)
            except Denied as refused:  # a job that comes to a pod name in use; what is due next goes on
                LOG.warning("what was due at %s did not happen: %s", due, refused)
            self._run_daemons()
        self.world.advance(now)
        self._run_daemons()
        self._raise_xids()
        if self.config.kubernetes.kueue:
            Kueue(self.custom).turn(self.world)

    def _raise_xids(self) -> None:
        """Let each XID that waits for a node of its pool come from the first one that has GPUs."""
        for pool, (gpu, code) in list(self.coming_xids.items()):
            node = next((n.name for n in self.world.nodes.values() if n.pool == pool and n.gpus), None)
            if node is not None:
                self.xids[node, gpu] = code
                del self.coming_xids[pool]

    def _run_daemons(self) -> None:
        if not self.config.kubernetes.daemonsets:
            return
        for node in self.world.nodes.values():
            if node.gpus and node.ready and (OPERATOR_NAMESPACE, self.exporter_on(node.name)) not in self.world.pods:
                for daemon in DAEMONS:
                    self._add_daemon(daemon, node)

    def _add_daemon(self, daemon: str, node: WorldNode) -> WorldPod | None:
        spec = PodSpec(
            namespace=OPERATOR_NAMESPACE,
            name=f"{daemon}-{node.name[-5:]}",
            labels={"app": daemon},
            owner_kind="DaemonSet",
            owner_name=daemon,
            node=node.name,
        )
        try:
            return self.world.add_pod(spec)
        except Denied:  # one of the two was deleted; the other is still there
            return None


def _versioned(budget: Pdb, version: int) -> tuple[Pdb, int]:
    return budget, version
