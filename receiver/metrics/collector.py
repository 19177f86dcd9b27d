"""What /metrics says: read from the store at scrape time, so that it is true after a restart and on every replica.

Only `Instruments` lives in the process, because only the process knows how long its answers and steps took.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from receiver.config.environment import installed_version
from receiver.core.model import memory
from receiver.core.model.actions import ActionKind, Change, OutcomeKind
from receiver.core.model.model import Source
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.policy import Policy
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.failures import Failure
from receiver.metrics.costs import CostFamilies, budgets
from receiver.metrics.families import PREFIX, Row, counter, filled, gauge, histogram
from receiver.metrics.pools import OnDisk, holding, thresholds, waiting
from receiver.ports import Clock, ReadStore, TryLater, WontWork
from receiver.reports.picture import ChargesDocument, Picture, kept_picture
from receiver.step.parts import PARTS, counted_as

METHODS = ("GET", "PUT", "DELETE")
OUTCOMES = ("ok", "try_later", "wont_work")
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class CivoCalls(Collector):
    """Counts calls by method and by how they ended: answered, worth another try, or refused for good."""

    def __init__(self) -> None:
        """Start every method and outcome at 0, so that a first failure is an increase."""
        self._ended = Counter(
            f"{PREFIX}_civo_requests", "Calls to Civo by outcome.", ["method", "outcome"], registry=None
        )
        self._seconds = Histogram(
            f"{PREFIX}_civo_request_seconds",
            "Time of a call to Civo, in seconds.",
            ["method"],
            registry=None,
            buckets=BUCKETS,
        )
        for method in METHODS:
            self._seconds.labels(method=method)
            for outcome in OUTCOMES:
                self._ended.labels(method=method, outcome=outcome)

    def collect(self) -> Iterator[Metric]:
        """Yield both families."""
        for metric in (self._ended, self._seconds):
            yield from metric.collect()

    def ended(self, method: str, outcome: str, seconds: float) -> None:
        """Count one call; *outcome* is one of OUTCOMES."""
        self._ended.labels(method=method, outcome=outcome).inc()
        self._seconds.labels(method=method).observe(seconds)


class WatchState(StrEnum):
    """Whether pods are watched: not asked for, another process leads, they are, or they cannot be just now."""

    OFF = "off"
    WAITING = "waiting"
    UP = "up"
    DOWN = "down"


class WatchCounts(Collector):
    """How the watch stands and how often it woke the loop."""

    def __init__(self) -> None:
        """Start with the watch off."""
        self.state = WatchState.OFF
        self.ages: Callable[[], Mapping[str, float]] = dict
        self._wakes = Counter(f"{PREFIX}_watch_wakes", "Times that the watch of pods woke the loop.", registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield the families; a process that does not watch reports no state."""
        rows = [((), float(self.state is WatchState.UP))] if self.state in (WatchState.UP, WatchState.DOWN) else []
        yield gauge("watch_up", "Whether the watch of pods stands (1) or not (0).", rows)
        ages = [((resource,), age) for resource, age in self.ages().items()]
        said = "Seconds since the API server last confirmed a list that a watch keeps."
        yield gauge("cache_age_seconds", said, ages, "resource")
        yield from self._wakes.collect()

    def stands(self) -> None:
        """The connection is there."""
        self.state = WatchState.UP

    def fell(self) -> None:
        """It is not, though it should be."""
        self.state = WatchState.DOWN

    def not_ours(self) -> None:
        """This process does not lead."""
        self.state = WatchState.WAITING

    def woke(self) -> None:
        """Count a wake-up."""
        self._wakes.inc()


MODES = ("act", "observe")
NODE_STATES = ("required", "ready", "building", "busy", "idle", "unknown")
NOTICE_STATES = ("pending", "sent", "failed")
MESSAGE_OUTCOMES = ("delivered", "failed")
WEBHOOK_CODES = (202, 400, 401, 405, 413, 500, 503)
WEBHOOK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
STEP_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Instruments(Collector):
    """What this process counts about itself: answers of the webhook, steps of the loop, calls to Civo, its watch."""

    def __init__(self) -> None:
        """Start every known code and part at 0, so that a first error is an increase."""
        # The library has no annotation here; the _created series carry no news and double the output.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._requests = Counter(f"{PREFIX}_webhook_requests", "Webhook answers by HTTP code.", ["code"], registry=None)
        self._request_seconds = _timings("webhook_seconds", "Time to answer a webhook, in seconds.", WEBHOOK_BUCKETS)
        self._steps = Counter(f"{PREFIX}_loop_steps", "Steps of the loop, failed ones included.", registry=None)
        self._errors = Counter(f"{PREFIX}_loop_errors", "Steps of the loop that failed.", registry=None)
        text = "Parts of steps that failed while the step went on, by part."
        self._failures = Counter(f"{PREFIX}_step_part_failures", text, ["part"], registry=None)
        self._step_seconds = _timings("loop_step_seconds", "Duration of a step of the loop, in seconds.", STEP_BUCKETS)
        self.leads: Callable[[], bool] = lambda: False
        self.good_age: Callable[[], timedelta | None] = lambda: None
        self.civo = CivoCalls()
        self.watch = WatchCounts()
        self.on_disk = OnDisk()
        for code in WEBHOOK_CODES:
            self._requests.labels(code=str(code))
        for part in PARTS:
            self._failures.labels(part=part)

    def collect(self) -> Iterator[Metric]:
        """Yield every family once."""
        counted = (self._requests, self._request_seconds, self._steps, self._errors, self._failures, self._step_seconds)
        for metric in counted:
            yield from metric.collect()
        text = "Whether this process leads: it steps and writes outside (1), or waits and answers (0)."
        yield gauge("leader", text, [((), float(self.leads()))])
        good = self.good_age()
        text = "Time since the last good step, or since this process began to lead, in seconds."
        yield gauge("good_step_age_seconds", text, [] if good is None else [((), good.total_seconds())])
        yield from self.civo.collect()
        yield from self.watch.collect()
        yield from self.on_disk.collect()

    def webhook_answered(self, code: int, seconds: float) -> None:
        """Count one answer with its HTTP status *code* and how long it took in seconds."""
        self._requests.labels(code=str(code)).inc()
        self._request_seconds.observe(seconds)

    def stepped(self, seconds: float, *, failed: bool, failures: Sequence[Failure] = ()) -> None:
        """Count one step that took *seconds*, and the parts of it that failed."""
        self._steps.inc()
        self._step_seconds.observe(seconds)
        if failed:
            self._errors.inc()
        for failure in failures:
            self._failures.labels(part=counted_as(failure.part)).inc()


class StoreCollector(Collector):
    """Policy from the configuration, everything else from the store's picture and totals.

    A store that does not answer leaves its own series out and says ``gpu_autoscaler_source_up{source="store"} 0``;
    nothing is reported as 0 that is not known.
    """

    def __init__(
        self,
        store: ReadStore,
        policy: Policy,
        clock: Clock,
        *,
        mode: str | None = None,
        version: str | None = None,
        destinations: Sequence[str] = (),
    ) -> None:
        """Read *store* at each scrape.

        *mode* is ``act`` or ``observe``, None for that of the last step; *version* None is the installed one.
        *destinations* are the names of those that messages go to.
        """
        self._destinations = destinations
        self._store, self._policy, self._clock = store, policy, clock
        self._mode, self._version = mode, version or installed_version()
        self._costs = CostFamilies(store, policy)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every family once."""
        yield from self._configured()
        try:
            (found, seen_at), counts = kept_picture(self._store), self._store.counts()
            costs = self._costs.at(self._clock.now())
        except (TryLater, WontWork):
            yield gauge(
                "source_up", "Whether a source answered in the last step (1) or not (0).", [(("store",), 0)], "source"
            )
            return
        if self._mode is None and found.mode:
            yield _mode(found.mode)
        yield from self._seen(found)
        yield from self._open_actions(found, counts)
        yield from budgets(found, self._policy)
        yield from costs
        yield from self._charges(found.charges or ChargesDocument())
        yield from self._sources(found, counts)
        for name, at, text in (
            ("snapshot_age_seconds", seen_at, "Age of the picture that pages and API show, in seconds."),
            ("step_age_seconds", counts.get("last_step_at"), "Age of the last step that served the pools, in seconds."),
        ):
            if at is not None:
                yield gauge(name, text, [((), self._age(at))])
        yield from self._totals(counts)

    def _configured(self) -> Iterator[Metric]:
        """What the operator said: there before the first step, because the alert rules compare with it."""
        pools = self._policy.pools
        info = GaugeMetricFamily(
            f"{PREFIX}_pool_info", "A pool's id, name and Civo size.", labels=["pool", "pool_name", "size"]
        )
        for pool in pools:
            info.add_metric([pool.id, pool.name, pool.size], 1)
        yield info
        yield from thresholds(self._policy)
        prices = [((p.id,), float(p.price_usd_per_hour)) for p in pools if p.price_usd_per_hour is not None]
        yield gauge("pool_node_price_usd_per_hour", "Price of a node-hour in USD; absent when unknown.", prices, "pool")
        if self._mode is not None:
            yield _mode(self._mode)
        if self._policy.budget is not None:
            budget = self._policy.budget
            stages = (("warn", budget.warn_at), ("hold", budget.hold_at), ("stop", budget.stop_at))
            ratios = [((name,), float(at)) for name, at in stages]
            yield gauge("budget_threshold_ratio", "Where a stage of the budget begins (ratio of it).", ratios, "stage")
        text = "The clock of this process at the scrape (Unix seconds): Prometheus compares it with its own."
        yield gauge("clock_timestamp_seconds", text, [((), self._clock.now().timestamp())])
        yield gauge("build_info", "The version that runs.", [((self._version,), 1)], "version")

    def _age(self, at: datetime) -> float:
        """Seconds since *at*."""
        return max(0.0, (self._clock.now() - at).total_seconds())

    def _seen(self, found: Picture) -> Iterator[Metric]:
        """The pools as the last step found them."""
        known = [(pool, shown) for pool in self._policy.pools if (shown := found.pool(pool.id)) is not None]
        counts = [((pool.id, state), getattr(shown, state)) for pool, shown in known for state in NODE_STATES]
        states = [(labels, count) for labels, count in counts if count is not None]
        text = "Nodes of a pool by state; required is what Civo was asked for."
        yield gauge("pool_nodes", text, states, "pool", "state")
        for name, key, text in (
            ("pool_nodes_wanted", "wanted", "Nodes that demand, floors, standby and headroom ask for."),
            ("pool_pending_gpus", "pending_gpus", "GPUs that waiting pods ask of a pool."),
            ("pool_utilization_ratio", "utilization", "GPU utilization as the last step read it (0-1)."),
            ("pool_ready_in_seconds", "ready_in_seconds", "Median time until a new node's GPUs are allocatable."),
        ):
            rows = [((pool.id,), value) for pool, p in known if (value := getattr(p, key)) is not None]
            yield gauge(name, text, rows, "pool")
        seen = {pool.id: shown for pool, shown in known}
        for name, key, text in (
            ("pool_nodes_min", "min_nodes", "Fewest nodes that policy and windows ask for now."),
            ("pool_nodes_max", "max_nodes", "Most nodes that policy and windows allow now."),
        ):
            bounds = [(p.id, getattr(seen.get(p.id), key, None), getattr(p, key)) for p in self._policy.pools]
            yield gauge(name, text, [((pool,), usual if now is None else now) for pool, now, usual in bounds], "pool")
        kinds = {pool.id: {override.kind for override in p.overrides} for pool, p in known}
        said = [((pool, k.value), float(k in in_force)) for pool, in_force in kinds.items() for k in OverrideKind]
        text = "Whether an override of this kind is in force for a pool (1) or not (0)."
        yield gauge("override_active", text, said, "pool", "kind")
        yield from holding(known)
        yield from waiting(known, self._clock.now())

    def _open_actions(self, found: Picture, counts: Mapping[str, Any]) -> Iterator[Metric]:
        """The age of open actions: from the totals, which are younger than the picture, where they have it."""
        shown = {p.pool: p.open_action.opened_at for p in found.pools if p.open_action is not None}
        opened = counts.get("open_actions", shown)
        ages = [((p.id,), self._age(at) if (at := opened.get(p.id)) else 0.0) for p in self._policy.pools]
        yield gauge("action_open_seconds", "Age of a pool's open action in seconds; 0 when none is open.", ages, "pool")

    def _charges(self, found: ChargesDocument) -> Iterator[Metric]:
        """How the ledger compares with what Civo charged, as of Civo's last answer."""
        text = "Node-seconds of the month that Civo charged less those of the ledger."
        off = [((size.size,), 3600 * size.difference_hours) for size in found.sizes or ()]
        yield gauge("charges_difference_seconds", text, off, "size")
        text = "Time of the month charged under a code without a price, in seconds."
        unpriced = [((charge.code,), 3600 * charge.hours) for charge in found.unpriced or ()]
        yield gauge("charges_unpriced_seconds", text, unpriced, "code")
        if found.answered_at is not None:
            text = "Age of Civo's last answer on what it charged, in seconds."
            yield gauge("charges_age_seconds", text, [((), self._age(found.answered_at))])

    def _sources(self, found: Picture, counts: Mapping[str, Any]) -> Iterator[Metric]:
        sources = [s for s in found.sources if s.configured and s.source != Source.STORE]
        yield _sources_up([*(((s.source,), float(s.up)) for s in sources), ((Source.STORE.value,), 1)])
        for name, key, text in (
            ("last_heartbeat", "heartbeat_at", "When the heartbeat alert last reached the webhook (Unix seconds)."),
            ("last_delivery", "last_delivery_at", "When a delivery was last kept (Unix seconds)."),
        ):
            if (at := counts.get(key)) is not None:
                yield gauge(f"{name}_timestamp_seconds", text, [((), at.timestamp())])

    def _totals(self, counts: Mapping[str, Any]) -> Iterator[Metric]:
        ids = [p.id for p in self._policy.pools]
        changes = [(pool, change.value) for pool in ids for change in Change]
        outcomes = [(pool, kind.value, end.value) for pool in ids for kind in ActionKind for end in OutcomeKind]
        yield counter(
            "decisions", "Decisions stored, by change.", filled(counts.get("decisions"), changes), "pool", "change"
        )
        ended = filled(counts.get("actions"), outcomes)
        yield counter("actions", "Actions that ended, by outcome.", ended, "pool", "kind", "outcome")
        drifts = filled(counts.get("drifts"), [(pool,) for pool in ids])
        yield counter("pool_drifts", "Required counts that others changed.", drifts, "pool")
        yield _provisioning(ids, counts)
        said = filled(counts.get("alerts_by_action"), [(action.value,) for action in SignalAction])
        yield counter("alerts", "Alerts kept, by what they ask for.", said, "action")
        if (total := counts.get("deliveries")) is not None:
            yield counter("deliveries", "Webhook deliveries kept.", [((), total)])
        yield from self._messages(counts)

    def _messages(self, counts: Mapping[str, Any]) -> Iterator[Metric]:
        """How many messages wait, and how each destination takes them."""
        notices = filled(counts.get("notices"), [(state,) for state in NOTICE_STATES])
        yield gauge("notices", "Notices in the outbox by state.", notices, "state")
        since = counts.get("oldest_notice_at")
        text = "Age of the oldest pending notice; 0 when none is."
        yield gauge("notices_oldest_seconds", text, [((), self._age(since) if since else 0.0)])
        known = [(name, outcome) for name in self._destinations for outcome in MESSAGE_OUTCOMES]
        text = "Messages by destination: those that it took and tries that failed."
        yield counter("messages", text, filled(counts.get("messages"), known), "destination", "outcome")


def register(
    registry: CollectorRegistry,
    *,
    store: ReadStore,
    policy: Policy,
    clock: Clock,
    instruments: Instruments,
    mode: str | None = None,
    version: str | None = None,
) -> None:
    """Fill *registry* with everything that /metrics says; nothing is read before the first scrape."""
    registry.register(StoreCollector(store, policy, clock, mode=mode, version=version))
    registry.register(instruments)


def _timings(name: str, text: str, buckets: Sequence[float]) -> Histogram:
    return Histogram(f"{PREFIX}_{name}", text, registry=None, buckets=buckets)


def _mode(mode: str) -> Metric:
    return gauge("mode", "The mode in force (1).", [((m,), float(m == mode)) for m in MODES], "mode")


def _provisioning(ids: Sequence[str], counts: Mapping[str, Any]) -> Metric:
    known = [(pool, stage) for pool in ids for stage in memory.STAGES]
    sums = {labels: total / 1000 for labels, total in counts.get("provision_milliseconds", {}).items()}
    buckets = counts.get("provision_buckets", {})
    text = "How long the stages of provisioning a node took, in seconds."
    return histogram("provision_seconds", text, known, memory.BUCKETS, buckets, sums, "pool", "stage")


def _sources_up(rows: Iterable[Row]) -> Metric:
    return gauge("source_up", "Whether a source answered in the last step (1) or not (0).", rows, "source")
