"""A round of work in which something is broken: the leader dies, is frozen and wakes, loses its database while it
reaches Civo, or is told to stop, while webhooks come to all replicas.

Each round hands in jobs, breaks something in the midst of them, and lets everything come to rest. After each nothing
may have been done twice or by who did not lead, no answered alert may be lost, and another must have led in time.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from campaigns.replicas.replica_set import PATIENCE, ReplicaSet, Storm
from tests.adapters.store.builders import PostgresServer, postgres_programs, postgres_server
from tests.e2e.clouds import calls
from tests.e2e.waiting import until

SLOW = {"kind": "slow", "face": "civo", "times": None}


@dataclass
class Round:
    """One round: its dice, and what it did for whoever reads on."""

    replicas: ReplicaSet
    dice: random.Random
    did: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    takeover: float | None = None
    slack: float = 0.0  # for a takeover on a machine that has other things to do, in seconds

    def wait(self, least: float, most: float) -> None:
        """Let some time pass."""
        time.sleep(self.dice.uniform(least, most))

    def in_the_midst(self) -> None:
        """Wait for a moment while a node is bought, or while one is removed."""
        if self.dice.random() < 0.6:
            self.wait(0.0, 3.0)
            return
        with suppress(TimeoutError):
            until(lambda: self._open("retire"), "a removal")
        self.wait(0.0, 6.0)

    def _open(self, kind: str) -> bool:
        query = "SELECT 1 FROM actions WHERE closed_at IS NULL AND kind = %s"
        return bool(self.replicas.rows(query, kind))

    def lost(self, leader: int) -> int:
        """Wait for another leader than *leader*, which ends now; note how long that took."""
        began = time.time()
        before = len(self.replicas.terms())
        found = self.replicas.until_led(by_another_than=leader)
        begun = self.replicas.terms()[before:] or self.replicas.terms()[-1:]
        self.takeover = begun[0][2].timestamp() - began
        if self.takeover > self.replicas.takeover_within.total_seconds() + self.slack:
            self.wrong.append(f"the next leader came {self.takeover:.1f} s later")
        return found


Fault = Callable[[Round], None]  # what a round breaks


def killed(a: Round) -> None:
    """SIGKILL the leader in the midst of it."""
    a.in_the_midst()
    leader = a.replicas.until_led()
    a.replicas.kill(leader)
    a.did.append(f"killed replica {leader}")
    a.lost(leader)


def killed_while_it_writes(a: Round) -> None:
    """SIGKILL the leader while Civo has its PUT or DELETE and takes its time."""
    method = a.dice.choice(["PUT", "PUT", "DELETE"])
    before = len(calls(a.replicas.cloud, method))
    seconds = round(a.dice.uniform(0.5, 5.5), 2)
    a.replicas.cloud.fault(kind="slow", face="civo", method=method, seconds=f"{seconds}s", times=1)
    try:
        until(lambda: len(calls(a.replicas.cloud, method)) > before, f"a {method}")
    except TimeoutError:
        a.did.append(f"no {method} came")
        return
    leader = a.replicas.until_led()
    a.replicas.kill(leader)
    a.did.append(f"killed replica {leader} {seconds} s before its {method} took effect")
    a.lost(leader)


def frozen(a: Round) -> None:
    """SIGSTOP the leader while it waits for an approval of Civo, until after another has led for a while."""
    a.replicas.cloud.fault(**SLOW, method="GET", seconds=f"{a.dice.uniform(0.3, 0.9):.2f}s")
    a.in_the_midst()
    until(lambda: calls(a.replicas.cloud, "GET")[-1]["status"] is None, "a question to Civo")
    leader = a.replicas.until_led()
    a.replicas.freeze(leader)
    a.replicas.cloud.faults.clear()
    a.lost(leader)
    a.wait(0.0, 3.0)
    a.replicas.thaw(leader)
    a.did.append(f"froze replica {leader} until after another led")


def frozen_before_it_buys(a: Round) -> None:
    """SIGSTOP the leader while it reads the count again, right before its PUT."""
    a.replicas.cloud.fault(**SLOW, method="GET", seconds="0.8s")
    with suppress(TimeoutError):
        until(lambda: a._open("grow"), "an open growth")
    leader = a.replicas.until_led()
    a.replicas.freeze(leader)
    a.replicas.cloud.faults.clear()
    a.lost(leader)
    a.wait(0.0, 4.0)
    a.replicas.thaw(leader)
    a.did.append(f"froze replica {leader} with a growth open")


def blinked(a: Round) -> None:
    """SIGSTOP the leader for less time than a takeover takes."""
    a.in_the_midst()
    leader = a.replicas.until_led()
    a.replicas.freeze(leader)
    a.wait(0.2, a.replicas.election.lease.total_seconds())
    a.replicas.thaw(leader)
    a.did.append(f"froze replica {leader} for a moment")


def told_to_stop(a: Round) -> None:
    """SIGTERM the leader in the midst of it."""
    a.in_the_midst()
    hand_over(a)


def hand_over(a: Round) -> None:
    """SIGTERM the leader: it must give up the lead, so that the next need not wait for the lease to end."""
    leader = a.replicas.until_led()
    before = len(a.replicas.terms())
    a.replicas.receivers[leader].terminate(25)
    ended = time.time()
    a.replicas.kill(leader)  # so that it may be started again
    a.replicas.until_led(by_another_than=leader)
    term, _, begun = a.replicas.terms()[before]
    a.takeover = begun.timestamp() - ended
    if a.replicas.taken_from(term) is not None:
        a.wrong.append(f"the lead was not given up, and taken over only {a.takeover:.1f} s after the leader's end")
    a.did.append(f"stopped replica {leader}")


def follower_killed(a: Round) -> None:
    """SIGKILL one that does not lead."""
    a.in_the_midst()
    leader = a.replicas.until_led()
    other = a.dice.choice([n for n in a.replicas.alive() if n != leader])
    a.replicas.kill(other)
    a.did.append(f"killed replica {other}, which did not lead")


def cut_off(a: Round) -> None:
    """End every session that the leader has with the database."""
    a.in_the_midst()
    leader = a.replicas.until_led()
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    a.replicas.rows(query, f"replica-{leader}")
    a.did.append(f"cut the sessions of replica {leader}")


def partitioned(a: Round) -> None:
    """Keep the leader from the database until after another led; Civo and the cluster it reaches as before."""
    a.replicas.cloud.fault(**SLOW, method="GET", seconds=f"{a.dice.uniform(0.2, 0.8):.2f}s")
    with suppress(TimeoutError):
        until(lambda: a._open("grow"), "an open growth")
    if a.dice.random() < 0.6:  # while it reads the count again, right before its PUT
        until(lambda: calls(a.replicas.cloud, "GET")[-1]["status"] is None, "a question to Civo")
    else:
        a.wait(0.0, 3.0)
    leader = a.replicas.until_led()
    wire, silent = a.replicas.wires[leader], a.dice.random() < 0.5
    (wire.silence if silent else wire.refuse)()
    a.replicas.cloud.faults.clear()
    a.lost(leader)
    a.wait(0.0, 4.0)
    wire.mend()
    a.did.append(f"{'nothing came' if silent else 'no way'} from the database to replica {leader} until another led")


FAULTS: tuple[Fault, ...] = (
    killed,
    killed_while_it_writes,
    killed_while_it_writes,
    frozen,
    frozen,
    frozen_before_it_buys,
    frozen_before_it_buys,
    blinked,
    told_to_stop,
    follower_killed,
    cut_off,
    partitioned,
    partitioned,
)


def play(a: Round, storm: Storm, fault: Fault, rest: float = 0.5) -> Round:
    """Play a round to its end; what did not hold is in its *wrong*. *rest* is the chance that all nodes go last."""
    replicas, dice = a.replicas, a.dice
    replicas.submit([dice.uniform(2.0, 4.0) for _ in range(dice.choice([1, 1, 2, 3]))])
    try:
        fault(a)
        replicas.cloud.faults.clear()
        replicas.mend_wires()
        replicas.thaw_all()
        for number, receiver in enumerate(replicas.receivers):
            if not receiver.server.alive:
                replicas.start(number)
        until(lambda: not replicas.unfinished(), "the end of every job", PATIENCE)
        if dice.random() < rest:
            until(lambda: not replicas.required(), "no node left", PATIENCE)
        newest = max(storm.accepted, default=0)
        query = "SELECT 1 FROM deliveries WHERE considered_at IS NULL AND id <= %s"
        until(lambda: not replicas.rows(query, newest), "every alert considered", PATIENCE)
        replicas.until_ready()
    except TimeoutError as error:
        a.wrong.append(str(error))
    return a


@contextmanager
def a_server() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL of our own."""
    programs = postgres_programs()
    if programs is None:
        raise SystemExit("PostgreSQL's initdb is not installed")
    with postgres_server(programs) as url:
        server = PostgresServer(url)
        yield server
        server.close()
