"""The invariants, checked at every write of ours and after every step, on a count of their own (`Truth`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from campaigns.faults.beyond import BeyondTheLine
from campaigns.faults.bugs import Bug
from campaigns.faults.claims import is_placed, once
from campaigns.faults.evictions import Evictions, is_on_its_way_out
from campaigns.faults.grouped import to_come
from campaigns.faults.law import Law
from campaigns.faults.outside import Outside
from campaigns.faults.scenario import PoolPlan
from campaigns.faults.sick import SickNodes
from campaigns.faults.truth import Counted, Truth, is_theirs, per_node
from receiver.core.explain.evidence import with_grounds
from receiver.core.explain.staying import UNKNOWN
from receiver.core.model.actions import VictimStage
from receiver.core.model.memory import Memory
from receiver.core.model.model import Facts, Stage
from receiver.core.model.policy import Policy
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.core.scaling.demand import CORDON
from receiver.core.scaling.wanted import Assignment
from receiver.ports import CORDON_ANNOTATION, PROTECT_ANNOTATION, Receipt
from receiver.replay.world.objects import VM, WorldPod
from receiver.replay.world.scheduler import untolerated
from receiver.step.parts import NOTHING, Additions
from receiver.step.reconcile import Stepped
from simulator.dra.claims import CLAIM, node_of

HOUR = timedelta(hours=1)
LAWS_EVERY = 4  # steps between two looks at the laws of `decide`, which cost as much as a step


class Checks:
    """Keeps what must hold and notes every violation: ``invariant: what happened``."""

    def __init__(
        self, truth: Truth, policy: Policy, clock: Callable[[], datetime], additions: Additions = NOTHING
    ) -> None:
        self._truth = truth
        self._additions = additions
        self._policy = policy
        self._clock = clock
        self.violations: list[str] = []
        self.counted: dict[str, Counted] = truth.count(clock())
        self.waiting: list[WorldPod] = []
        self.kubernetes_answers = True
        self.bought: list[tuple[datetime, int]] = []
        self.removed: list[datetime] = []
        self.open: dict[str, str] = {}
        self.considered: set[int] = set()
        self.under_way: dict[tuple[Any, ...], datetime] = {}  # unanswered resizes, and when they take effect
        self.beyond = BeyondTheLine(truth, policy.budget, clock, self.violated)
        self.evictions = Evictions(truth)
        self.sick = SickNodes(truth, clock, self.violated)
        self.outside = Outside(truth, self.violated)
        self.law = Law(truth, self.violated)
        self.laws = True  # whether those of `decide` are looked at
        self._steps = 0
        self._cordoned: dict[str, datetime] = {}  # when we cordoned a node that took work
        self._returned: set[tuple[str, str]] = set()  # pods that came back to the node being deleted
        self._silent = False  # whether the node being deleted is NotReady
        self._keepers: dict[str, str] = {}  # the nodes that a pod kept when Kubernetes was asked last, and its name
        self._refused: tuple[str, ...] = ()  # the rights that the product surely knows to be refused

    def violated(self, invariant: str, what: str) -> None:
        """Note that *invariant* does not hold."""
        self.violations.append(f"{invariant}: {what}")

    # --- what the product was shown

    def called(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        """Follow the looks, and the actions that the store opens and closes."""
        failed = isinstance(answer, Exception)
        self.beyond.called(name, failed=failed)
        self.sick.looked(name, answer)
        self._reasons(name, args)
        if name == "store.memory":  # the first call of a step
            self.kubernetes_answers = False
            self.outside.begins()
        elif name == "cloud.look" and not failed:
            self.outside.listed()
            self.counted = self._truth.count(self._clock())
            self.waiting = [*self._truth.waiting(), *to_come(self._truth.world)]
        elif name == "cluster.look" and not failed:
            self.kubernetes_answers = True
            self.outside.looked()
            self.law.looked()
            self.waiting = [*self._truth.waiting(), *to_come(self._truth.world)]
            pods = self._truth.world.active_pods.values()
            self._keepers = {p.node: p.name for p in pods if p.node and self._truth.would_be_lost(p)}
        elif name == "cloud.resize":
            self.outside.asked(args[0], args[2] - args[1], answer)
        elif name == "cluster.missing_rights" and not failed:
            self._refused = tuple(answer)
        elif name == "store.decided" and not failed:
            self.evictions.decisions[args[0].pool] = args[0]
        elif name == "store.say":
            self.evictions.said(args[0].topic, args[0].key, args[1], answer)
        elif name == "store.keep_control" and not failed:
            self.considered.update(args[1])
        elif name == "store.opened" and answer is True:
            action = args[0]
            if action.pool in self.open:
                self.violated("4 one open action", f"{action.id} opened beside {self.open[action.pool]}")
            self.open[action.pool] = action.id
            self.outside.opened(action)
        elif name == "store.closed" and not failed and self.open.get(args[0].pool) == args[0].id:
            del self.open[args[0].pool]

    def _reasons(self, name: str, args: tuple[Any, ...]) -> None:
        """Every node that stays after all has its reason."""
        for victim in args[0].victims if name in ("store.progressed", "store.closed") else ():
            if victim.stage is VictimStage.SPARED and victim.why in ("", UNKNOWN):
                self.violated("9 says why", f"{victim.node} stays, and nobody is told why")

    def found_after_crash(self, memory: Memory, deliveries: Iterable[int]) -> None:
        """Take over what the store holds: a crash inside one of its calls may be on either side of the commit."""
        known = {pool: found.open_action for pool, found in memory.pools.items()}
        self.open = {pool: action.id for pool, action in known.items() if action is not None}
        self._refused = ()
        self.under_way.clear()  # the note that a call was not answered may be lost
        self.considered.update(set(deliveries) - set(memory.deliveries))

    def struck(self, name: str) -> None:
        """A fault struck at call *name*; where it was the store, the last answers may not be in the picture."""
        self.beyond.struck(name)
        if name.startswith("store."):
            self._refused = ()

    # --- growth

    def before_resize(self, pool: str, target: int) -> None:
        """Invariants 2 and 4 at a PUT of *target*."""
        now, found, plan = self._clock(), self._truth.world.pools[pool], self._truth.plans[pool]
        what = f"PUT {target} for {pool}, which asks for {found.required} and has {len(found.living)} nodes"
        if target < found.required or target < len(found.living):
            self.violated("4 never a lower count", what)
        late = [n for (of, n), at in self._unanswered() if of == pool and n < target]
        if late:
            self.violated("4 never a lower count", f"{what}, while a PUT of {late[0]} may still arrive")
        if self._truth.words.surely("pause", plan, now):
            self.violated("2 paused", what)
        if target > self._truth.max_nodes(pool, now):
            self.violated("2 maximum", f"{what}: at most {self._truth.max_nodes(pool, now)}")
        if self._refused:
            self.violated("2 removable", f"{what}, and {', '.join(self._refused)} is refused")
        if plan.price is None:
            self.violated("2 budget", f"{what}: it has no price")
        counts = {p: c.nodes for p, c in self.counted.items()}
        new = target - counts[pool]
        self._limits(what, {**counts, pool: max(target, counts[pool])}, max(0, target - found.required), now)
        self._budget(what, counts, pool, max(0, new), now)
        self._asked_twice(what, pool, target - max(counts[pool], self.counted[pool].there))

    def _limits(self, what: str, counts: dict[str, int], new: int, now: datetime) -> None:
        limits = self._truth.scenario.limits
        gpus = sum(n * sum(self._truth.plans[p].resources.values()) for p, n in counts.items())
        if gpus > limits.get("max_gpus", gpus):
            self.violated("2 max_gpus", f"{what}: {gpus} GPUs of at most {limits['max_gpus']}")
        lately = new + sum(n for at, n in self.bought if at > now - HOUR + self._truth.skew)
        if lately > limits.get("max_growth_per_hour", lately):
            self.violated("2 growth per hour", f"{what}: {lately} in an hour, at most {limits['max_growth_per_hour']}")

    def _budget(self, what: str, counts: dict[str, int], pool: str, new: int, now: datetime) -> None:
        budget = self._policy.budget
        if budget is None:
            return
        unpriced = self._truth.unpriced(now)
        if unpriced:
            self.violated("2 budget", f"{what}: nobody knows what {', '.join(unpriced)} cost")
        mine = self._policy.pool(pool)
        own = mine.budget_usd if mine is not None else None
        for of, usd in ((None, budget.monthly_usd), *(((pool, own),) if own is not None else ())):
            spent = self._truth.surely_spent(now, of)
            running = sum(
                self._truth.unpaid(p, n, now) * self._truth.unit(p) for p, n in counts.items() if of in (None, p)
            )
            bought = self._truth.unpaid(pool, counts[pool] + new, now) - self._truth.unpaid(pool, counts[pool], now)
            reserved = running + bought * self._truth.unit(pool)
            whose = "2 budget" if of is None else "2 pool's budget"
            if spent >= usd * budget.hold_at:
                self.violated(whose, f"{what}: {spent:.2f} of {usd} are spent, beyond the hold line")
            elif bought and spent + reserved > usd * budget.stop_at:
                self.violated(whose, f"{what}: {spent:.2f} spent and {reserved:.2f} next, of {usd}")

    def _asked_twice(self, what: str, pool: str, new: int) -> None:
        """Each node on its way and each new one must be for a pod of its own: the same pods are never bought for twice.

        Nodes are filled before others are bought, so of equal pods each node takes as many as it holds.
        """
        plan, coming = self._truth.plans[pool], self.counted[pool].coming
        mine = once([p for p in (*self.waiting, *self._truth.awaited()) if self._could_want(p, pool)])
        spare = plan.standby_nodes + self._truth.words.wanted(plan, self._clock())
        spare += self._truth.warm(plan, self._clock())
        if new > self._nodes(mine, plan, coming) + spare:
            keys = ", ".join(p.name for p in mine)
            self.violated("4 asked twice", f"{what}: {coming} nodes are on their way and only {keys or 'no pod'} waits")
        if not self.kubernetes_answers:
            return  # Prometheus tells nothing of gangs
        on_their_way = [(of, counted.coming) for of, counted in self.counted.items()]
        if new > spare and self.outside.fits_already(pool, new - spare, self.waiting, on_their_way):
            keys = ", ".join(p.name for p in self.waiting)
            self.violated("4 filled poorly", f"{what}: {keys} fit on the nodes that are on their way")
        if new > spare and self.law.room_comes_back(self._placeable_somewhere()):
            keys = ", ".join(p.name for p in self.waiting)
            self.violated("4 room comes back", f"{what}: {keys} fit where pods leave before a node could come")
        likely = [p for p in mine if not self._truth.surely_refused(p)]
        if new > self._nodes(likely, plan, coming) + spare and len(likely) < len(mine):
            keys = ", ".join(p.name for p in mine if p not in likely)
            self.violated("10 refused", f"{what}: {keys} is refused, {len(likely)} other pods wait")

    def _placeable_somewhere(self) -> list[WorldPod]:
        plans = self._truth.plans.values()
        return [p for p in self.waiting if any(self._truth.fits(p, plan) for plan in plans)]

    def _nodes(self, pods: Sequence[WorldPod], plan: PoolPlan, coming: int) -> int:
        """The most new nodes that *pods* need beside those that are on their way."""
        each = max(1, per_node(pods, plan, self._truth.world))  # 0 where Prometheus tells of pods, and not of CPUs
        return max(0, -(-(len(pods) - coming * each) // each)) if pods else 0

    def _could_want(self, pod: WorldPod, pool: str) -> bool:
        plan = self._truth.plans[pool]
        if self.kubernetes_answers:
            return self._truth.fits(pod, plan) and not is_placed(pod, self._truth.world)
        return all(plan.resources.get(r, 0) >= n for r, n in pod.requests.items())  # Prometheus tells no more

    def after_resize(self, pool: str, target: int) -> None:
        """Note what was bought."""
        before = self.counted[pool]
        self.bought.append((self._clock(), max(0, target - before.required)))
        self.counted[pool] = replace(before, required=target, nodes=max(before.nodes, target))

    # --- removal

    def before_delete(self, pool: str, instance: str) -> None:
        """Invariant 1 at the DELETE of *instance*, and that it is ours to take."""
        truth, now = self._truth, self._clock()
        vm = truth.vm(instance)
        if vm is None or not vm.living:
            return
        node = truth.node_of(vm)
        held = truth.gpu_pods_on(node) if node else ()
        self._silent = node is not None and not node.ready
        since = self._cordoned.get(node.name) if node else None
        on_it = truth.world.pods_on(node.name) if node and since else ()
        self._returned = {(p.namespace, p.name) for p in on_it if since and p.created_at > since and _comes_back(p)}
        if held:
            self.violated("1 GPU pods", f"DELETE {vm.hostname} with {', '.join(p.name for p in held)} on it")
        ends = node is None or node.name in truth.world.dead_nodes  # a claim ends with its pod's object
        if node and not ends and any(node_of(c) == node.name for c in truth.world.claims.objects[CLAIM].values()):
            self.violated("1 claims", f"DELETE {vm.hostname}, on which a claim has devices")
        if node is not None and node.annotations.get(PROTECT_ANNOTATION):
            self.violated("1 protected", f"DELETE {vm.hostname}, which is protected")
        if node is not None and is_theirs(node):
            self.violated("1 cordons of others", f"DELETE {vm.hostname}, which somebody else cordoned")
        self.sick.before_delete(vm)
        self.law.before_delete(vm, self._cordoned.get(vm.hostname))
        self._only_idle_or_stuck(vm, now)
        self._floor(vm, now)
        self._replaced(vm)
        limit = truth.scenario.limits.get("max_removals_per_hour")
        lately = 1 + sum(at > now - HOUR + truth.skew for at in self.removed)
        if limit is not None and lately > limit:
            self.violated("2 removals per hour", f"DELETE {vm.hostname}: {lately} in an hour, at most {limit}")

    def _only_idle_or_stuck(self, vm: VM, now: datetime) -> None:
        timeout = timedelta(seconds=self._truth.plans[vm.pool].provision_timeout)
        stuck = vm.status not in ("BUILDING", "ACTIVE") or now - vm.created_at > timeout - self._truth.skew
        deleted_there = vm.registered_at is not None and self._truth.node_of(vm) is None
        if vm.usable_at is None and not stuck and not deleted_there:
            self.violated("1 on its way", f"DELETE {vm.hostname}, which is on its way since {vm.created_at:%H:%M:%S}")

    def _floor(self, vm: VM, now: datetime) -> None:
        plan = self._truth.plans[vm.pool]
        floor = self._truth.words.least(plan, now)
        budget = self._policy.budget
        own = plan.budget
        stopped = budget is not None and (
            self._truth.perhaps_spent(now) >= budget.monthly_usd
            or (own is not None and self._truth.perhaps_spent(now, vm.pool) >= Decimal(own))
        )
        left = self.counted[vm.pool].nodes - 1
        works = self._truth.works(vm)
        if works and left < floor and not stopped:
            self.violated("2 floor", f"DELETE {vm.hostname} leaves {left} nodes of at least {floor}")
        for kind in ("pause", "snooze"):
            if works and self._truth.words.surely(kind, plan, now) and not stopped:
                self.violated(f"2 {kind}", f"DELETE {vm.hostname}, whose pool somebody told to leave alone")

    def _replaced(self, vm: VM) -> None:
        """Where Civo answered a removal with a replacement, removing that too only costs money: removals stop."""
        truth = self._truth
        raised = any(e.kind in ("count", "recycle", "delete_instance") for e in truth.scenario.events) or self.bought
        first = min((at for at, pool in truth.deleted if pool == vm.pool), default=None)
        if truth.scenario.behaviour.get("decrement") == "never" and not raised and first and vm.created_at > first:
            self.violated("4 replaced", f"DELETE {vm.hostname}, which Civo built for one that we removed")

    def after_delete(self, pool: str, instance: str) -> None:
        """Nothing but DaemonSet pods may die with a node that we delete, and pods that come back to a cordoned node."""
        self.removed.append(self._clock())
        self._truth.deleted.append((self._clock(), pool))
        before = self.counted[pool]
        self.counted[pool] = replace(before, nodes=before.nodes - 1)
        dead = [k for k in self._truth.world.kills if k.instance == instance and k.at == self._truth.world.now]
        for kill in dead:
            if (kill.namespace, kill.name) in self._returned or (self._silent and not kill.gpus):
                continue  # a node that does not answer loses the others: they cannot leave it
            self.violated("1 pods killed", f"{kill.namespace}/{kill.name} died on {kill.node} with {kill.gpus} GPUs")

    def arrived(self, pool: str) -> None:
        """A DELETE in *pool* that was not answered took effect: Civo's count may follow it late, too."""
        self._truth.deleted.append((self._clock(), pool))

    def before_evict(self, namespace: str, name: str) -> None:
        """GPU pods go only by their owner's consent, or by a window whose grace was told and is over."""
        pod = self._truth.world.pods.get((namespace, name))
        if pod is None:
            return
        why_not = self.evictions.why_not(pod, self.counted, self._clock()) if pod.requests else ""
        if why_not:
            self.violated("1 evictions", f"{namespace}/{name} holds a GPU and {why_not}")
        if held := self.evictions.why_held(pod):
            self.violated("1 evictions", f"{namespace}/{name} was evicted although {held}")
        node = self._truth.world.nodes.get(pod.node or "")
        if node is not None and not is_on_its_way_out(node):
            self.violated("1 evictions", f"{namespace}/{name} was evicted from {node.name}, which is not ours to empty")
        if self._truth.would_be_lost(pod):
            self.violated("1 pods lost", f"{namespace}/{name} is evicted, and nothing starts it again for certain")
        if pod.owner_kind in ("DaemonSet", "Node"):
            self.violated("1 evictions", f"{namespace}/{name} belongs to a {pod.owner_kind}")

    def before_patch(self, name: str, unschedulable: bool | None, marks: Mapping[str, str | None]) -> None:
        """A cordon of somebody else's is neither taken over nor lifted, and no node is cordoned in vain."""
        node = self._truth.world.nodes.get(name)
        if node is None or unschedulable is None:
            return
        self.beyond.before_patch(node, unschedulable)
        self.sick.before_cordon(node, marks.get(CORDON_ANNOTATION))
        if not unschedulable and any(instance == node.instance for (_, instance), _ in self._unanswered()):
            self.violated("1 given back", f"{name} takes work again while its DELETE may still arrive")
        if is_theirs(node):
            self.violated("1 cordons of others", f"{name} was cordoned by somebody else, and we set {unschedulable}")
        if marks.get(CORDON_ANNOTATION) and node.ready and node.gpus and name in self._keepers:
            self.violated("1 cordoned in vain", f"{name}, which {self._keepers[name]} keeps")
        if unschedulable:
            if not node.unschedulable:  # else this is another reason for the same cordon, such as a budget stop
                self._cordoned[name] = self._truth.world.now
            self.evictions.cordons(name, self._clock())
        elif why_not := self.evictions.why_not_back(node, self._clock()):
            self.violated("1 evictions", f"{name} is given back: {why_not}")

    def _unanswered(self) -> list[tuple[tuple[Any, ...], datetime]]:
        return [(args, at) for args, at in self.under_way.items() if self._truth.world.now < at]

    # --- steps

    def stepped(self, stepped: Stepped, bugs: Sequence[Bug] = ()) -> None:
        """Invariants 7, 8 and 9: with *bugs* planted, only their own pools are not served."""
        shown = {n.name for state in stepped.facts.pools for n in state.nodes}
        if stepped.trusted:  # else it writes nothing, and the next one follows at once
            self.beyond.stepped(shown, known=not stepped.facts.spend.unknown, aside=stepped.failed_pools)
        for pool in set(stepped.failed_pools) - {bug.pool for bug in bugs}:
            rule = "8 made for people" if any(bug.pool is None for bug in bugs) else "9 one pool's failure"
            self.violated(rule if bugs else "bug", f"pool {pool} was not served: {stepped.failures}")
        if stepped.failures and not bugs:
            self.violated("bug", f"parts of the step failed: {[(f.part, f.pool, str(f)) for f in stepped.failures]}")
        self.sick.stepped(stepped)
        if not bugs:
            self.outside.stepped(stepped, self._clock())
            self.law.stepped(stepped)
        for decision in stepped.decisions.values():
            if decision.reasons[-1].target != decision.target:
                self.violated("7 last reason", f"{decision.pool}: {decision.target}, {decision.reasons[-1]}")
        self._shown(stepped)
        self._steps += 1
        if self.laws and self._steps % LAWS_EVERY == 0 and not bugs:
            self._laws(stepped)

    def _shown(self, stepped: Stepped) -> None:
        """Invariant 5: no node counts as usable before all of its GPUs are shown."""
        usable = {n.instance for p in stepped.facts.pools for n in p.nodes if n.stage is Stage.USABLE}
        for vm in self._truth.world.lives:
            if vm.id in usable and not vm.shown:
                self.violated("5 shown", f"{vm.hostname} counts as usable, and its devices are not shown")

    def _laws(self, stepped: Stepped) -> None:
        facts, policy = stepped.facts, self._policy
        again = decide_all(facts, self._assigned(facts), policy, explained_by=with_grounds)
        made = ("mode", "version")  # what the step adds to the evidence: who decided
        plain = {
            pool: replace(d, evidence={k: v for k, v in d.evidence.items() if k not in made})
            for pool, d in stepped.decisions.items()
        }
        if again != plain:
            self.violated("7 deterministic", "the same facts gave another decision")
        for action, sign in ((SignalAction.SCALE_UP, 1), (SignalAction.SCALE_DOWN, -1)):
            if not any(s.action is action for s in facts.signals):
                continue
            fewer = _without(facts, action)
            for pool, without in decide_all(fewer, self._assigned(fewer), policy).items():
                if sign * (stepped.decisions[pool].target - without.target) < 0:
                    told = f"{stepped.decisions[pool].target} with it, {without.target} without"
                    self.violated("7 signals push one way", f"{pool}: {action.value}: {told}")

    def _assigned(self, facts: Facts) -> Assignment:
        sources, guardrails = self._additions.sources, self._additions.guardrails
        return assign(facts, self._policy, sources=sources, guardrails=guardrails)


def _without(facts: Facts, action: SignalAction) -> Facts:
    return replace(facts, signals=tuple(s for s in facts.signals if s.action is not action))


def sentence(answer: Any) -> str:
    """What a port call came to, for the trace."""
    if isinstance(answer, Receipt):
        return f"{answer.did.value}: {answer.sentence}"
    return f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else "done"


def _comes_back(pod: WorldPod) -> bool:
    """Whether *pod*, without a GPU, tolerates the cordon and is restarted by its controller wherever it ends."""
    mortal = bool(pod.requests) or pod.owner_kind in ("", "DaemonSet", "Node") or pod.deletion_at is not None
    return not mortal and untolerated([CORDON], pod.tolerations) is None
