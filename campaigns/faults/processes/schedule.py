"""A schedule as data, drawn from a seed: a small world, and what happens in it at which second.

A second of a schedule is one of the machine. Much more passes in the world, because both clocks are moved (`skip`):
what idles, cools down or backs off for minutes does so while nobody waits.
"""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from campaigns.faults.processes.faces import ALERTMANAGER_ILLS, PROMETHEUS_ILLS

TROUBLED = 9.0  # seconds
What = dict[str, Any]
ACT, STORE = "step/carry_out", "adapters/store/"
PHASES = {"step/settle": 100, "step/act.py": 150}
WITHIN = (ACT, ACT, ACT, *PHASES, "step/gather", "step/chores/node_upkeep", STORE, "")
LINES = {ACT: 60, **PHASES, "": 1500, STORE: 600}


@dataclass(frozen=True, kw_only=True)
class PoolPlan:
    """One pool of nodes with *gpus* GPUs each, at Civo and in the configuration."""

    name: str
    id: str
    gpus: int
    max_nodes: int
    min_nodes: int
    count: int
    usd: float  # a node-hour


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happens *at* a second of the schedule."""

    at: float
    kind: str
    what: What = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Everything that is decided beforehand. *budget_usd* and *max_gpus* None: no such bound. *postgres*: the store is
    there instead of in an SQLite file."""

    seed: int
    pools: list[PoolPlan]
    events: list[Event]
    mode: str = "act"
    granularity: int = 1
    budget_usd: float | None = None
    max_gpus: int | None = None
    watch: bool = True
    alertmanager: bool = True
    fallback: str = "none"
    troubled: float = TROUBLED
    postgres: bool = False

    def to_json(self) -> str:
        """Return it as JSON text."""
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> "Schedule":
        """Read what `to_json` wrote; other keys (why it is kept) are left out."""
        plain = {k: v for k, v in json.loads(text).items() if k in Schedule.__dataclass_fields__}
        pools = [PoolPlan(**p) for p in plain.pop("pools")]
        events = [Event(**e) for e in plain.pop("events")]
        return Schedule(pools=pools, events=events, **plain)


class Maker:
    """Draws one schedule, for *pools* where they are given."""

    def __init__(self, seed: int, pools: Sequence[PoolPlan] = ()) -> None:
        self.dice = random.Random(f"processes of {seed}")
        self.pools = list(pools) or [self._pool(n) for n in range(self.dice.choice([1, 1, 2, 3]))]
        self.events: list[Event] = []
        self.seed = seed
        self.rest = random.Random(f"stores and budgets of {seed}")  # came later: what was drawn before stays the same

    def schedule(self) -> Schedule:
        """Draw everything."""
        dice = self.dice
        self._work()
        self._troubles()
        granularity = dice.choice([1, 1, 60])
        most = sum(p.gpus * p.max_nodes for p in self.pools)
        drawn = Schedule(
            seed=self.seed,
            pools=self.pools,
            events=[],
            mode="observe" if dice.random() < 0.06 else "act",
            granularity=granularity,
            budget_usd=dice.choice([6.0, 20.0]) if granularity > 1 and dice.random() < 0.6 else None,
            max_gpus=max(2 * max(p.gpus for p in self.pools), most - 2) if dice.random() < 0.25 else None,
            watch=dice.random() < 0.7,
            alertmanager=dice.random() < 0.7,
            fallback=dice.choice(["none", "kubernetes"]),
        )
        drawn = self._found_outside(self._bound(drawn))
        self._database(postgres=drawn.postgres)
        return replace(drawn, events=sorted(self.events, key=lambda e: e.at))

    def _bound(self, drawn: Schedule) -> Schedule:
        """Some have so little money that it ends while work waits, and some their store in PostgreSQL."""
        rest = self.rest
        postgres = rest.random() < 0.35
        if rest.random() >= 0.3:
            return replace(drawn, postgres=postgres)
        an_hour = max(p.usd for p in self.pools)
        minutes = rest.choice([2.5, 4.0, 6.0])  # of the dearest node
        budget = round(an_hour / 60 * minutes, 2)
        return replace(drawn, postgres=postgres, granularity=60, budget_usd=budget)

    def _found_outside(self, drawn: Schedule) -> Schedule:
        """In some the API server is away for so long that watches back off, or no step can read the store."""
        dice = random.Random(f"outside of {self.seed}")
        chance = dice.random()
        if chance < 0.1:
            disturbing = ("watching", "end", "line")  # they begin the backoff anew
            self.events = [e for e in self.events if e.kind not in disturbing]
            self._add("api_away", 1.0, seconds=28)
            return replace(drawn, watch=True, troubled=30.0)
        if chance > 0.94:
            self._add("mislaid", 1.0, seconds=14)
            return replace(drawn, troubled=17.0)
        return drawn

    def _database(self, *, postgres: bool) -> None:
        """What happens to PostgreSQL, or to the file: connections end, the server is away, nothing may be written."""
        rest = self.rest
        for kind, often in (("cut", 0.8), ("away", 0.6), ("read_only", 0.4)) if postgres else (("read_only", 0.3),):
            for _ in range(int(often + rest.random())):
                at = round(rest.uniform(0, TROUBLED), 2)
                self._add(kind, at, seconds=rest.choice([1, 3]))

    def _pool(self, number: int) -> PoolPlan:
        dice = self.dice
        least = dice.choice([0, 0, 0, 1])
        return PoolPlan(
            name=("l40s", "a100", "h100")[number],
            id=f"5f3c0000-0000-4000-8000-00000000000{number}",
            gpus=dice.choice([1, 1, 2, 4]),
            max_nodes=dice.choice([1, 2, 3, 4]),
            min_nodes=least,
            count=dice.choice([0, least, 1]),
            usd=dice.choice([6.0, 60.0]),
        )

    def _at(self, until: float = 1.0) -> float:
        return round(self.dice.uniform(0, TROUBLED * until), 2)

    def _add(self, kind: str, at: float | None = None, /, **what: Any) -> None:
        self.events.append(Event(at=self._at() if at is None else at, kind=kind, what=what))

    def _work(self) -> None:
        dice, number = self.dice, 0
        for at in sorted(self._at(0.8) for _ in range(dice.choice([2, 3, 4]))):
            for _ in range(dice.choice([1, 1, 2])):
                pool = dice.choice(self.pools)
                each = dice.choice([1, pool.gpus])
                seconds = dice.choice([2, 20, 60])
                self._add(
                    "job", at, id=f"j{number}", pool=pool.id, pods=dice.choice([1, 1, 2, 3]), each=each, seconds=seconds
                )
                if dice.random() < 0.2:
                    self._add("cancel", id=f"j{number}")
                number += 1
            if dice.random() < 0.9:
                self._add("deliver", round(at + dice.choice([0.3, 1.0]), 2), how=dice.choice(DELIVERIES))

    def _troubles(self) -> None:
        dice = self.dice
        for _ in range(dice.choice([2, 4, 6])):
            self._add("skip", seconds=dice.choice([3, 10, 30, 90]))
        for make, often in self._kinds():
            for _ in range(int(often + dice.random())):
                make()

    def _kinds(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._end, 0.5),
            (self._line, 1.0),
            (self._civo, 2.5),
            (self._kubernetes, 1.5),
            (self._watching, 0.4),
            (lambda: self._add("stale", lists=self.dice.choice([1, 2, 4])), 0.4),
            (self._sources, 1.0),
            (self._store, 0.6),
            (self._clock, 0.3),
            (self._machines, 0.5),
            (self._landing, 0.6),
            (lambda: self._add("deliver", how=self.dice.choice(DELIVERIES)), 1.0),
            (self._signal, 0.3),
        ]

    def _end(self) -> None:
        """Somebody ends the process, or a part of it."""
        how = self.dice.choice(["kill worker", "kill worker", "kill all", "kill all", "orphan", "stop"])
        self._add("end", how=how, down=self.dice.choice([0, 0, 1.0]))

    def _line(self) -> None:
        """It kills itself between two lines, for that is where the worst moments are."""
        within = self.dice.choice(WITHIN)
        self._add("line", within=within, lines=round(math.exp(self.dice.uniform(0, math.log(LINES.get(within, 150))))))

    def _civo(self) -> None:
        dice = self.dice
        method = dice.choice(["PUT", "PUT", "DELETE", "DELETE", "GET", ""])
        after = dice.random() < 0.5
        how: What = dice.choice(
            [
                {"kind": "error", "status": dice.choice([500, 502, 503, 504])},
                {"kind": "error", "status": 409, "code": "cannot_scale_already_rescaling_cluster"},
                {"kind": "rate_limit", "retry_after": dice.choice([1, 20])},
                {"kind": "rate_limit"},
                {"kind": "timeout", "seconds": dice.choice(["0s", "1s", "3s"]), "after_effect": after},
                {"kind": "timeout", "seconds": dice.choice(["0s", "1s", "3s"]), "after_effect": after},
                {"kind": "error", "status": 500, "after_effect": True},
                {"kind": "hang", "seconds": "1s"},
                {"kind": "slow", "seconds": dice.choice(["1s", "2s"])},
                {"kind": "not_json", "status": dice.choice([200, 502])},
            ]
        )
        self._add("wire", face="civo", method=method, times=dice.choice([1, 1, 2]), **how)

    def _kubernetes(self) -> None:
        dice = self.dice
        method = dice.choice(["PATCH", "PATCH", "GET", "POST"])
        after = dice.random() < 0.5
        how: What = dice.choice(
            [
                {"kind": "error", "status": dice.choice([500, 503]), "code": "InternalError"},
                {"kind": "error", "status": 409, "code": "Conflict"},
                {"kind": "rate_limit", "retry_after": 1},
                {"kind": "timeout", "seconds": dice.choice(["0s", "1s"]), "after_effect": after},
                {"kind": "timeout", "seconds": dice.choice(["0s", "1s"]), "after_effect": after},
                {"kind": "hang", "seconds": "1s"},
                {"kind": "slow", "seconds": "1s"},
                {"kind": "not_json", "status": dice.choice([200, 502])},
            ]
        )
        self._add("wire", face="kubernetes", method=method, times=dice.choice([1, 1, 2]), **how)

    def _watching(self) -> None:
        how = self.dice.choice(["watches hang", "watches close", "watches error", "gone event", "gone status"])
        self._add("watching", how=how, seconds=self.dice.choice([1, 3]))

    def _sources(self) -> None:
        whom = self.dice.choice(["prometheus", "prometheus", "alertmanager"])
        how = self.dice.choice(PROMETHEUS_ILLS if whom == "prometheus" else ALERTMANAGER_ILLS)
        self._add("ail", whom=whom, how=how, seconds=self.dice.choice([1, 3, 6]))

    def _store(self) -> None:
        kind = self.dice.choice(["locked", "full"])
        self._add(kind, seconds=self.dice.choice([0.5, 2, 6.5] if kind == "locked" else [1, 3]))

    def _clock(self) -> None:
        at = self._at()
        self._add("clock", at, by=self.dice.choice([-90, -20, 15, 60, 200]))
        self._add("clock", round(at + self.dice.choice([1, 4]), 2), by=0)

    def _machines(self) -> None:
        dice, pool = self.dice, self.dice.choice(self.pools)
        kind = dice.choice(["stock", "stuck_building", "gpu_never", "odd_status", "refuse"])
        self._add("machines", how=kind, pool=pool.id)

    def _landing(self) -> None:
        """A pod at the worst moment: its node was cordoned for a removal right before."""
        self._add("land", seconds=self.dice.choice([2, 20]), after=self.dice.choice([0, 0.5]))

    def _signal(self) -> None:
        at = self._at()
        action = self.dice.choice(["freeze", "pause_scale_up", "hold", "scale_down"])
        self._add("fires", at, action=action, pool=self.dice.choice(self.pools).id)
        self._add("ends", round(at + self.dice.choice([1, 3]), 2))


DELIVERIES = ("firing", "firing", "twice", "six at once", "resolved first", "false resolve", "unreadable")


def schedule(seed: int) -> Schedule:
    """The schedule of *seed*."""
    return Maker(seed).schedule()
