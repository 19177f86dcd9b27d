"""Three receivers as processes on one real PostgreSQL, in front of one simulated Civo and cluster over HTTP.

What may not happen is noted where it would happen: triggers in the database see every change of the lease and every
write of a loop, and by which replica; the simulator sees every write to the outside, from which replica, and what it
did.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg
import requests
from sqlalchemy import make_url

from receiver.adapters.store import open_store
from receiver.config.model import LeaderSpec
from receiver.ports import TryLater
from simulator.server import Simulator
from tests.adapters.store.builders import PostgresServer
from tests.e2e.clouds import a_cloud
from tests.e2e.installing import a_beating_prometheus, installing
from tests.e2e.receivers import WEBHOOK_TOKEN, Receiver, a_pool
from tests.e2e.waiting import until
from tests.payloads import a_payload, heartbeat
from tests.wires import Wire

# Three names of the loopback address: the simulator tells by them who calls.
NAMES = ("127.0.0.1", "localhost", "127.1")
SHORT = {"lease": "5s", "call_timeout": "1500ms"}
RETRY = timedelta(seconds=4)  # a second between two tries to take the lease, and what they take on a busy machine
PATIENCE = 60.0
OUTSIDE = frozenset({"PUT", "POST", "DELETE", "PATCH"})

WATCHED = ("decisions", "actions", "snapshot", "node_lives", "pools")  # what only a loop writes
# AFTER: PostgreSQL also fires a BEFORE trigger for an INSERT that ON CONFLICT then drops. A replica that comes second
# to the first lease would look like a leader that gave it up.
TRIGGERS = """
CREATE TABLE seen_leases (id SERIAL, at TIMESTAMPTZ, app TEXT, owner TEXT, term BIGINT, expires_at TIMESTAMPTZ,
  old_owner TEXT, old_expires_at TIMESTAMPTZ);
CREATE TABLE seen_strays (id SERIAL, at TIMESTAMPTZ, app TEXT, place TEXT, leader TEXT);
CREATE FUNCTION see_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'INSERT' OR NEW.term <> OLD.term OR NEW.expires_at <> OLD.expires_at THEN
    INSERT INTO seen_leases (at, app, owner, term, expires_at, old_owner, old_expires_at) VALUES
      (clock_timestamp(), current_setting('application_name'), NEW.owner, NEW.term, NEW.expires_at,
       CASE WHEN TG_OP = 'UPDATE' THEN OLD.owner END, CASE WHEN TG_OP = 'UPDATE' THEN OLD.expires_at END);
  END IF; RETURN NULL; END $$;
CREATE TRIGGER see_lease AFTER INSERT OR UPDATE ON lease FOR EACH ROW EXECUTE FUNCTION see_lease();
CREATE FUNCTION see_write() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE leads TEXT; BEGIN
  SELECT app INTO leads FROM seen_leases WHERE owner IS NOT NULL ORDER BY id DESC LIMIT 1;
  IF leads IS DISTINCT FROM current_setting('application_name') THEN
    INSERT INTO seen_strays (at, app, place, leader)
      VALUES (clock_timestamp(), current_setting('application_name'), TG_TABLE_NAME, leads);
  END IF; RETURN NULL; END $$;
"""


@dataclass
class Effects:
    """What writes did at Civo, noted where they take effect."""

    wrong: list[str] = field(default_factory=list)
    bought: int = 0
    removed: int = 0

    def watch(self, cloud: Simulator) -> None:
        """Note every change of a count and every removal from now on."""
        world = cloud.live.world
        resize, delete = world.resize, world.delete_instance

        def resized(pool: str, count: int) -> None:
            before = world.pools[pool].required
            if count <= before:
                self.wrong.append(f"a PUT of {count} nodes where {before} were asked for already")
            resize(pool, count)
            self.bought += max(0, count - before)

        def deleted(pool: str, instance: str) -> None:
            going = [vm.status for vm in world.pools[pool].instances if vm.id == instance]
            if going in ([], ["DELETING"]):
                self.wrong.append(f"a second DELETE of {instance}")
            busy = [p.name for p in world.pods.values() if p.phase == "Running" and _on(world, p.node, instance)]
            if any(name.startswith("job-") for name in busy):
                self.wrong.append(f"a DELETE of {instance}, where {busy} run")
            delete(pool, instance)
            self.removed += 1

        vars(world).update(resize=resized, delete_instance=deleted)  # before the methods of its class


def _on(world: Any, node: str | None, instance: str) -> bool:
    found = world.nodes.get(node) if node else None
    return found is not None and found.instance == instance


def _is_ready(receiver: Receiver) -> bool:
    return receiver.get("/readyz").status_code == 200


class ReplicaSet:
    """Receivers that share a database and a cloud; each has a name of NAMES, and a wire to the database, for itself."""

    def __init__(
        self,
        cloud: Simulator,
        receivers: Sequence[Receiver],
        url: str,
        wires: Sequence[Wire],
        election: Mapping[str, str],
    ) -> None:
        self.cloud, self.receivers, self.url, self.wires = cloud, receivers, url, wires
        self.election = LeaderSpec.model_validate(election)
        self.takeover_within = self.election.lease + self.election.longest_write + RETRY
        self.frozen: set[int] = set()
        self.effects = Effects()
        self.effects.watch(cloud)
        self.jobs = 0

    # --- processes

    def start(self, number: int) -> None:
        """Start one, without waiting."""
        self.receivers[number].start()

    def kill(self, number: int) -> None:
        """SIGKILL one, master and worker at once."""
        self.receivers[number].server.kill()

    def freeze(self, number: int) -> None:
        """SIGSTOP one, master and worker."""
        os.killpg(self.receivers[number].server.pid, signal.SIGSTOP)
        self.frozen.add(number)

    def thaw(self, number: int) -> None:
        """SIGCONT it."""
        self.frozen.discard(number)
        os.killpg(self.receivers[number].server.pid, signal.SIGCONT)

    def thaw_all(self) -> None:
        """SIGCONT whoever is frozen."""
        for number in tuple(self.frozen):
            with suppress(ProcessLookupError, RuntimeError):
                self.thaw(number)

    def mend_wires(self) -> None:
        """Let everybody reach the database again."""
        for wire in self.wires:
            wire.mend()

    def alive(self) -> list[int]:
        """Return those that run and are not frozen."""
        return [n for n, r in enumerate(self.receivers) if r.server.alive and n not in self.frozen]

    def until_ready(self) -> None:
        """Wait until every one of them takes webhooks."""
        for receiver in self.receivers:
            until(partial(_is_ready, receiver), "a replica that is ready", PATIENCE)

    # --- who leads

    def leader(self) -> int | None:
        """The replica that has the lease, by the row."""
        found = self.rows("SELECT app FROM seen_leases WHERE owner IS NOT NULL ORDER BY id DESC LIMIT 1")
        free = self.rows("SELECT 1 FROM lease WHERE owner IS NULL")
        return int(found[0][0].removeprefix("replica-")) if found and not free else None

    def until_led(self, by_another_than: int | None = None, patience: float = PATIENCE) -> int:
        """Wait until somebody leads; return who."""
        until(lambda: self.leader() not in (None, by_another_than), "a leader", patience)
        found = self.leader()
        assert found is not None
        return found

    def terms(self) -> list[tuple[int, str, datetime]]:
        """Every term so far: its number, who began it, and when."""
        query = "SELECT term, app, min(at) FROM seen_leases WHERE owner IS NOT NULL GROUP BY term, app ORDER BY term"
        return [(int(term), str(app), at) for term, app, at in self.rows(query)]

    def taken_from(self, term: int) -> str | None:
        """Who still had the lease when *term* began; None when it had been given up."""
        found = self.rows("SELECT old_owner FROM seen_leases WHERE term = %s ORDER BY id LIMIT 1", term)
        return found[0][0] and str(found[0][0])

    # --- what is there

    def rows(self, query: str, *given: Any) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self.url, connect_timeout=5) as connection:
            return connection.execute(query, given).fetchall()

    def submit(self, seconds: Sequence[float]) -> None:
        """Hand in one job of one GPU for each of *seconds*, which it runs."""
        jobs = []
        for lasts in seconds:
            self.jobs += 1
            job = {"id": f"job-{self.jobs}", "duration": f"{round(lasts * 1000)}ms", "pods": 1, "gpus_per_pod": 1}
            jobs.append({**job, "namespace": "ml", "team": "vision"})
        self.cloud.live.submit(jobs)

    def unfinished(self) -> list[str]:
        """Pods of jobs that have not run to their end."""
        with self.cloud.moved() as world:
            return [p.name for p in world.pods.values() if p.name.startswith("job-") and p.phase != "Succeeded"]

    def required(self) -> int:
        """How many nodes Civo is asked for."""
        with self.cloud.moved() as world:
            return sum(pool.required for pool in world.pools.values())

    # --- what may not happen

    def violations(self, accepted: Sequence[int]) -> list[str]:
        """Say what did not hold so far; *accepted* are the deliveries that were answered 202."""
        found = [*self.effects.wrong, *self._taken_early(), *self._strays(), *self._outside(), *self._lost(accepted)]
        if self.effects.bought > self.jobs:
            found.append(f"{self.effects.bought} nodes were bought for {self.jobs} pods")
        return found

    def _taken_early(self) -> Iterator[str]:
        query = (
            "SELECT at, app, term, old_expires_at FROM seen_leases"
            " WHERE owner IS NOT NULL AND old_owner IS NOT NULL AND owner <> old_owner"
        )
        for at, app, term, ended in self.rows(query):
            if at < ended + self.election.longest_write:
                yield f"{app} began term {term} {ended + self.election.longest_write - at} before it might"

    def _strays(self) -> Iterator[str]:
        for at, app, place, leader in self.rows("SELECT at, app, place, leader FROM seen_strays ORDER BY id"):
            yield f"{app} wrote to {place} at {at:%H:%M:%S.%f} while {leader} led"

    def _outside(self) -> Iterator[str]:
        """Writes to the outside by who did not have the lease when they came."""
        spans = self.rows("SELECT at, app, expires_at, owner FROM seen_leases ORDER BY id")
        for call in self.cloud.log.entries():
            if call["method"] not in OUTSIDE:
                continue
            name = call["host"].rpartition(":")[0]
            app, at = f"replica-{NAMES.index(name)}", datetime.fromisoformat(call["at"])
            before = [span for span in spans if span[0] <= at + timedelta(milliseconds=5)]
            holder = before[-1][1] if before and before[-1][3] is not None else None
            if holder != app or at > before[-1][2]:
                yield f"{app} sent {call['method']} {call['path']} at {at:%H:%M:%S.%f} while {holder} had the lease"

    def _lost(self, accepted: Sequence[int]) -> Iterator[str]:
        kept = {row[0] for row in self.rows("SELECT id FROM deliveries")}
        if lost := sorted(set(accepted) - kept):
            yield f"deliveries {lost} were answered 202 and are not there"


class Storm:
    """Webhooks to every replica, all the time; what was answered 202 is remembered."""

    def __init__(self, receivers: Sequence[Receiver], pause: float = 0.2) -> None:
        self.accepted: list[int] = []
        self.refused = 0
        self._pause = pause
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(r,), daemon=True) for r in receivers]

    def __enter__(self) -> "Storm":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(10)

    def _send(self, receiver: Receiver) -> None:
        bodies = cycle([json.dumps(a_payload()), json.dumps(heartbeat())])
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {WEBHOOK_TOKEN}"}
        with requests.Session() as session:
            while not self._stopping.wait(self._pause):
                try:
                    answer = session.post(f"{receiver.url}/webhook", data=next(bodies), headers=headers, timeout=3)
                except requests.RequestException:
                    continue
                if answer.status_code == 202:
                    self.accepted.append(int(answer.json()["delivery"]))
                else:
                    self.refused += 1


def _through(wire: Wire, url: str, name: str) -> str:
    by_wire = make_url(url).set(port=wire.port).update_query_dict({"application_name": name})
    return by_wire.render_as_string(hide_password=False)


def _migrated(url: str) -> bool:
    """Migrate the database; False where PostgreSQL ended the connection, as it may on a machine that is very busy."""
    try:
        open_store(url).close()
    except TryLater:
        return False
    return True


@contextmanager
def replica_set(
    server: PostgresServer, folder: Path, election: Mapping[str, str] = SHORT, **config: Any
) -> Iterator[ReplicaSet]:
    """Yield three receivers that run, one of which leads and has stepped; all ends afterwards, however it stands."""
    database = f"replicas_{time.monotonic_ns()}"
    server.run(f"CREATE DATABASE {database}")
    url = server.url.removesuffix("/postgres") + f"/{database}"
    until(partial(_migrated, url), "the tables, which the triggers watch", PATIENCE)
    watch = [f"CREATE TRIGGER see_write AFTER INSERT OR UPDATE ON {t} EXECUTE FUNCTION see_write()" for t in WATCHED]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TRIGGERS)
        for statement in watch:
            connection.execute(statement)
    said: Mapping[str, Any] = {
        "tick": "2s",
        "billing": {"granularity": "1s"},
        "pools": [a_pool(idle_for="1s", cooldown={"grow": "0s", "shrink": "0s"})],
        "leader": election,
        **config,
    }
    with ExitStack() as ends:
        prometheus = ends.enter_context(a_beating_prometheus())
        cloud = ends.enter_context(a_cloud())
        install = ends.enter_context(installing(folder, prometheus))
        port = cloud.url.rpartition(":")[2]
        receivers, wires = [], [Wire(make_url(url).port or 5432) for _ in NAMES]
        for wire in wires:
            ends.callback(wire.close)
        for number, name in enumerate(NAMES):
            kubeconfig = cloud.kubeconfig(folder / f"config-{number}")
            kubeconfig.write_text(kubeconfig.read_text().replace("127.0.0.1", name))
            environ = {
                "GPU_AUTOSCALER_DATABASE_URL": _through(wires[number], url, f"replica-{number}"),
                "CIVO_API_URL": f"http://{name}:{port}",
                "KUBECONFIG": str(kubeconfig),
            }
            receivers.append(install(cloud, f"replica-{number}", environ, **said))
        found = ReplicaSet(cloud, receivers, url, wires, election)
        ends.callback(found.thaw_all)
        for number in range(len(NAMES)):
            found.start(number)
        found.until_led()
        found.until_ready()
        until(lambda: "max_nodes" in receivers[0].pool(), "the picture of a first step")
        yield found
    server.run(f"DROP DATABASE {database} WITH (FORCE)")
