"""What /metrics says: read from the store at scrape time, so that it is true after a restart and on every replica.

Only `Instruments` lives in the process, because only the process knows how long its answers and steps took.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from prometheus_client import Counter, Histogram, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from receiver import installed_version
from receiver.config.live import LiveConfiguration
from receiver.config.settings import FileSettings, LiveSecrets
from receiver.core.model import memory
from receiver.core.model.actions import ActionKind, Change, OutcomeKind
from receiver.core.model.model import Source
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.policy import Pool, longest_waits
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.failures import Failure
from receiver.core.scaling.waits import Direction, Shortage, WaitKind, shortage_of
from receiver.metrics.budgets import budgets
from receiver.metrics.families import PREFIX, AddedFamilies, Row, Scrape, counter, filled, gauge, histogram, single
from receiver.ports import Clock, ReadStore, TryLater, WontWork
from receiver.reports.picture import ChargesDocument, Picture, PoolDocument, kept_picture
from receiver.reports.state import WatchState
from receiver.step.parts import PARTS, counted_as

METHODS = ("GET", "PUT", "DELETE")
OUTCOMES = ("ok", "try_later", "wont_work")
MODES = ("act", "observe")
NODE_STATES = ("required", "ready", "building", "busy", "idle", "unknown", "sick")
NOTICE_ENDS = ("sent", "failed")
MESSAGE_OUTCOMES = ("delivered", "failed")
WEBHOOK_CODES = (202, 400, 401, 405, 413, 500, 503)
WEBHOOK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(f"{PREFIX}_{name}", text, labels, registry=None)


def _timings(name: str, text: str, *labels: str, buckets: Sequence[float] = BUCKETS) -> Histogram:
    return Histogram(f"{PREFIX}_{name}", text, labels, registry=None, buckets=buckets)


class CivoCalls(Collector):
    """Counts calls by method and by how they ended: answered, worth another try, or refused for good."""

    def __init__(self) -> None:
        """Start every method and outcome at 0, so that a first failure is an increase."""
        self._ended = _counter("civo_requests", "Calls to Civo by outcome.", "method", "outcome")
        self._seconds = _timings("civo_request_seconds", "Time of a call to Civo, in seconds.", "method")
        for method in METHODS:
            self._seconds.labels(method=method)
            for outcome in OUTCOMES:
                self._ended.labels(method=method, outcome=outcome)

    def collect(self) -> Iterator[Metric]:
        yield from self._ended.collect()
        yield from self._seconds.collect()

    def ended(self, method: str, outcome: str, seconds: float) -> None:
        """Count one call; *outcome* is one of OUTCOMES."""
        self._ended.labels(method=method, outcome=outcome).inc()
        self._seconds.labels(method=method).observe(seconds)


class WatchCounts(Collector):
    """How the watch stands and how often it woke the loop."""

    def __init__(self) -> None:
        self.state = WatchState.OFF
        self.ages: Callable[[], Mapping[str, float]] = dict
        self._wakes = _counter("watch_wakes", "Times that the watch of pods woke the loop.")

    def collect(self) -> Iterator[Metric]:
        """Yield the families; a process that does not watch reports no state."""
        up = self.state is WatchState.UP if self.state in (WatchState.UP, WatchState.DOWN) else None
        yield single("watch_up", "Whether the watch of pods stands (1) or not (0).", up)
        ages = [((resource,), age) for resource, age in self.ages().items()]
        text = "Seconds since the API server last confirmed a list that a watch keeps."
        yield gauge("cache_age_seconds", text, ages, "resource")
        yield from self._wakes.collect()

    def stands(self) -> None:
        self.state = WatchState.UP

    def fell(self) -> None:
        self.state = WatchState.DOWN

    def not_ours(self) -> None:
        self.state = WatchState.WAITING

    def woke(self) -> None:
        self._wakes.inc()


class OnDisk(Collector):
    """Whether what is on the disk could be used, and whether it is what runs; 0 before it is watched."""

    def __init__(self) -> None:
        self._watched: tuple[LiveSecrets, LiveConfiguration] | None = None

    def watch(self, secrets: LiveSecrets, file: LiveConfiguration) -> None:
        """Ask *secrets* and *file* from now on."""
        self._watched = secrets, file

    def collect(self) -> Iterator[Metric]:
        refused, differs = [(("file",), False), (("secrets",), False)], False
        if self._watched is not None:
            secrets, file = self._watched
            secrets.tokens()  # looks at the files
            refused, differs = [(("file",), file.refused), (("secrets",), secrets.refused)], file.differs
        text = "Whether what is on the disk cannot be used (1) or can (0): the configuration file, the files of secrets"
        yield gauge("configuration_refused", f"{text}.", refused, "part")
        text = (
            "Whether part of the configuration file on the disk is not in force: it is refused, or needs a restart (1)."
        )
        yield single("configuration_differs", text, differs)


class Instruments(Collector):
    """What this process counts about itself: answers of the webhook, steps of the loop, calls to Civo, its watch."""

    def __init__(self, process: str = "", added: Sequence[str] = ()) -> None:
        """Start every known code and part at 0, so that a first error is an increase. *process* names this process,
        *added* the parts that capabilities add to a step."""
        self._process = process
        # The library has no annotation here; the _created series carry no news and double the output.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._requests = _counter("webhook_requests", "Webhook answers by HTTP code.", "code")
        text = "Time to answer a webhook, in seconds."
        self._request_seconds = _timings("webhook_seconds", text, buckets=WEBHOOK_BUCKETS)
        self._steps = _counter("loop_steps", "Steps of the loop, failed ones included.")
        self._errors = _counter("loop_errors", "Steps of the loop that failed.")
        text = "Parts of steps that failed while the step went on, by part."
        self._failures = _counter("step_part_failures", text, "part")
        self._step_seconds = _timings("loop_step_seconds", "Duration of a step of the loop, in seconds.")
        self.leads: Callable[[], bool] = lambda: False
        self.good_age: Callable[[], timedelta | None] = lambda: None
        self.civo = CivoCalls()
        self.watch = WatchCounts()
        self.on_disk = OnDisk()
        for code in WEBHOOK_CODES:
            self._requests.labels(code=str(code))
        for part in (*PARTS, *added):
            self._failures.labels(part=part)

    def collect(self) -> Iterator[Metric]:
        counted = (self._requests, self._request_seconds, self._steps, self._errors, self._failures, self._step_seconds)
        for metric in counted:
            yield from metric.collect()
        text = "Whether this process leads: it steps and writes outside (1), or waits and answers (0)."
        yield gauge("leader", text, [((self._process,), self.leads())], "process")
        text = "Time since the last good step, or since this process began to lead, in seconds."
        yield single("good_step_age_seconds", text, self.good_age())
        for collector in (self.civo, self.watch, self.on_disk):
            yield from collector.collect()

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


# By name: the attribute of a pool, or of its published document, and its meaning.
POLICY_OF_POOLS = (
    ("policy_utilization_high_ratio", "utilization_high", "Utilization above which a pool is kept (0-1)."),
    ("policy_utilization_low_ratio", "utilization_low", "Utilization below which a pool may shrink (0-1)."),
    (
        "policy_underutilized_ratio",
        "underutilized",
        "Utilization (0-1) below which a workload is reported.",
    ),
    ("policy_idle_ratio", "idle", "Utilization below which a GPU that is held is idle (0-1)."),
    ("policy_temperature_celsius", "temperature_celsius", "Degrees Celsius above which a GPU is reported."),
    (
        "policy_provision_timeout_seconds",
        "provision_timeout",
        "How long a new node may take until its GPUs are allocatable, in seconds.",
    ),
)
SEEN_OF_POOLS = (
    ("pool_nodes_wanted", "wanted", "Nodes that demand, floors, standby, headroom and buffers ask for."),
    ("pool_pending_gpus", "pending_gpus", "GPUs that waiting pods ask of a pool."),
    ("pool_utilization_ratio", "utilization", "GPU utilization as the last step read it (0-1)."),
    ("pool_ready_in_seconds", "ready_in_seconds", "Median time until a new node's GPUs are allocatable."),
)
BOUNDS_OF_POOLS = (
    ("pool_nodes_min", "min_nodes", "Fewest nodes that policy and windows ask for now."),
    ("pool_nodes_max", "max_nodes", "Most nodes that policy and windows allow now."),
)


class StoreCollector(Collector):
    """Policy from the configuration, the rest from the store; while it is silent, only that is told of the rest."""

    def __init__(
        self,
        store: ReadStore,
        settings: FileSettings,
        clock: Clock,
        *,
        version: str | None = None,
        destinations: Sequence[str] = (),
        added: Sequence[AddedFamilies] = (),
    ) -> None:
        """Read *store* at each scrape. *version* None is the installed one, *destinations* name where messages go,
        *added* are those of capabilities."""
        self._store, self._clock, self._destinations = store, clock, destinations
        self._configuration, self._policy = settings.configuration, settings.policy
        self._version = version or installed_version()
        self._added = [families_of(store, settings.policy) for families_of in added]

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._configured()
        try:
            (picture, seen_at), counts = kept_picture(self._store), self._store.counts()
            scrape = Scrape(at=self._clock.now(), counts=counts)
            added = [metric for families in self._added for metric in families(scrape)]
        except (TryLater, WontWork):
            yield self._sources_up([(("store",), 0)])
            return
        yield from self._seen(picture)
        yield from self._open_actions(counts)
        yield from budgets(picture, self._policy)
        yield from added
        yield from self._charges(picture.charges or ChargesDocument())
        sources = [s for s in picture.sources if s.configured and s.source != Source.STORE]
        yield self._sources_up([*(((s.source,), s.up) for s in sources), ((Source.STORE.value,), 1)])
        for name, moment, text in (
            ("last_heartbeat", "heartbeat_at", "When the heartbeat alert last reached the webhook (Unix seconds)."),
            ("last_delivery", "last_delivery_at", "When a delivery was last kept (Unix seconds)."),
        ):
            if (at := counts.get(moment)) is not None:
                yield single(f"{name}_timestamp_seconds", text, at)
        for name, since, text in (
            ("snapshot_age_seconds", seen_at, "Age of the picture that pages and API show, in seconds."),
            ("step_age_seconds", counts.get("last_step_at"), "Age of the last step that served the pools, in seconds."),
        ):
            if since is not None:
                yield single(name, text, self._age(since))
        yield from self._totals(counts)
        yield from self._messages(counts)

    def _age(self, at: datetime | None) -> timedelta | None:
        return None if at is None else max(timedelta(0), self._clock.now() - at)

    @staticmethod
    def _sources_up(rows: Iterable[Row]) -> Metric:
        return gauge("source_up", "Whether a source answered in the last step (1) or not (0).", rows, "source")

    def _configured(self) -> Iterator[Metric]:
        """What the operator said: there before the first step, because the alert rules compare with it."""
        policy, pools = self._policy, self._policy.pools
        info = [((p.id, p.name, p.size), 1) for p in pools]
        yield gauge("pool_info", "A pool's id, name and Civo size.", info, "pool", "pool_name", "size")
        for name, attribute, text in POLICY_OF_POOLS:
            yield gauge(name, text, [((p.id,), getattr(p, attribute)) for p in pools], "pool")
        waits = [((name,), longest) for name, longest in longest_waits(policy).items()]
        text = "How long a GPU pod of a priority class may wait before a message is sent, in seconds."
        yield gauge("policy_queue_wait_seconds", text, waits, "priority_class")
        text = "USD per hour of idle GPUs from which a message is sent."
        yield single("policy_idle_cost_usd_per_hour", text, policy.idle_cost_usd_per_hour)
        text = "Nodes that all pools together may be asked for within an hour; absent without a limit."
        yield single("policy_max_growth_per_hour", text, policy.limits.max_growth_per_hour)
        prices = [((p.id,), p.price_usd_per_hour) for p in pools]
        yield gauge("pool_node_price_usd_per_hour", "Price of a node-hour in USD; absent when unknown.", prices, "pool")
        yield gauge("mode", "The mode in force (1).", [((m,), m == self._configuration.mode) for m in MODES], "mode")
        if (budget := policy.budget) is not None:
            ratios = [(("warn",), budget.warn_at), (("hold",), budget.hold_at), (("stop",), budget.stop_at)]
            yield gauge("budget_threshold_ratio", "Where a stage of the budget begins (ratio of it).", ratios, "stage")
        text = "The clock of this process at the scrape (Unix seconds): Prometheus compares it with its own."
        yield single("clock_timestamp_seconds", text, self._clock.now())
        runs = [((self._version, self._configuration.cluster_name), 1)]
        yield gauge("build_info", "The version that runs, and where.", runs, "version", "cluster_name")

    def _seen(self, picture: Picture) -> Iterator[Metric]:
        pool_documents = [
            (pool, document) for pool in self._policy.pools if (document := picture.pool(pool.id)) is not None
        ]
        states = [
            ((pool.id, state), getattr(document, state)) for pool, document in pool_documents for state in NODE_STATES
        ]
        text = "Nodes of a pool by state; required is what Civo was asked for, sick ones are ready or unknown too."
        yield gauge("pool_nodes", text, states, "pool", "state")
        for name, attribute, text in SEEN_OF_POOLS:
            yield gauge(name, text, [((pool.id,), getattr(p, attribute)) for pool, p in pool_documents], "pool")
        document_by_id = {pool.id: document for pool, document in pool_documents}
        for name, attribute, text in BOUNDS_OF_POOLS:
            bounds = [
                (p.id, getattr(document_by_id.get(p.id), attribute, None), getattr(p, attribute))
                for p in self._policy.pools
            ]
            yield gauge(name, text, [((pool,), usual if now is None else now) for pool, now, usual in bounds], "pool")
        kinds = {pool.id: {override.kind for override in p.overrides} for pool, p in pool_documents}
        override_rows = [((pool, k.value), k in in_force) for pool, in_force in kinds.items() for k in OverrideKind]
        text = "Whether an override of this kind is in force for a pool (1) or not (0)."
        yield gauge("override_active", text, override_rows, "pool", "kind")
        opened = [
            ((pool.id, w.name), w.name in document.windows) for pool, document in pool_documents for w in pool.windows
        ]
        yield gauge("pool_window_open", "Whether a window of a pool is open (1) or not (0).", opened, "pool", "window")
        nodes = [
            ((pool.id, node.name), node) for pool, document in pool_documents for node in document.nodes if node.name
        ]
        text = "Since when a node has had no GPU pod (Unix seconds); absent while it has one."
        idle = [(labels, node.idle_since) for labels, node in nodes]
        yield gauge("node_idle_since_timestamp_seconds", text, idle, "pool", "node")
        text = "The end of a node's paid unit of time (Unix seconds); absent where it is unknown."
        paid = [(labels, node.paid_until) for labels, node in nodes]
        yield gauge("node_paid_until_timestamp_seconds", text, paid, "pool", "node")
        rules = sorted({(pool.id, rule) for pool, document in pool_documents for rule in document.held_by})
        text = "1 for each rule that reduced the last decision; absent otherwise."
        yield gauge("pool_held_by", text, [(labels, 1) for labels in rules], "pool", "rule")
        yield from self._waits(pool_documents)

    def _waits(self, pool_documents: Sequence[tuple[Pool, PoolDocument]]) -> Iterator[Metric]:
        failed = {
            pool.id: [w for w in document.waits if w.kind == WaitKind.BACKOFF] for pool, document in pool_documents
        }
        rows = [((pool,), bool(backoffs)) for pool, backoffs in failed.items()]
        yield gauge("pool_backoff", "Whether a pool backs off after failures (1).", rows, "pool")
        causes = {
            pool: {shortage_of(wait.reason) for wait in backoffs if wait.direction == Direction.GROW}
            for pool, backoffs in failed.items()
        }
        cause_rows = [
            ((pool, cause.value), cause in shortages) for pool, shortages in causes.items() for cause in Shortage
        ]
        text = "Whether a pool's growth backs off for this cause (1) or not (0)."
        yield gauge("pool_backoff_cause", text, cause_rows, "pool", "cause")
        latest: dict[tuple[str, ...], datetime] = {}
        for pool, document in pool_documents:
            for wait in document.waits:
                if wait.until is not None:
                    labels = (pool.id, wait.direction, wait.kind)
                    latest[labels] = max(latest.get(labels, wait.until), wait.until)
        text = "When a cooldown or back-off of a pool ends (Unix seconds); absent when none holds."
        yield gauge("pool_wait_until_timestamp_seconds", text, latest.items(), "pool", "direction", "kind")
        ages = [((pool.id,), self._age(document.awaited_since) or 0) for pool, document in pool_documents]
        text = "How long the oldest node on its way has been awaited, in seconds; 0 when none is."
        yield gauge("pool_awaited_seconds", text, ages, "pool")

    def _open_actions(self, counts: Mapping[str, Any]) -> Iterator[Metric]:
        """The age of open actions, from the totals: they are younger than the picture."""
        opened = counts["open_actions"]
        ages = [((p.id,), self._age(opened.get(p.id)) or 0) for p in self._policy.pools]
        yield gauge("action_open_seconds", "Age of a pool's open action in seconds; 0 when none is open.", ages, "pool")

    def _charges(self, charges: ChargesDocument) -> Iterator[Metric]:
        """How the ledger compares with what Civo charged, as of Civo's last answer."""
        text = "Node-seconds of the month that Civo charged less those of the ledger."
        off = [((size.size,), 3600 * size.difference_hours) for size in charges.sizes or ()]
        yield gauge("charges_difference_seconds", text, off, "size")
        text = "Time of the month charged under a code without a price, in seconds."
        unpriced = [((charge.code,), 3600 * charge.hours) for charge in charges.unpriced or ()]
        yield gauge("charges_unpriced_seconds", text, unpriced, "code")
        if charges.answered_at is not None:
            text = "Age of Civo's last answer on what it charged, in seconds."
            yield single("charges_age_seconds", text, self._age(charges.answered_at))

    def _totals(self, counts: Mapping[str, Any]) -> Iterator[Metric]:
        ids = [p.id for p in self._policy.pools]
        changes = filled(counts.get("decisions"), [(pool, change.value) for pool in ids for change in Change])
        yield counter("decisions", "Decisions stored, by change.", changes, "pool", "change")
        outcomes = [(pool, kind.value, end.value) for pool in ids for kind in ActionKind for end in OutcomeKind]
        ended = filled(counts.get("actions"), outcomes)
        yield counter("actions", "Actions that ended, by outcome.", ended, "pool", "kind", "outcome")
        drifts = filled(counts.get("drifts"), [(pool,) for pool in ids])
        yield counter("pool_drifts", "Required counts that others changed.", drifts, "pool")
        pool_stages = [(pool, stage) for pool in ids for stage in memory.STAGES]
        sums = {labels: total / 1000 for labels, total in counts.get("provision_milliseconds", {}).items()}
        buckets = counts.get("provision_buckets", {})
        text = "How long the stages of provisioning a node took, in seconds."
        yield histogram("provision_seconds", text, pool_stages, memory.BUCKETS, buckets, sums, "pool", "stage")
        alerts = filled(counts.get("alerts_by_action"), [(action.value,) for action in SignalAction])
        yield counter("alerts", "Alerts kept, by what they ask for.", alerts, "action")
        if (total := counts.get("deliveries")) is not None:
            yield counter("deliveries", "Webhook deliveries kept.", [((), total)])

    def _messages(self, counts: Mapping[str, Any]) -> Iterator[Metric]:
        notices = counts.get("notices", {})
        yield single("notices_pending", "Notices in the outbox that are not delivered yet.", notices.get("pending", 0))
        ended = [((state,), notices.get(state, 0)) for state in NOTICE_ENDS]
        yield counter("notices", "Notices that left the outbox, by whether they were delivered.", ended, "state")
        text = "Age of the oldest pending notice; 0 when none is."
        yield single("notices_oldest_seconds", text, self._age(counts.get("oldest_notice_at")) or 0)
        destination_outcomes = [(name, outcome) for name in self._destinations for outcome in MESSAGE_OUTCOMES]
        text = "Messages by destination: those that it took and tries that failed."
        yield counter("messages", text, filled(counts.get("messages"), destination_outcomes), "destination", "outcome")
