"""Kinds of worlds in which checks on a real control plane found what random worlds had not, and what must hold there.

Civo has a few nodes at a time, a call hangs, a node registers without its labels, two pools share their work, a
PodDisruptionBudget keeps an idle node, nodes fall sick at work, chores fail: all drawn by dice of their own, so that no
other draw of a seed moves.
"""

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from campaigns.faults.bugs import FOR_NODES
from campaigns.faults.claims import asks_of
from campaigns.faults.scenario import Event, PoolPlan, Scenario
from receiver.core.model.actions import Action
from receiver.core.model.model import ON_ITS_WAY, Stage
from receiver.ports import WontWork
from receiver.replay.world.objects import VM, WorldPod
from receiver.replay.world.scheduler import selects
from receiver.step.reconcile import Stepped
from simulator.dra.claims import SLICE

if TYPE_CHECKING:
    from campaigns.faults.truth import Truth

POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
EVERYTHING = [["", "Exists", "", ""]]
HANGS = timedelta(seconds=30)  # as long as a call may take
ASKS_FOR_LESS = timedelta(seconds=45)  # after a refusal; a pool that backs off waits for a minute at least
LONG_USABLE = timedelta(minutes=2)
SHORT_LOSS = timedelta(minutes=3)  # of a node object; afterwards it counts as gone
MOST_PODS = 8  # that the product packs exactly, and we do in no time
What = dict[str, Any]


def found_outside(scenario: Scenario) -> Scenario:
    """Return *scenario* with what its seed draws here."""
    scenario = _that_budgets_keep(_that_falls_sick_at_work(_that_is_scarce(_that_share(scenario))))
    events = [*_hangs(scenario), *_bare(scenario), *_chores(scenario)]
    return _with(scenario, events) if events else scenario


def _with(scenario: Scenario, events: Sequence[Event], **changes: Any) -> Scenario:
    return replace(scenario, events=sorted([*scenario.events, *events], key=lambda e: e.at), **changes)


def _dice(scenario: Scenario, what: str, share: float) -> random.Random | None:
    """The dice for *what* in a *share* of the worlds, None in others."""
    dice = random.Random(f"{scenario.seed}/outside/{what}")
    return dice if dice.random() < share else None


def _simple(plans: Sequence[PoolPlan]) -> list[PoolPlan]:
    """The pools that are as configured, have a price and no claims."""
    return [p for p in plans if p.price is not None and not p.devices and p.true_labels is None and p.window is None]


def _work(name: str, at: float, plan: PoolPlan, *, each: int, selects: bool, **more: Any) -> Event:
    selector = {"selector": {POOL_LABEL: plan.id}} if selects else {}
    what: What = {"id": name, "pods": 1, "each": each, "resource": next(iter(plan.resources))}
    what["tolerations"] = EVERYTHING
    return Event(at=round(at, 1), kind="job", what={**what, **selector, **more})


def _that_is_scarce(scenario: Scenario) -> Scenario:
    """A size is sold out while work for several nodes waits; afterwards Civo has no more than a few nodes at a time."""
    dice, plans = _dice(scenario, "shelf", 0.1), _simple(scenario.pools)
    if dice is None or not plans:
        return scenario
    plan, at = dice.choice(plans), scenario.troubled * 0.85
    each, nodes = next(iter(plan.resources.values())), dice.choice([1, 1, 2])
    work = _work("shelf", at + 10, plan, each=each, selects=True, seconds=600, pods=dice.choice([3, 4, 5]))
    free: What = {"asks": None, "budget": None}
    pools = [
        replace(p, **free, max_nodes=max(4, p.max_nodes)) if p is plan else replace(p, **free) for p in scenario.pools
    ]
    sold_out = Event(at=at, kind="stock", what={"pool": plan.id, "left": 0})
    return _with(scenario, [sold_out, work], pools=pools, budget=None, shelf={plan.id: nodes})


def _hangs(scenario: Scenario) -> Iterator[Event]:
    """For a while each write to Civo hangs until it is given up, while work for several pools comes."""
    dice, plans = _dice(scenario, "hangs", 0.15), [p for p in scenario.pools if p.price is not None and not p.devices]
    for number in range(dice.choice([1, 2, 3]) if dice else 0):
        assert dice is not None
        at = round(dice.uniform(0, scenario.troubled * 0.85), 1)
        for plan in plans:
            each = next(iter(plan.resources.values()))
            yield _work(f"hangs{number}{plan.name}", at, plan, each=each, selects=True, seconds=300)
        for _ in range(dice.choice([3, 5, 8])):
            on = dice.choice(["cloud.resize", "cloud.resize", "cloud.retire"])
            yield Event(at=at, kind="fault", what={"on": on, "error": "hang", "after": dice.random() < 0.5})


def _bare(scenario: Scenario) -> Iterator[Event]:
    """One node of a pool registers without the pool's labels and taints, beside others that have them."""
    dice, plans = _dice(scenario, "bare", 0.1), [p for p in _simple(scenario.pools) if p.labels and p.max_nodes > 2]
    for number in range(dice.choice([1, 2]) if dice and plans else 0):
        assert dice is not None
        plan, at = dice.choice(plans), dice.uniform(0, scenario.troubled * 0.5)
        each, bare = next(iter(plan.resources.values())), round(at + dice.choice([30, 120]), 1)
        yield _work(f"bare{number}a", at, plan, each=each, selects=True, seconds=1500)
        yield Event(at=bare, kind="bare", what={"pool": plan.id})
        yield _work(f"bare{number}b", bare, plan, each=each, selects=True, seconds=900)
        late = _work(f"bare{number}c", bare + dice.choice([300, 400]), plan, each=each, selects=False, seconds=300)
        yield replace(late, what={**late.what, "selector": plan.labels})


def _chores(scenario: Scenario) -> Iterator[Event]:
    """A bug in what writes to nodes and workloads beside scaling."""
    dice = _dice(scenario, "chores", 0.1)
    for _ in range(dice.choice([1, 2]) if dice else 0):
        assert dice is not None
        what = {"function": dice.choice(FOR_NODES), "pool": None, "seconds": dice.choice([30, 120, 600])}
        yield Event(at=round(dice.uniform(0, scenario.troubled * 0.85), 1), kind="bug", what=what)


def _that_share(scenario: Scenario) -> Scenario:
    """Two pools have the same GPUs at different prices; some pods fit both, some one, and they come one by one."""
    dice, plans = _dice(scenario, "share", 0.12), _simple(scenario.pools)
    if dice is None or len(plans) < 2:
        return scenario
    one, two = dice.sample(plans, 2)
    gpus = {"nvidia.com/gpu": dice.choice([2, 2, 4])}
    alike: What = {"resources": gpus, "labels": {}, "taints": [], "startup_taint": None, "dra": False, "count": 0}
    alike |= {"min_nodes": 0, "standby_nodes": 0, "budget": None}
    one, two = replace(one, **alike, price="2.00"), replace(two, **alike, price="1.60")
    most = {plan.id: replace(plan, max_nodes=max(3, plan.max_nodes)) for plan in (one, two)}
    pools = [most.get(plan.id, plan) for plan in scenario.pools]
    events, each = [], dice.choice([1, 1, gpus["nvidia.com/gpu"] // 2])
    full = gpus["nvidia.com/gpu"] // each
    for number in range(dice.choice([2, 3, 4])):
        name, at = f"share{number}", dice.uniform(40, scenario.troubled * 0.8)
        more: What = {"each": each, "seconds": dice.choice([300, 900])}
        early = _work(name, at - 30, one, selects=True, **more)  # cancelled: nothing asks for its node any more
        either = _work(f"{name}a", at, one, selects=False, pods=full + dice.choice([0, 1, 1]), **more)
        late = _work(f"{name}b", at + dice.choice([5, 20, 45]), two, selects=True, **more)
        gone = Event(at=round(at - dice.choice([1, 5]), 1), kind="cancel", what={"id": name})
        events += [early, either, late, *([gone] if dice.random() < 0.8 else ())]
    others = [e for e in scenario.events if e.kind != "job"]  # what else waits may hide a node too many
    return _with(replace(scenario, events=others), events, pools=pools)


def _that_budgets_keep(scenario: Scenario) -> Scenario:
    """A PodDisruptionBudget keeps pods without a GPU on nodes that are idle for long."""
    dice, plans = _dice(scenario, "kept by budgets", 0.08), _simple(scenario.pools)
    if dice is None or not plans:
        return scenario
    empty: What = {"count": 1, "min_nodes": 0, "standby_nodes": 0, "idle_for": 60, "asks": None}
    pools = [replace(plan, **empty) if plan in plans else plan for plan in scenario.pools]
    pods = 2 * len(plans)
    web: What = {"id": "kept", "pods": pods, "min_available": pods, "tolerations": EVERYTHING}
    faults = [e for e in scenario.events if e.kind == "fault" and dice.random() < 0.3]  # else no removal waits for long
    quiet = replace(scenario, events=faults, pools=pools, troubled=2400, budget=None, granularity=1, removal_margin=0)
    return _with(quiet, [Event(at=5, kind="cpu", what=web)])


def _that_falls_sick_at_work(scenario: Scenario) -> Scenario:
    """Nodes fall sick for good while long work runs there, and their pool replaces sick ones. In some of these worlds
    the work may be moved, and ends slowly."""
    dice, plans = _dice(scenario, "fall sick", 0.1), _simple(scenario.pools)
    if dice is None or not plans:
        return scenario
    plan, nodes = dice.choice(plans), dice.choice([1, 2])
    alike: What = {"repair_share": 1.0, "max_nodes": 3, "count": 0, "min_nodes": 0, "standby_nodes": 0, "asks": None}
    pools = [replace(p, **alike, budget=None) if p is plan else p for p in scenario.pools]
    each = next(iter(plan.resources.values()))
    moves: What = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}}
    more = moves if dice.random() < 0.4 else {}
    events = [_work("sick", 30, plan, each=each, selects=True, seconds=2600, pods=nodes, **more)]
    for which in range(nodes):
        what = {"pool": plan.id, "which": which, "how": dice.choice(["xid", "condition", "named"])}
        events.append(Event(at=dice.choice([600, 900]), kind="sicken", what=what))
    others = [e for e in scenario.events if e.kind == "fault" and dice.random() < 0.3]
    timings = {**scenario.timings, **({"terminate": 30} if more else {})}
    quiet = replace(scenario, events=others, troubled=2400, budget=None, mode="act", timings=timings)
    return _with(quiet, events, pools=pools)


# --- what must hold


class Outside:
    """What must hold, by what the last looks showed. *violated* notes what does not."""

    def __init__(self, truth: "Truth", violated: Callable[[str, str], None]) -> None:
        self._truth, self._violated = truth, violated
        self._hung: list[str] = []  # the calls of this step that hung
        self._registered: set[str] = set()  # instances whose node objects whole steps have seen
        self._lost: dict[str, datetime] = {}  # those whose node objects are gone, since when whole steps see none
        self._looked = self._listed = False  # whether Kubernetes and Civo have answered in this step
        self._shown: set[str] = set()  # the instances whose node objects Kubernetes showed to it
        self._refused: dict[str, datetime] = {}  # pools: when Civo had fewer nodes than several that were asked for
        self._well: dict[str, datetime] = {}  # instances that Kubernetes shows to work, and since when
        self.calm = False

    def begins(self) -> None:
        """A step begins."""
        self._hung, self._looked, self._listed = [], False, False

    def hung(self, call: str) -> None:
        """A call hung. The step ends soon then: what every other pool waits for is in the next one."""
        self._hung.append(call)
        if len(self._hung) > 1:
            self._violated("9 held up", f"{' and then '.join(self._hung)} hung in one step")

    def asked(self, pool: str, nodes: int, answer: Any) -> None:
        """Civo was asked for so many more *nodes*: where it has fewer, a smaller request follows."""
        lacks = isinstance(answer, WontWork) and answer.code == "gpu_count_exceeded"
        if lacks and nodes > 1 and self.calm:
            self._refused[pool] = self._truth.world.now
        else:
            self._refused.pop(pool, None)

    def listed(self) -> None:
        """Civo has answered."""
        self._listed = True

    def looked(self) -> None:
        """Kubernetes has answered."""
        world, self._looked = self._truth.world, True
        self._shown = {node.instance for node in world.nodes.values()}
        well = [vm.id for vm in world.lives if vm.living and self._is_well(vm)]
        self._well = {instance: self._well.get(instance, world.now) for instance in well}

    def _is_well(self, vm: VM) -> bool:
        """True for an instance that has long been usable, whatever its GPUs are shown by; not while all have failed."""
        usable = vm.usable_at is not None and self._truth.world.now - vm.usable_at > LONG_USABLE
        node = self._truth.node_of(vm)
        shows = node is not None and (node.dra or 0 not in node.gpus.values())
        return usable and shows and vm.shown and vm.status == "ACTIVE" and self._truth.works(vm)

    def opened(self, action: Action) -> None:
        """A removal begins: no node that works, and not since a moment ago, goes as one that never came up."""
        for victim in action.victims:
            since = self._well.get(victim.instance, self._truth.world.now)
            if victim.because.name in ("STUCK", "LOST") and self._truth.world.now - since > LONG_USABLE:
                self._violated("1 never came", f"{victim.node} is removed as one that is not usable, and it works")

    def stepped(self, stepped: Stepped, now: datetime) -> None:
        """A step is done: no node whose object was deleted counts as on its way for long, and no pod as a misfit that
        a living node could hold."""
        self._halves(stepped)
        if not self._looked:
            return
        self._disproves(stepped)
        if not self._listed:
            return
        self._registered |= self._shown
        without = {vm.id for vm in self._truth.world.lives if vm.living} & self._registered - self._shown
        self._lost = {instance: self._lost.get(instance, now) for instance in without}
        for node in (n for state in stepped.facts.pools for n in state.nodes if n.stage in ON_ITS_WAY):
            since = self._lost.get(node.instance, now)
            if abs(now - since) > SHORT_LOSS + self._truth.skew:
                self._violated("5 broken", f"{node.name} counts as on its way: deleted since {since:%H:%M:%S}")

    def _halves(self, stepped: Stepped) -> None:
        """Afterwards, when nothing else holds growth, as many nodes are bought as Civo has."""
        plain = [w for w in stepped.facts.waiting if w.gang is None]
        for pool, at in list(self._refused.items()):
            plan = self._truth.plans[pool]
            free = self._truth.scenario.budget is None and not plan.asks and len(plain) == len(stepped.facts.waiting)
            if any(action.pool == pool for action in stepped.facts.earlier.unanswered):
                del self._refused[pool]  # a lower count might take nodes away that are on their way
            elif self._truth.world.now - at > ASKS_FOR_LESS and free and stepped.assignment.pools[pool].for_demand:
                self._violated("5 partial stock", f"{pool} was not asked for fewer nodes since {at:%H:%M:%S}")

    def _disproves(self, stepped: Stepped) -> None:
        truth, world = self._truth, self._truth.world
        seen = [n for state in stepped.facts.pools for n in state.nodes if n.stage is Stage.USABLE]
        shown = {n.instance: n.labels for n in seen}
        slices = [one["spec"] for one in world.claims.objects[SLICE].values()]
        tainted = {s["nodeName"] for s in slices if any(device.get("taints") for device in s.get("devices") or ())}
        same = [n for n in world.nodes.values() if n.labels == shown.get(n.instance)]  # a call may hang meanwhile
        nodes = [n for n in same if n.name not in tainted]
        waiting = {f"{p.namespace}/{p.name}": p for p in truth.waiting() if p.gang is None and not p.claims}
        for misfit in stepped.assignment.misfits:
            pod = waiting.get(misfit.workload.key)
            for node in nodes if pod is not None else ():
                assert pod is not None
                room = all(node.gpus.get(resource, 0) >= n for resource, n in pod.requests.items())
                selected = selects(node.labels, pod.node_selector, pod.affinity)
                if room and selected and truth.fits(pod, truth.plans[node.pool]) and not self._came_bare(node.pool):
                    self._violated("5 disproved", f"{pod.name} counts as a misfit, and {node.name} could hold it")

    def _came_bare(self, pool: str) -> bool:
        """True where two nodes of *pool* come without its labels: for a day the next is expected to be like them, or
        until they carry theirs, where those are only late."""
        bare = [e for e in self._truth.scenario.events if e.kind == "bare" and e.what["pool"] == pool]
        late = [n for n in self._truth.world.nodes.values() if n.pool == pool and POOL_LABEL not in n.labels]
        return len(bare) > 1 or len(late) > 1

    def fits_already(
        self, pool: str, new: int, waiting: Sequence[WorldPod], coming: Collection[tuple[str, int]]
    ) -> bool:
        """True when all of *waiting* finds room on the nodes that are *coming* (by pool) and on one less than the *new*
        ones of *pool*. Only plain pods of pools that are as configured are judged."""
        truth, plans = self._truth, self._truth.plans
        pods = [p for p in waiting if any(truth.fits(p, plan) for plan in plans.values())]
        if not pods or len(pods) > MOST_PODS or any(p.gang is not None or p.claims or p.compute for p in pods):
            return False
        plain = {plan.id for plan in _simple(list(plans.values())) if plan.budget is None}
        counts = {of: count for of, count in coming if of in plain}
        counts[pool] = counts.get(pool, 0) + new - 1
        rooms = [(of, sum(plans[of].resources.values())) for of, count in counts.items() for _ in range(count)]
        asks = [
            (sum(asks_of(p).values()), frozenset(i for i in counts if truth.fits(p, plans[i])))
            for p in pods
        ]  # fmt: skip
        return packs(sorted(asks, key=lambda a: (-a[0], len(a[1]))), rooms)


def packs(asks: Sequence[tuple[int, frozenset[str]]], rooms: Sequence[tuple[str, int]]) -> bool:
    """True when each of *asks* (how many, in which pools) finds room: every way is tried."""
    if not asks:
        return True
    (count, pools), *others = asks
    for room in dict.fromkeys(r for r in rooms if r[0] in pools and r[1] >= count):
        left = list(rooms)
        left[left.index(room)] = (room[0], room[1] - count)
        if packs(others, left):
            return True
    return False
