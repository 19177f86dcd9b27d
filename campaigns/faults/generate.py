"""A scenario from a seed: small pools, short work, and something that goes wrong about every half minute."""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from campaigns.faults.bugs import bugs
from campaigns.faults.claims import with_claims
from campaigns.faults.commitments import committed
from campaigns.faults.doors import PORTS
from campaigns.faults.ends import ends
from campaigns.faults.everyday import everyday
from campaigns.faults.grouped import in_forms
from campaigns.faults.outside import found_outside
from campaigns.faults.scenario import STARTUP_TAINTS, Event, PoolPlan, Scenario
from campaigns.faults.sick import repaired, sick_events, tainted_otherwise

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
SHARED = "nvidia.com/gpu.shared"
STARTS = ("2026-11-20T12:00:00+00:00", "2026-11-20T12:00:00+00:00", "2026-11-30T23:40:00+00:00")
WRITES_OF_PORTS = (
    *("cloud.resize", "cloud.retire", "cluster.cordon", "cluster.uncordon", "cluster.drain", "cluster.gpu_pods_on"),
    *("cluster.cordon_for_budget", "cluster.uncordon_for_budget"),
    *("store.opened", "store.progressed", "store.closed", "store.saw", "store.decided"),
)
What = dict[str, Any]


class Maker:
    """Draws one scenario from *dice*."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.troubled = self.dice.choice([1200, 1800, 2700])
        self.pools = [self._pool(n) for n in range(self.dice.choice([1, 1, 2, 2, 3, 4]))]
        self.events: list[Event] = []
        self.jobs: list[str] = []

    def chance(self, ratio: float) -> bool:
        """True with that probability."""
        return self.dice.random() < ratio

    def scenario(self) -> Scenario:
        """Draw everything."""
        dice = self.dice
        self._work()
        self._troubles()
        objective = self._refusals()
        in_forms(self.seed, self.events)
        granularity = dice.choice([3600, 600, 600, 1])
        budget = None
        if self.chance(0.35):
            dear = max(float(p.price or 0) for p in self.pools) * max(granularity, 60) / 3600
            budget = f"{dear * dice.choice([8, 20, 60, 200]):.2f}"
        self._that_count()
        return Scenario(
            seed=self.seed,
            start=dice.choice(STARTS),
            pools=committed(
                self.seed,
                self.troubled,
                self._with_sick_nodes(
                    self._by_dra(self._that_taint(self._that_ask(self._that_evict(self._with_budgets(budget)))))
                ),
            ),
            events=sorted(
                [
                    *self.events,
                    *self._words(),
                    *self._answers(),
                    *self._shelves(),
                    *self._taints_that_come_back(),
                    *self._keepers(),
                    *ends(self.seed, self.troubled),
                    *bugs(self.seed, self.troubled, self.pools),
                    *sick_events(self.seed, self.troubled, self.pools),
                ],
                key=lambda e: e.at,
            ),
            troubled=self.troubled,
            ticks=[dice.choice([5, 10, 20, 30, 60, 90]) for _ in range(20)],
            timings={**self._timings(), "terminate": self._terminate()},
            behaviour=self._behaviour(),
            granularity=granularity,
            removal_margin=min(120, granularity // 3) if granularity > 1 else 0,
            budget=budget,
            limits=self._limits(),
            fallback=dice.choice(["none", "kubernetes"]),
            mode="observe" if self.chance(0.04) else "act",
            packing=dice.choice(["most_allocated", "first_fit"]),
            objective=objective,
            watch=random.Random(f"watch of {self.seed}").choice([None, 0.3, 0.5, 2.0]),
        )

    def _with_sick_nodes(self, pools: list[PoolPlan]) -> list[PoolPlan]:
        return repaired(self.seed, tainted_otherwise(self.seed, pools))

    def _terminate(self) -> float:
        """How long a pod takes to go: within our first look after an eviction, or past some. By dice of its own."""
        return random.Random(f"terminate of {self.seed}").choice([0.2, 1, 2, 2, 30])

    def _with_budgets(self, budget: str | None) -> list[PoolPlan]:
        """Some pools have a part of the budget of their own; by dice of their own, so that no other draw moves."""
        dice = random.Random(f"budgets of {self.seed}")
        if budget is None or dice.random() < 0.5:
            return self.pools
        parts = [dice.choice([None, None, 0.2, 0.5, 1.0]) for _ in self.pools]
        return [
            plan if part is None else replace(plan, budget=f"{float(budget) * part:.2f}")
            for plan, part in zip(self.pools, parts, strict=True)
        ]

    def _refusals(self) -> str:
        """In some worlds GPUs are kept warm, and some gangs there never have all their pods; by dice of their own."""
        dice = random.Random(f"refusals of {self.seed}")
        if dice.random() < 0.7:
            return "balanced"
        for event in self.events:
            if event.kind == "job" and event.what.get("gang") and dice.random() < 0.6:
                event.what["least"] = event.what["pods"] + dice.choice([1, 4])
        return "wait"

    def _words(self) -> list[Event]:
        """In some worlds people say what they want of pools for a while; by dice of their own as well."""
        dice, found = random.Random(f"overrides of {self.seed}"), []
        for number in range(dice.choice([0, 0, 0, 1, 2, 4])):
            said = dice.choice(["pin", "floor", "ceiling", "pause", "snooze"])
            plan = dice.choice([*self.pools, None])
            what: What = {"id": f"o{number}", "say": said, "seconds": dice.choice([30, 120, 600, 1500, 3000])}
            if plan is not None:
                what["pool"] = plan.id
            if said in ("pin", "floor", "ceiling"):
                what["nodes"] = dice.choice([0, 1, 2, plan.max_nodes if plan is not None else 3, 9])
            at = round(dice.uniform(0, self.troubled), 1)
            found.append(Event(at=at, kind="override", what=what))
            if dice.random() < 0.3:
                end = Event(at=round(at + dice.choice([5, 60, 600]), 1), kind="override_end", what={"id": what["id"]})
                found.append(end)
        return found

    def _that_count(self) -> None:
        """In some worlds pods ask for CPU and memory, now and then for more than a node has; by dice of their own."""
        dice = random.Random(f"compute of {self.seed}")
        if dice.random() < 0.7:
            return
        for event in self.events:
            if event.kind in ("job", "cpu") and dice.random() < 0.7:
                cpu, gib = dice.choice([500, 3000, 5950, 6000, 11_900, 13_000]), dice.choice([1, 1, 20, 44, 90])
                event.what["compute"] = {"cpu": cpu if event.kind == "job" else min(cpu, 3000), "memory": gib * 2**30}

    def _that_evict(self, pools: list[PoolPlan]) -> list[PoolPlan]:
        """Some worlds have windows that evict; by dice of their own. Work is light there, for a busy pool is held."""
        dice = random.Random(f"windows of {self.seed}")
        if dice.random() < 0.75:
            return pools
        for event in self.events:
            if event.kind == "job" and dice.random() < 0.9:
                event.what.setdefault("util", 0.5)
                event.what["owner"] = "ReplicaSet"  # a Job's pods yield to no window
        return [
            replace(
                plan,
                window=[725, 725 + dice.choice([10, 20]), dice.choice([0, 0, 1])],
                evict_after=dice.choice([60, 120, 300]),
            )
            for plan in pools
        ]

    def _keepers(self) -> list[Event]:
        """In some worlds pods without a GPU come that draining their node would lose; by dice of their own."""
        dice = random.Random(f"keepers of {self.seed}")
        found = []
        for number in range(dice.choice([0, 0, 0, 1, 2])):
            what: What = {"id": f"kept{number}", "tolerations": dice.choice([[], [["", "Exists", "", ""]]])}
            if dice.random() < 0.5:
                what["owner"] = ""
            else:
                what |= {"namespace": "kube-system", "covered": dice.random() < 0.5}
            if dice.random() < 0.3:
                what["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
            found.append(Event(at=round(dice.uniform(0, self.troubled), 1), kind="cpu", what=what))
        return found

    def _that_ask(self, pools: list[PoolPlan]) -> list[PoolPlan]:
        """In some worlds people are asked before changes; by dice of their own."""
        dice = random.Random(f"questions of {self.seed}")
        if dice.random() < 0.75:
            return pools
        return [
            replace(
                plan,
                asks={
                    "removals": dice.random() < 0.8,
                    "growth_above_usd_per_hour": dice.choice([None, "0", "2"]),
                    "wait": dice.choice([60, 120, 300]),
                    "unanswered": dice.choice(["proceed", "hold"]),
                },
            )
            for plan in pools
        ]

    def _that_taint(self, pools: list[PoolPlan]) -> list[PoolPlan]:
        """In some worlds new nodes carry a startup taint at first; by dice of their own."""
        dice = random.Random(f"startup taints of {self.seed}")
        if dice.random() < 0.75:
            return pools
        return [replace(plan, startup_taint=dice.choice([None, *STARTUP_TAINTS])) for plan in pools]

    def _by_dra(self, pools: list[PoolPlan]) -> list[PoolPlan]:
        """In some worlds a DRA driver serves the GPUs of some pools; by dice of their own."""
        dice = random.Random(f"dra of {self.seed}")
        if dice.random() < 0.85:
            return pools
        return [replace(plan, dra=dice.random() < 0.7) for plan in pools]

    def _taints_that_come_back(self) -> list[Event]:
        """In some worlds usable nodes get a startup taint again, for a moment or for long; by dice of their own."""
        dice = random.Random(f"taints that come back of {self.seed}")
        found: list[Event] = []
        for _ in range(dice.choice([0, 0, 0, 0, 2, 5])):
            what: What = {"pool": dice.choice(self.pools).id, "key": dice.choice(STARTUP_TAINTS)}
            at = round(dice.uniform(0, self.troubled), 1)
            found.append(Event(at=at, kind="retaint", what={**what, "which": dice.randint(0, 5)}))
            found.append(Event(at=at + dice.choice([20, 100, 170, 300, 1500]), kind="retaint_over", what=what))
        return found

    def _answers(self) -> list[Event]:
        """Now and then somebody answers whatever is asked then."""
        dice = random.Random(f"answers of {self.seed}")
        words = ["approve"] * 3 + [
            "snooze-1h",
            "snooze-4h",
            "snooze-today",
            "snooze-tomorrow",
            "pin",
            "reject",
            "reject",
        ]
        return [
            Event(at=round(dice.uniform(0, self.troubled), 1), kind="answer", what={"say": dice.choice(words)})
            for _ in range(dice.choice([0, 2, 6]))
        ]

    def _shelves(self) -> list[Event]:
        """In half of the worlds only some nodes of a size are in stock, now and then; by dice of their own."""
        dice, found = random.Random(f"shelves of {self.seed}"), []
        for _ in range(dice.choice([0, 0, 1, 2, 4])):
            plan, at = dice.choice(self.pools), round(dice.uniform(0, self.troubled), 1)
            left = dice.choice([1, 1, 2, 3]) * sum(plan.resources.values())
            found.append(Event(at=at, kind="stock", what={"pool": plan.id, "left": left}))
            later = round(at + dice.choice([60, 600, 1200]), 1)
            found.append(Event(at=later, kind="stock", what={"pool": plan.id, "left": dice.choice([None, left])}))
        return found

    # --- what there is

    def _pool(self, number: int) -> PoolPlan:
        dice, name = self.dice, ("l40s", "a100", "h100", "small")[number]
        resources = dice.choice([{GPU: 1}, {GPU: 1}, {GPU: 2}, {GPU: 4}, {GPU: 8}, {MIG: 7}, {SHARED: 4}])
        maximum = dice.randint(1, 5)
        least = dice.choice([0, 0, 0, 0, 1])
        labels = dice.choice([{}, {"gpu": name}, {"gpu": name, "tier": "spot"}])
        wrong = {"gpu": "other"} if labels and self.chance(0.06) else None
        window = None
        if self.chance(0.08):
            window = [725, 725 + dice.choice([10, 20]), dice.choice([0, 1])]
        priced = self.chance(0.97)
        return PoolPlan(
            name=name,
            resources=resources,
            max_nodes=maximum,
            price=dice.choice(["1.29", "2.40", "8.00"]) if priced else None,
            labels=labels,
            true_labels=wrong,
            taints=dice.choice([[], [], [["gpu", "true", "NoSchedule"]], [["soft", "", "PreferNoSchedule"]]]),
            min_nodes=least if priced else 0,
            standby_nodes=dice.choice([0, 0, 0, 1]) if priced else 0,
            count=dice.choice([0, 0, least, min(2, maximum)]),
            idle_for=dice.choice([60, 120, 300]),
            provision_timeout=dice.choice([600, 900]),
            grow_cooldown=dice.choice([0, 30, 60]),
            shrink_cooldown=dice.choice([0, 60, 120]),
            window=window,
        )

    def _timings(self) -> dict[str, float]:
        dice = self.dice
        return {
            "create": dice.choice([0, 0, 5, 40]),
            "build": dice.choice([20, 60, 120]),
            "boot": dice.choice([10, 30]),
            "driver": dice.choice([20, 90, 180]),
            "image_pull": dice.choice([1, 5, 30]),
            "delete": dice.choice([1, 20, 60]),
            "label_lag": dice.choice([0, 0, 0, 30]),
            "set_up": random.Random(f"set up of {self.seed}").choice([5, 60, 150]),
            "node_lingers": dice.choice([0, 10, 40]),
            "jitter": dice.choice([0, 0.3]),
        }

    def _behaviour(self) -> What:
        dice = self.dice
        return {
            "decrement": dice.choice(["at_once"] * 6 + [20, 90, 400, "never"]),
            "list_count": dice.choice(["desired", "actual"]),
            "partial_fill": self.chance(0.2),
            "rescale_conflict": self.chance(0.15),
            "victims_by_age": dice.choice(["oldest", "newest"]),
        }

    def _limits(self) -> dict[str, int]:
        dice, found = self.dice, {}
        if self.chance(0.2):
            least = max(sum(p.resources.values()) for p in self.pools)
            found["max_gpus"] = least * dice.choice([2, 3, 5])
        if self.chance(0.15):
            found["max_growth_per_hour"] = dice.choice([3, 5, 8])
        if self.chance(0.15):
            found["max_removals_per_hour"] = dice.choice([2, 4, 8])
        return found

    # --- work

    def _at(self, until: float = 0.85) -> float:
        return round(self.dice.uniform(0, self.troubled * until), 1)

    def _add(self, kind: str, at: float | None = None, call: str | None = None, **what: Any) -> None:
        self.events.append(Event(at=self._at() if at is None else at, kind=kind, what=what, call=call))

    def _work(self) -> None:
        waves = sorted(self._at() for _ in range(self.dice.choice([2, 3, 5])))
        for at in waves:
            for _ in range(self.dice.choice([1, 1, 2, 4])):
                self._job(round(at + self.dice.choice([0, 0, 1, 20]), 1))
        for number in range(self.dice.choice([0, 0, 1])):
            pods = self.dice.choice([1, 2])
            least = self.dice.choice([0, 0, 1, pods])
            hosts = {"app.kubernetes.io/name": "prometheus"} if self.chance(0.3) else {}
            self._add(
                "cpu",
                id=f"web{number}",
                pods=pods,
                min_available=least,
                labels=hosts,
                tolerations=self.dice.choice([[], [["gpu", "Exists", "", "NoSchedule"]]]),
            )

    def _job(self, at: float, call: str | None = None) -> None:
        dice, pool = self.dice, self.dice.choice(self.pools)
        resource, there = next(iter(pool.resources.items()))
        gang = self.chance(0.2)
        each = dice.choice([1, 1, there, max(1, there // 2)])
        what: What = {
            "id": f"j{len(self.jobs)}",
            "seconds": dice.choice([30, 120, 300, 600, 1500]),
            "pods": dice.choice([2, 3, 4]) if gang else dice.choice([1, 1, 2, 3]),
            "each": each if self.chance(0.97) else there + 1,
            "resource": resource if self.chance(0.98) else "amd.com/gpu",
            "tolerations": self._tolerates(),
        }
        if gang:
            what["gang"] = True
        if pool.labels and self.chance(0.4):
            what["selector"] = dict([dice.choice(list(pool.labels.items()))])
        elif self.chance(0.1):
            key = "kubernetes.civo.com/civo-node-pool"
            what["affinity"] = [[[key, dice.choice(["In", "NotIn"]), [dice.choice(self.pools).id]]]]
        elif self.chance(0.04):
            what["selector"] = {"gpu": "nowhere"}
        if self.chance(0.2):
            what["priority"] = dice.choice([10, 1000])
        if self.chance(0.15):
            what["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": dice.choice(["true", "false"])}
        self.jobs.append(what["id"])
        self.events.append(Event(at=at, kind="job", what=what, call=call))

    def _tolerates(self) -> list[list[str]]:
        everything, ours = ["", "Exists", "", ""], ["gpu", "Exists", "", "NoSchedule"]
        return self.dice.choice([[], [ours], [ours], [ours], [everything]])

    # --- troubles

    def _troubles(self) -> None:
        severity = self.dice.choice([0.3, 1.0, 1.0, 2.0])
        for _ in range(int(severity * self.troubled / 40)):
            self._port_fault()
        for make, often in self._kinds():
            for _ in range(int(severity * often + self.dice.random())):
                make()

    def _kinds(self) -> Iterable[tuple[Callable[[], None], float]]:
        return (
            (self._other_people, 1.5),
            (self._in_between, 3.0),
            (self._silence_of_a_source, 0.7),
            (self._signal, 0.6),
            (self._civo, 1.0),
            (self._self, 0.4),
        )

    def _port_fault(self) -> None:
        dice = self.dice
        ports = [f"{port}.{verb}" for port, verbs in PORTS.items() for verb in verbs]
        name = dice.choice([*WRITES_OF_PORTS] * 2 + ports + ["world.evict", "world.patch_node"])
        error = dice.choice(
            ["crash", "crash", "locked"] if name.startswith("store") else ["crash", "timeout", "timeout"]
        )
        after = self.chance(0.5)
        if name == "cloud.resize" and self.chance(0.3):
            error, after = dice.choice(["wont", "rescaling", "slow_down"]), False  # a refusal has no effect
        self._add("fault", on=name, error=error, after=after)

    def _pick(self) -> What:
        return {"pool": self.dice.choice(self.pools).id, "which": self.dice.randint(0, 5)}

    def _other_people(self) -> None:
        dice = self.dice
        kind = dice.choice(
            [
                "count",
                "count",
                "cordon",
                "uncordon",
                "protect",
                "delete_node",
                "delete_instance",
                "recycle",
                "bind",
                "cancel",
            ]
        )
        self._one_of_theirs(kind, None)

    def _one_of_theirs(self, kind: str, call: str | None) -> None:
        dice, what = self.dice, self._pick()
        if kind == "count":
            what = {"pool": what["pool"], "by": dice.choice([-2, -1, 1, 1, 2])}
        elif kind in ("uncordon", "bind"):
            what["ours"] = self.chance(0.6)
        if kind == "bind":
            what |= {"id": f"bound{len(self.events)}", "seconds": dice.choice([20, 200, 900])}
        if kind == "cancel":
            what = {"id": dice.choice(self.jobs) if self.jobs else "none"}
        self._add(kind, call=call, **what)

    def _in_between(self) -> None:
        """Somebody else is quicker than our next call. Only between our last look and the DELETE nobody can be: see
        docs/limits.md."""
        dice = self.dice
        call = dice.choice(
            [*["cluster.cordon"] * 3, "cluster.drain", "cluster.gpu_pods_on", "store.decided", "cloud.resize"]
        )
        if call == "cloud.resize":
            self._one_of_theirs("count", call)
        elif call == "cluster.cordon" and self.chance(0.7):
            self._job(self._at(), call)  # it finds the node cordoned a moment later, and waits for it
        else:
            self._one_of_theirs(dice.choice(["bind", "bind", "cordon", "uncordon"]), call)

    def _silence_of_a_source(self) -> None:
        at, seconds = self._at(), self.dice.choice([20, 100, 400, 900])
        source = self.dice.choice(["civo", "kubernetes", "prometheus", "alertmanager", "dcgm", "rules", "heartbeat"])
        self._add("silent", at, source=source, seconds=seconds)
        if source in ("dcgm", "rules"):
            self._add("heard", at + seconds)

    def _signal(self) -> None:
        at, pool = self._at(), self.dice.choice(self.pools).id
        if self.chance(0.3):
            self._add("silence", at, pool=pool, seconds=self.dice.choice([60, 300, 900]))
            return
        name = f"Alert{len(self.events)}"
        action = self.dice.choice(["freeze", "pause_scale_up", "hold", "scale_up", "scale_down", "fallback", "notify"])
        self._add("alert", at, name=name, action=action, pool=self.dice.choice([pool, ""]))
        self._add("resolved", at + self.dice.choice([60, 300, 900]), name=name)

    def _civo(self) -> None:
        dice, pool, at = self.dice, self.dice.choice(self.pools).id, self._at()
        match dice.choice(["stock", "quota", "refuse", "stuck", "gpu_never", "odd"]):
            case "stock":
                self._add("stock", at, pool=pool, left=dice.choice([0, 0, 1, 2]))
                if self.chance(0.7):
                    self._add("stock", at + dice.choice([60, 600]), pool=pool, left=None)
            case "quota":
                self._add("quota", at, left=dice.choice([0, 1]))
                self._add("quota", at + dice.choice([60, 600]), left=None)
            case "refuse":
                code, status = dice.choice(
                    [("cannot_scale_already_rescaling_cluster", 409), ("internal", 500), ("quota_limit_reached", 403)]
                )
                self._add("refuse", at, code=code, status=status, times=dice.choice([1, 3]))
            case "odd":
                self._add("odd", at, pool=pool, status=dice.choice(["ERROR", "SHUTOFF", "FAILED"]))
            case kind:
                self._add(kind, at, pool=pool)

    def _self(self) -> None:
        at = self._at()
        if self.chance(0.6):
            self._add("clock", at, by=self.dice.choice([-60, -20, 15, 60, 120]))
            self._add("clock", at + self.dice.choice([10, 120, 600]), by=0)
        else:
            self._add("writer_lost", at, after=self.dice.choice([0, 0, 1, 2]))
            self._add("writer_back", at + self.dice.choice([30, 120]))


def scenario(seed: int) -> Scenario:
    """The scenario of *seed*."""
    return everyday(found_outside(with_claims(Maker(seed).scenario())))
