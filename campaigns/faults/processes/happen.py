"""What the events of a schedule do. Each kind is counted when it really came about, not when it was meant to."""

import contextlib
import resource
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import psycopg
import requests

from campaigns.faults.processes.mail import Mail
from campaigns.faults.processes.schedule import Event, What
from campaigns.faults.processes.stage import MISLAID, Stage, size_of
from receiver.replay.world.objects import Denied, Job, PodSpec
from simulator.http_faults import HttpFault
from simulator.world_faults import lift
from tests.e2e.receivers import Receiver

TRIES_FOR = 3.0  # seconds in which the lock of the store is asked for
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
MISLAY = "ALTER TABLE pools RENAME COLUMN {} TO {}"  # every step reads it
ROOM = 300_000  # bytes that the log may still take where the store's file may not


class Happenings:
    """Lets events happen on *stage*."""

    def __init__(self, stage: Stage, mail: Mail, counts: Counter[str]) -> None:
        self._stage, self._mail, self._counts = stage, mail, counts
        self._plans = {p.id: p for p in stage.schedule.pools}
        self._waits_to_land: What | None = None
        self._limited: dict[int, float] = {}  # worker: until when (monotonic) its files may not grow
        self._landed = 0
        self._helpers: list[threading.Thread] = []
        self._postgres_turn = threading.Lock()
        self.start_at: float | None = None  # monotonic: when the server is to be started again
        stage.witness.cordoned = self._somebody_cordoned

    @property
    def receiver(self) -> Receiver:
        """The installation."""
        return self._stage.receiver

    def happen(self, event: Event) -> None:
        """Do it; what the world refuses does not happen."""
        does: Callable[[What], None] = getattr(self, f"_{event.kind}")
        with contextlib.suppress(Denied):
            does(event.what)

    def go_on(self) -> None:
        """Start a server that is to run, and let go what has lasted long enough."""
        now = time.monotonic()
        for pid, until in list(self._limited.items()):
            if now >= until:
                self._unlimit(pid)
        if self.receiver.server.ended_by_itself and self.start_at is None:
            self._counts["server ended and was started again"] += 1
            self.start_at = now + 0.5
        if self.start_at is not None and now >= self.start_at and not self.receiver.server.alive:
            self.start_at = None
            self.receiver.start(forked=False)

    @property
    def under_way(self) -> bool:
        """True while something that was begun lasts."""
        return any(helper.is_alive() for helper in self._helpers)

    def calm(self) -> None:
        """No trouble stands any more; what began is over."""
        stage = self._stage
        stage.witness.stale = 0
        (stage.folder / "line").unlink(missing_ok=True)
        stage.faces.heal()
        stage.faces.firing.clear()
        stage.clock.step(0)
        for pid in list(self._limited):
            self._unlimit(pid)
        stage.cloud.faults.clear()
        lift(stage.cloud.live)

    # --- work

    def _job(self, what: What) -> None:
        plan = self._plans[what["pool"]]
        with self._stage.cloud.moved() as world:
            world.submit(
                Job(
                    id=what["id"],
                    submit_at=world.now,
                    duration=timedelta(seconds=what["seconds"]),
                    pods=what["pods"],
                    gpus_per_pod=what["each"],
                    namespace="ml",
                    team="vision",
                    node_selector={"tier": plan.name},
                )
            )
        self._counts["job"] += 1

    def _cancel(self, what: What) -> None:
        with self._stage.cloud.moved() as world:
            world.cancel_job(what["id"])
        self._counts["job cancelled"] += 1

    def _land(self, what: What) -> None:
        self._waits_to_land = what

    def _lands(self, node: str, what: What) -> None:
        time.sleep(what["after"])
        self._landed += 1
        spec = PodSpec(
            namespace="ml",
            name=f"landed{self._landed}",
            requests={"nvidia.com/gpu": 1},
            duration=timedelta(seconds=what["seconds"]),
            node=node,
        )
        with contextlib.suppress(Denied), self._stage.cloud.moved() as world:
            there = world.nodes.get(node)
            if there is None or not there.ready or any(p.requests for p in world.pods_on(node)):
                return
            world.add_pod(spec)
            self._counts["pod landed between cordon and DELETE"] += 1

    def _somebody_cordoned(self, node: str) -> None:
        """The receiver has just asked for a cordon: what waits for that lands there."""
        what, self._waits_to_land = self._waits_to_land, None
        if what is not None:
            self._beside(lambda: self._lands(node, what))

    def _beside(self, does: Callable[[], None]) -> None:
        helper = threading.Thread(target=does, daemon=True)
        self._helpers.append(helper)
        helper.start()

    # --- the process

    def _line(self, what: What) -> None:
        (self._stage.folder / "line").write_text(f"{what['within']},{what['lines']}", encoding="utf-8")
        if "patience" in what:
            self._beside(lambda: self._dies(what["patience"]))

    def _dies(self, patience: float) -> None:
        """Keep the calm away until the process has killed itself, for *patience* seconds at most."""
        deadline = time.monotonic() + patience
        while not (self._stage.folder / "died").exists() and time.monotonic() < deadline:
            time.sleep(0.1)

    def _end(self, what: What) -> None:
        receiver = self.receiver
        if not receiver.server.alive:
            return
        self._counts[what["how"]] += 1
        match what["how"]:
            case "kill worker":
                with contextlib.suppress(IndexError, ProcessLookupError):
                    receiver.kill_worker()
            case "kill all":
                receiver.server.kill()
            case "orphan":
                receiver.kill_master()
            case "stop":
                receiver.server.signal(signal.SIGTERM)
        if what["how"] != "kill worker":
            self.start_at = time.monotonic() + what["down"]

    def _clock(self, what: What) -> None:
        self._stage.clock.step(what["by"])
        self._counts["clock step"] += 1

    def _skip(self, what: What) -> None:
        self._stage.clock.skip(what["seconds"])

    # --- the store

    def _locked(self, what: What) -> None:
        lock = self._lock if self._stage.postgres is None else self._lock_tables
        self._beside(lambda: lock(what["seconds"]))

    def _lock_tables(self, seconds: float) -> None:
        assert self._stage.postgres is not None
        with contextlib.suppress(psycopg.Error), psycopg.connect(self._stage.postgres.url, connect_timeout=3) as other:
            other.execute("SET lock_timeout = '3s'")
            other.execute("LOCK TABLE deliveries, decisions, actions IN ACCESS EXCLUSIVE MODE")
            self._counts[f"store locked {seconds:g} s"] += 1
            self._mail.send("firing")
            time.sleep(seconds)
            other.rollback()

    def _cut(self, _what: What) -> None:
        """Every connection to PostgreSQL ends, as when a proxy restarts."""
        assert self._stage.postgres is not None
        with contextlib.suppress(psycopg.Error), psycopg.connect(self._stage.postgres.url, autocommit=True) as other:
            ended = other.execute(CUT).fetchall()
            self._counts["PostgreSQL's connections ended"] += len(ended)
            self._mail.send("firing")

    def _away(self, what: What) -> None:
        self._beside(lambda: self._restart(what["seconds"]))

    def _restart(self, seconds: float) -> None:
        """PostgreSQL ends as in a power cut, and comes back."""
        postgres = self._stage.postgres
        assert postgres is not None
        with self._postgres_turn:
            postgres.stop()
            self._counts[f"PostgreSQL away {seconds:g} s"] += 1
            self._mail.send("six at once")
            time.sleep(seconds)
            postgres.start()

    def _read_only(self, what: What) -> None:
        self._beside(lambda: self._refuse_writes(what["seconds"]))

    def _refuse_writes(self, seconds: float) -> None:
        """The store may be read and not be written, as a standby, or a volume that was mounted anew."""
        told = self._stage.folder / "read_only"
        with self._postgres_turn:
            self._set_read_only("on")
            told.touch()
            self._counts[f"store read-only {seconds:g} s"] += 1
            self._mail.send("firing")
            time.sleep(seconds)
            told.unlink()
            self._set_read_only("off")

    def _set_read_only(self, to: str) -> None:
        if self._stage.postgres is not None:
            with psycopg.connect(self._stage.postgres.url, autocommit=True) as other:
                other.execute("SET default_transaction_read_only = off")
                other.execute(f"ALTER SYSTEM SET default_transaction_read_only = {to}")
                other.execute("SELECT pg_reload_conf()")

    def _mislaid(self, what: What) -> None:
        """Every step fails for a while: a column has another name."""
        self._beside(lambda: self._fail_every_step(what["seconds"]))

    def _fail_every_step(self, seconds: float) -> None:
        receiver, lost = self.receiver, f"{MISLAID}_mislaid"
        before = receiver.said().count("Booting worker")
        self._change(MISLAY.format(MISLAID, lost))
        try:
            time.sleep(seconds)
            with contextlib.suppress(requests.RequestException, ValueError):
                led, ready = receiver.health()["loop"] == "leading", receiver.get("/readyz").ok
                self._counts["every step fails"] += led
                if led and ready and receiver.said().count("Booting worker") == before:
                    self._stage.witness.violated("8 ready", f"it is ready after {seconds} s without a good step")
        finally:
            self._change(MISLAY.format(lost, MISLAID))

    def _change(self, statement: str) -> None:
        """Change the store's schema, however long that takes."""
        while True:
            with contextlib.suppress(sqlite3.OperationalError, psycopg.Error):
                if self._stage.postgres is not None:
                    with psycopg.connect(self._stage.postgres.url, connect_timeout=3) as other:
                        other.execute(statement.encode())
                else:
                    with contextlib.closing(sqlite3.connect(self.receiver.store, timeout=1)) as file:
                        file.execute(statement)
                return
            time.sleep(0.2)

    def _lock(self, seconds: float) -> None:
        deadline = time.monotonic() + TRIES_FOR
        with contextlib.closing(sqlite3.connect(self.receiver.store, isolation_level=None, timeout=0.2)) as other:
            while time.monotonic() < deadline:
                with contextlib.suppress(sqlite3.OperationalError):
                    other.execute("BEGIN IMMEDIATE")
                    self._counts[f"store locked {seconds:g} s"] += 1
                    self._mail.send("firing")  # what comes now must be refused, or kept in the end
                    time.sleep(seconds)
                    other.execute("ROLLBACK")
                    return

    def _full(self, what: What) -> None:
        """The store's files cannot grow any more, as on a full disk; what is written into them still can."""
        wal = self.receiver.store.with_name(f"{self.receiver.store.name}-wal")
        with contextlib.suppress(OSError, IndexError):
            size, worker = wal.stat().st_size, self.receiver.worker
            if size < self.receiver.output.stat().st_size + ROOM:
                return  # the log would meet the limit first
            _, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
            resource.prlimit(worker, resource.RLIMIT_FSIZE, (size, hard))
            self._limited[worker] = time.monotonic() + what["seconds"]
            self._counts["store full"] += 1
            self._mail.send("six at once")

    def _unlimit(self, worker: int) -> None:
        del self._limited[worker]
        with contextlib.suppress(OSError):
            _, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
            resource.prlimit(worker, resource.RLIMIT_FSIZE, (hard, hard))

    # --- the sources

    def _wire(self, what: What) -> None:
        self._stage.cloud.fault(**what)

    def _watching(self, what: What) -> None:
        cloud, how = self._stage.cloud, what["how"]
        if how.startswith("gone"):
            cloud.fault(kind="expired", how=how.removeprefix("gone "))
            cloud.fault(kind="compact")
        else:
            cloud.fault(kind="watches", do=how.removeprefix("watches "))
            live = cloud.live

            def again() -> None:
                time.sleep(what["seconds"])
                with live.moved():
                    live.watches = "live"
                    live.changed.notify_all()

            self._beside(again)
        self._counts[how] += 1

    def _api_away(self, what: What) -> None:
        """The API server is away, and has forgotten what changed when it is back."""
        cloud = self._stage.cloud
        number = cloud.faults.add(HttpFault(kind="error", face="kubernetes", times=None))
        cloud.fault(kind="watches", do="close")

        def back() -> None:
            time.sleep(what["seconds"])
            cloud.fault(kind="compact")
            cloud.faults.clear(number)
            with cloud.live.moved():
                cloud.live.watches = "live"
                cloud.live.changed.notify_all()
            self._stage.witness.api_is_back()

        self._beside(back)
        self._counts[f"API server away {what['seconds']} s"] += 1

    def _stale(self, what: What) -> None:
        self._stage.witness.stale = what["lists"]

    def _ail(self, what: What) -> None:
        self._stage.faces.ail(what["whom"], what["how"], what["seconds"])

    def _machines(self, what: What) -> None:
        pool, how = what["pool"], what["how"]
        faults = {
            "stock": {"kind": "stock", "size": size_of(self._plans[pool]), "units": 0},
            "refuse": {"kind": "refuse_rescale", "times": 2},
        }
        self._stage.cloud.fault(**faults.get(how, {"kind": how, "pool": pool}))
        self._counts[how] += 1

    # --- signals

    def _deliver(self, what: What) -> None:
        self._mail.send(what["how"])

    def _fires(self, what: What) -> None:
        labels = {"alertname": "Said", "component": "gpu-autoscaler", "action": what["action"], "pool": what["pool"]}
        self._stage.faces.firing["said"] = labels
        self._counts[f"{what['action']} fires"] += 1

    def _ends(self, _what: What) -> None:
        self._stage.faces.firing.clear()
