"""What `python -m campaigns.faults --planted` plants: each takes a function of the product and returns it broken.

They are applied below the function's module in a copy of the tree, while that is imported: nothing that imports it may
be imported here.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import Any

from receiver.core.model.actions import Verdict

Function = Callable[..., Any]
FOR_PEOPLE = ("messages", "usage", "picture", "log", "publish")


def in_place_of(real: Function, make: Callable[[Function], Function]) -> Function:
    """Return what *make* makes of *real*; `campaigns.step_failures.planting` still finds *real* in it."""
    return wraps(real)(make(real))


def never(_: Function) -> Function:
    """It finds nothing."""
    return lambda *_args, **_named: None


def no(_: Function) -> Function:
    """It denies."""
    return lambda *_args, **_named: False


def to_be_replaced(may_go: Function) -> Function:
    """Nothing keeps a sick node that is to be replaced."""
    return lambda node, case, way: way.name == "REPLACEMENT" or may_go(node, case, way)


class _Blind:
    """A cluster in which the last looks see no pod, neither before a drain nor after it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def gpu_pods_on(self, node: str) -> tuple[()]:
        return ()

    def drain(self, *args: Any, **named: Any) -> Any:
        receipt = self._inner.drain(*args, **named)
        return replace(receipt, did=type(receipt.did).DONE) if receipt.did is type(receipt.did).DIFFERS else receipt


def without_a_look(advance: Function) -> Function:
    """A node is removed although work started on it."""

    def blind(victim: Any, node: Any, view: Any, action: Any, hands: Any) -> Any:
        if node is not None and node.busy:
            node, view = replace(node, pods=()), replace(view, stays="")
        return advance(victim, node, view, action, replace(hands, cluster=_Blind(hands.cluster)))

    return blind


def one_node_more(bounds_of: Function) -> Function:
    """A maximum is one too high."""
    return lambda pool, *rest: replace(bounds_of(pool, *rest), max_nodes=pool.max_nodes + 1)


def all_but_every_fifth_delivery(recall: Function) -> Function:
    """Deliveries are left out."""

    def recalled(*args: Any, **named: Any) -> Any:
        memory = recall(*args, **named)
        return replace(memory, deliveries=tuple(n for n in memory.deliveries if n % 5))

    return recalled


def answered_anyway(remember: Function) -> Function:
    """What the store refused is taken for stored."""

    def remembered(*args: Any) -> Any:
        from receiver.ports import TryLater

        try:
            return remember(*args)
        except TryLater:
            return 10**9

    return remembered


class _OneMore:
    """A cloud that is asked for one node too many."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def resize(self, pool: str, *, target: int, **named: Any) -> Any:
        return self._inner.resize(pool, target=target + 1, **named)


def one_more_when_it_goes_on(grow: Function) -> Function:
    """Growth of an earlier step is continued with a higher count."""

    def grown(action: Any, state: Any, hands: Any, now: Any) -> Any:
        if now - action.opened_at > timedelta(0):
            hands = replace(hands, cloud=_OneMore(hands.cloud))
        return grow(action, state, hands, now)

    return grown


def for_ever(_: Function) -> Function:
    """A time to retry never comes."""
    return lambda action, _now: action.retry_at is not None


def as_in_act_mode(_: Function) -> Function:
    """Observe mode passes a request on."""
    return lambda self, pool, **named: self._inner.resize(pool, **named)


def as_wanted(decide: Function) -> Function:
    """What is wanted is the target, whatever the guardrails leave."""

    def decided(case: Any) -> Any:
        decision, case = decide(case)
        wanted = [r.target for r in decision.reasons if r.verdict is Verdict.WANTS]
        return replace(decision, target=wanted[-1] if wanted else decision.present), case

    return decided


def uncaught_for_people(part: Function) -> Function:
    """A bug in what is published ends the step."""
    return lambda self, name, *rest, **named: nullcontext() if name in FOR_PEOPLE else part(self, name, *rest, **named)


def uncaught_while_acting(part: Function) -> Function:
    """A bug while acting for a pool ends the step."""
    return lambda self, name, *rest, **named: nullcontext() if name == "act" else part(self, name, *rest, **named)


def nothing_refused(refused: Function) -> Function:
    """No work counts as refused."""
    nothing = frozenset[str]()
    return lambda *args: replace(refused(*args), pods=nothing, gangs=nothing, pools=nothing)


def beside_refused_gangs(keep_warm: Function) -> Function:
    """Nodes are kept warm although a gang was held."""

    def keeps(draft: Any) -> None:
        held = {pool: tally.held for pool, tally in draft.tallies.items()}
        for tally in draft.tallies.values():
            tally.held = [h for h in tally.held if h.rule != "gangs_whole"]
        keep_warm(draft)
        for pool, tally in draft.tallies.items():
            tally.held = held[pool]

    return keeps


def held_by_nobody(holding: Function) -> Function:
    """Pods that hold devices by claim are overlooked."""
    return lambda self, seen, pod: None if seen.resource_claims else holding(self, seen, pod)


class _BlindToClaims(_Blind):
    """A cluster in which the last looks see no pod that holds devices by claim."""

    def gpu_pods_on(self, node: str) -> Any:
        return [pod for pod in self._inner.gpu_pods_on(node) if "resource.k8s.io/claims" not in pod.requests]

    def drain(self, node: str, *args: Any, **named: Any) -> Any:
        if self.gpu_pods_on(node):
            return self._inner.drain(node, *args, **named)
        return super().drain(node, *args, **named)


def without_a_look_at_claims(advance: Function) -> Function:
    """A node is removed although a pod holds devices by claim there."""

    def blind(victim: Any, node: Any, view: Any, action: Any, hands: Any) -> Any:
        return advance(victim, node, view, action, replace(hands, cluster=_BlindToClaims(hands.cluster)))

    return blind


def each_for_itself(demand: Function) -> Function:
    """Pods that share a claim are taken for pods with a claim of their own."""

    def alone(pod: Any) -> Any:
        claims = tuple(replace(claim, shared=False) for claim in pod.claiming.claims)
        return replace(pod, claiming=replace(pod.claiming, claims=claims))

    def demanded(pods: Any, of_gpus: Any) -> Any:
        return demand([alone(pod) for pod in pods], of_gpus)

    return demanded


def as_if_complete(by_node: Function) -> Function:
    """A pool counts with as many slices as there are."""

    def found(slices: Any) -> Any:
        slices = list(slices)
        there = Counter((part.driver, part.pool, part.generation) for part in slices)
        return by_node([replace(part, slices=there[part.driver, part.pool, part.generation]) for part in slices])

    return found


def as_basic(_: Function) -> Function:
    """Every group has the basic policy."""
    return lambda _self, _kind, keys: dict.fromkeys(keys, 0)


def without_workers(_: Function) -> Function:
    """A group of a LeaderWorkerSet is the pods that exist."""

    def sized(_self: Any, members: Any, _now: Any) -> Any:
        from receiver.adapters.kubernetes.announced import Announcement

        return [(Announcement(key=key, runs=()), None) for key in members]

    return sized


def beside_sick_gpus(capacity: Function) -> Function:
    """Sick nodes have room like others."""

    def roomy(pool: Any, state: Any, *rest: Any, **named: Any) -> Any:
        nodes = tuple(replace(n, health=replace(n.health, sick="")) for n in state.nodes)
        return capacity(pool, replace(state, nodes=nodes), *rest, **named)

    return roomy


def without_a_look_at_the_sick(advance: Function) -> Function:
    """A sick node is removed although work runs on it."""
    blind = without_a_look(advance)
    return lambda victim, node, *rest: (blind if node is not None and node.health.sick else advance)(
        victim, node, *rest
    )


def every_sick_node(_: Function) -> Function:
    """Every sick node is under repair, whatever the share."""
    from receiver.core.model.policy import Repair

    def chosen(tally: Any, _draft: Any) -> Any:
        repairs = tally.pool.repair is Repair.REPLACE
        return frozenset(n.instance for n in tally.state.nodes if n.health.sick and repairs)

    return chosen


def with_startup_taints(offer_of: Function) -> Function:
    """A node with a startup taint counts as another one, its taint as what the next one carries."""

    def offered(pool: Any, nodes: Any, before: Any, now: Any, startup_taints: Any = ()) -> Any:
        return offer_of(pool, [replace(n, startup_taint="") for n in nodes], before, now)

    return offered


# --- what checks on a real control plane found


class _Later:
    """A store that keeps the control state with the picture, as if it were part of it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._control: tuple[Any, ...] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def keep_control(self, *control: Any) -> None:
        self._control = control

    def keep_snapshot(self, *picture: Any) -> None:
        if self._control is not None:
            self._inner.keep_control(*self._control)
        self._inner.keep_snapshot(*picture)


def control_with_the_picture(act: Function) -> Function:
    """Deliveries count as considered, and the next step learns from this one, once the picture is stored."""
    return lambda work, *rest, **named: act(replace(work, store=_Later(work.store)), *rest, **named)


CHORES = ("repair", "labels_and_taints", "soft_taints", "admissions", "buffers", "window_evictions", "idle_shutdown")


def uncaught_in_chores(part: Function) -> Function:
    """A bug in what writes to nodes and workloads beside scaling ends the step."""
    return lambda self, name, *rest, **named: nullcontext() if name in CHORES else part(self, name, *rest, **named)


def as_it_comes(_: Function) -> Function:
    """Rooms are never given out in another order than that in which work was served."""
    return lambda *_args: iter(())


def by_the_newest_alone(misfit: Function) -> Function:
    """One odd node shows what all new ones are like, whatever others show."""
    return lambda pod, pool, offer=None: misfit(pod, pool, None if offer is None else replace(offer, others=()))


def gpus_alone(_: Any) -> Any:
    """CPU and memory do not count."""
    return property(lambda self: self.requests)


def without_hurry(later: Function) -> Function:
    """A call that hung does not end the step."""
    return lambda *args: replace(later(*args), hung=False)


def nothing_begun(_: Function) -> Function:
    """No node counts as being emptied by a window."""
    return lambda _state: frozenset()


def with_one_reason_for_all(advance: Function) -> Function:
    """A node that a PodDisruptionBudget kept stays for a reason that fits every node."""
    from receiver.core.explain.staying import UNKNOWN

    def advanced(*args: Any) -> Any:
        after = advance(*args)
        victim = after.victim
        told = replace(victim, why=UNKNOWN) if victim.refused and "budget" in victim.why else victim
        return replace(after, victim=told)

    return advanced


def young_for_ever(node_of: Function) -> Function:
    """An instance whose node object was deleted before it was usable is still booting."""
    from receiver.core.model.model import Stage

    def seen(instance: Any, *rest: Any) -> Any:
        node = node_of(instance, *rest)
        lost = node.stage is Stage.BROKEN and instance.status == "ACTIVE" and not node.registered
        return replace(node, stage=Stage.BOOTING) if lost and not node.was_usable else node

    return seen


def without_hurry_to_watch(list_: Function) -> Function:
    """A list that succeeds ends no pause between watches."""
    from threading import Event

    def listed(self: Any) -> Any:
        rouse, first = self._rouse, not self._version
        self._rouse = Event()
        try:
            return list_(self)
        finally:
            self._rouse = rouse
            if first:  # nothing else ends that pause
                rouse.set()

    return listed


def as_if_steps_went_well(health: Function) -> Function:
    """Nobody asks when a step last went well."""
    return lambda self: replace(health(self), good_age=None)


def by_its_later_life(_: Function) -> Function:
    """The newest usable node shows what the next one is like, whatever was done to it."""

    def shown(offer: Any, usable: Any, beside: Any, pool: Any, passing: Any, looked_at: Any) -> Any:
        from receiver.core.scaling import template

        newest = max(usable, key=template._age)
        found = template._shown_by(newest, offer, pool, passing, usable)
        return replace(found, since=offer.at, others=())

    return shown


def nothing_leaves(_: Function) -> Function:
    """No pod gives its room back before it is gone."""
    return lambda *_args: ()


def without_nominations(_: Function) -> Function:
    """Nominated pods are on no node."""

    def bare(state: Any, _now: Any) -> Any:
        nodes = [replace(n, pods=tuple(p for p in n.pods if not p.reserved)) for n in state.nodes]
        return replace(state, nodes=tuple(nodes)), ()

    return bare


def nothing_barred(barred: Function) -> Function:
    """What the scheduler said before counts for nothing."""

    def forgetful(facts: Any, waiting: Any) -> Any:
        return barred(replace(facts, other_work=replace(facts.other_work, refusals=())), waiting)

    return forgetful


def broken_by_a_word(stage: Function) -> Function:
    """A status that is neither a building nor an active one is a broken one."""
    from receiver.core.model.model import Stage

    def seen(instance: Any, *rest: Any, **named: Any) -> Any:
        known = instance.status in ("BUILDING", "ACTIVE", "DELETING")
        return stage(instance, *rest, **named) if known else Stage.BROKEN

    return seen
