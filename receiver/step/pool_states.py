"""Join what every source says of one pool into its `PoolState`.

Calls no source. Missing data count as unknown, never as zero.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.actions import ActionKind, VictimStage
from receiver.core.model.devices import GPU_DRIVER, DeviceId, NodeDevices, Question, from_text, untainted
from receiver.core.model.flights import expected_count
from receiver.core.model.memory import Memory, NodeLife, PoolMemory
from receiver.core.model.model import (
    DELETING_AT_CIVO,
    NO_STATUS,
    Backoffs,
    BesideGpus,
    CivoCount,
    Cordon,
    CordonedBy,
    Drift,
    Health,
    Keep,
    LastChanges,
    NextNode,
    Node,
    Offer,
    PoolState,
    Source,
    SourceState,
    Stage,
    StartupTimes,
    Times,
)
from receiver.core.model.pods import Pod, PodPhase, gpus_of, kept
from receiver.core.model.policy import POOL_LABEL, Policy, Pool, Taint
from receiver.core.model.signals import PoolSilence
from receiver.core.model.usage import Use, judge
from receiver.core.scaling.nominations import without_misplaced
from receiver.core.scaling.sickness import falling_sick
from receiver.core.scaling.template import SETTLED_AFTER, offer_of, room_beside_gpus
from receiver.core.scaling.terminations import comes_soon, node_takes
from receiver.core.scaling.waits import SHORT_LOSS
from receiver.ports import (
    CORDON_ANNOTATION,
    PROTECT_ANNOTATION,
    STOP_ANNOTATION,
    AlarmFacts,
    CloudPool,
    ClusterFacts,
    ClusterNode,
    Instance,
    TelemetryFacts,
)
from receiver.step.devices import DeviceJoin, learnt
from receiver.step.parts import Parts
from receiver.step.sickness import MAINTAINED_FOR, course, is_unready, maintenance, sickness


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What each source said at *at* (None: it did not answer), also by what it is joined by.

    *deleted* are instances whose Node object is known to be deleted. *unjoined* are ready nodes whose provider id names
    no listed instance, of any pool or none. *foreign*: no node's does, as when Kubernetes and Civo answer for different
    clusters; then those of any pool may be ours.
    """

    at: datetime
    cloud: Mapping[str, CloudPool] | None
    cluster: ClusterFacts | None
    telemetry: TelemetryFacts | None
    alarms: AlarmFacts | None
    states: Mapping[Source, SourceState]
    nodes: Mapping[str, ClusterNode]  # by instance id
    pods: Mapping[str, Sequence[Pod]]  # GPU pods by the node they are bound to
    deleted: Collection[str]
    unjoined: Sequence[ClusterNode]
    foreign: bool
    silenced: Mapping[str, PoolSilence]  # by pool
    machines: Mapping[str, Mapping[str, int]]  # resources by size, as far as known
    join: DeviceJoin  # what devices are free, as claims ask for them


def pool_state(
    pool: Pool,
    answers: Answers,
    memory: Memory,
    lives: Mapping[str, NodeLife],
    policy: Policy,
    drifted: Drift | None,
) -> PoolState:
    """Return what is known of *pool*."""
    past, now = memory.pools.get(pool.id, PoolMemory()), answers.at
    civo_pool = answers.cloud.get(pool.id) if answers.cloud is not None else None
    unreadable = civo_pool.unreadable if civo_pool is not None else ""
    civo_count = past.required if answers.cloud is None or unreadable else (civo_pool.required if civo_pool else 0)
    required = expected_count(past.late, civo_count, now)
    action = past.open_action
    victims = action.victims if action is not None and action.kind is ActionKind.RETIRE else ()
    deleted = {v.instance for v in victims if v.stage is VictimStage.DELETED}  # whatever Civo's list still says
    nodes = []
    for instance in civo_pool.instances if civo_pool else ():
        node = _node(instance, pool, answers, lives.get(instance.id), policy, node_takes(past.ready_in))
        nodes.append(replace(node, stage=Stage.DELETING) if instance.id in deleted else node)
    offer = offer_of(pool, nodes, past.offer, now, policy.startup_taints)
    usable = [n for n in nodes if n.stage is Stage.USABLE and n.instance in answers.nodes]
    if offer is not None:
        offer = replace(offer, devices=_learnt(offer, past.offer, usable, pool, answers, now))
    return PoolState(
        pool=pool.id,
        required=required,
        nodes=tuple(nodes),
        open_action=action,
        last_changes=LastChanges(grown_at=past.last_grow_at, shrunk_at=past.last_shrink_at),
        backoffs=Backoffs(
            growth=past.backoff,
            refused=memory.refused.get(pool.id),
            removal=past.removal_backoff,
            provisioning=past.provisioning,
            sickened=falling_sick(lives.values(), pool.id, now),
        ),
        count=CivoCount(
            since=past.required_since if past.required == civo_count else now,
            uncounted=civo_count - required,
            unreadable=unreadable,
            drifts=past.drifts if drifted is None else (*past.drifts, drifted),
        ),
        startup=StartupTimes(usual=past.ready_in),
        offer=offer,
        next_node=NextNode(
            compute=room_beside_gpus(answers.machines.get(pool.size, {}), offer),
            devices=_devices_of_new_node(pool, offer, answers, has_usable=bool(usable) and offer is not None),
        ),
        unjoined=tuple(
            n.name
            for n in answers.unjoined
            if answers.foreign
            or n.labels.get(POOL_LABEL) == pool.id
            or ((n.allocatable or n.dra) and POOL_LABEL not in n.labels)
        ),
        utilization=answers.telemetry.utilization.get(pool.id) if answers.telemetry else None,
        silence=answers.silenced.get(pool.id),
    )


def _learnt(
    offer: Offer, before: Offer | None, usable: Sequence[Node], pool: Pool, answers: Answers, now: datetime
) -> str:
    """Return the devices of the next node of *pool*. A taint on a node that is not new, or has shown its devices before
    without it for a while, means that they are sick, and says nothing about the next one."""
    if offer.at != now and all(node.name != offer.node for node in usable):
        return offer.devices and untainted(offer.devices)
    young = [n for n in usable if n.times.usable_since is None or now - n.times.usable_since <= pool.provision_timeout]
    newest = max(young, key=lambda n: (n.created_at, n.name), default=None)
    if newest is not None:
        devices = learnt([answers.nodes[newest.instance]])
        previous = before.devices if before is not None and before.node == newest.name else ""
        settled = newest.times.usable_since is not None and now - newest.times.usable_since >= SETTLED_AFTER
        return untainted(devices) if devices and previous and settled and previous == untainted(previous) else devices
    devices = learnt(answers.nodes[node.instance] for node in usable)
    return devices and untainted(devices)


def templates(policy: Policy, memory: Memory) -> Iterator[NodeDevices]:
    """Yield the devices of new nodes as far as they are configured or remembered."""
    for pool in policy.pools:
        offer = memory.pools.get(pool.id, PoolMemory()).offer
        if devices := (offer.devices if offer is not None else "") or pool.devices:
            yield from_text(devices)


def _devices_of_new_node(pool: Pool, offer: Offer | None, answers: Answers, *, has_usable: bool) -> Mapping[str, int]:
    """Return what claims, and resources that DRA serves, can take of a new node: as a living node shows it
    (*has_usable*: there is one), else as one showed it within a day, else as configured."""
    offer_devices = offer.devices if offer is not None else ""
    text = offer_devices or ("" if has_usable else pool.devices)
    if not text:
        return {}
    template = from_text(text)
    amounts, served = dict(answers.join.free(template)), _served_by(answers)
    by_dra = any(device.driver == GPU_DRIVER for device in template.devices)
    if served is None or not by_dra:
        return {name: count for name, count in amounts.items() if name not in (served or ())}
    return {**dict.fromkeys(pool.resources, 0), **amounts}


def _served_by(answers: Answers) -> Mapping[str, Question] | None:
    """The extended resources that DRA serves; None: not known."""
    return answers.cluster.dra_resources if answers.cluster is not None else None


def _node(
    instance: Instance, pool: Pool, answers: Answers, life: NodeLife | None, policy: Policy, takes: timedelta
) -> Node:
    """Return the node of *instance*; a new one *takes* so long."""
    node_object, startup_taints = answers.nodes.get(instance.id), policy.startup_taints
    life = life or _new_life(instance, pool, answers.at)
    taint = startup_taint(node_object, pool, startup_taints) if node_object and offers_gpus(node_object, pool) else None
    stage = _stage(instance, pool, answers, life, startup_taints, tainted=taint is not None)
    node = node_object or ClusterNode(name=instance.hostname, instance=instance.id, ready=False, unschedulable=False)
    pods = tuple(answers.pods.get(node.name, ()))
    allocatable, devices = _room(node, pool, answers, pods, node.taken)
    staying = {device: at for device, at in node.taken.items() if at is None or not comes_soon(at, takes, answers.at)}
    returned = _room(node, pool, answers, pods, staying)[1] if len(staying) < len(node.taken) else {}
    return Node(
        name=node.name,
        instance=instance.id,
        stage=stage,
        created_at=life.created_at,
        civo_status="" if instance.status in SAID_BY_THE_STAGE else instance.status or NO_STATUS,
        allocatable=allocatable,
        pods=pods,
        idle_since=life.idle_since if stage is Stage.USABLE and not pods else None,
        registered=node_object is not None,
        ready=node.ready,
        labels=dict(node.labels),
        taints=tuple(t for t in node.taints if not _may_pass(t, node, answers.at)),
        startup_taint=taint.key if taint else "",
        activity=answers.telemetry.nodes.get(node.name) if answers.telemetry and node_object else None,
        cordon=_cordon(node),
        keep=Keep(
            protected=node.annotations.get(PROTECT_ANNOTATION, "false").lower() != "false",
            until=life.kept_until,
            pod=life.kept_for,
            hosts=node.hosts,
            drain_losses=node.kept_by if node.ready else (),
        ),
        health=_health(node_object, answers, policy, life),
        times=Times(
            usable_since=life.usable_at,
            seen_since=life.seen_at,
            unknown_since=life.unknown_since,
            lost_at=life.lost_at,
            undated=_is_undated(instance, life, answers.at),
        ),
        beside=BesideGpus(
            compute=node.compute,
            others=node.others,
            daemons=node.daemons,
            dra=served_by_dra(node, pool),
            devices=devices,
            devices_returned=returned,
        ),
    )


def _stage(
    instance: Instance, pool: Pool, answers: Answers, life: NodeLife, startup_taints: tuple[str, ...], *, tainted: bool
) -> Stage:
    """Return how far *instance* has come, which has a *life* behind it: one that worked is not on its way again."""
    worked, node_object = life.usable_at is not None, answers.nodes.get(instance.id)
    stage = stage_of(instance, node_object, answers.cluster is not None, pool, startup_taints, worked=worked)
    lost_for = answers.at - life.lost_at if life.lost_at is not None else timedelta(0)
    if worked and stage is Stage.INSTALLING and tainted:
        # A startup taint again: for a moment that changes nothing, then the node is no room for pods, then broken.
        late = Stage.INSTALLING if lost_for <= pool.provision_timeout else Stage.BROKEN
        return Stage.USABLE if lost_for <= SHORT_LOSS else late
    if stage is Stage.BOOTING and node_object is None and life.lost_at is not None:
        # It was in Kubernetes. A list without it may be a partial one, unless its Node object is known to be deleted.
        return Stage.BROKEN if lost_for > SHORT_LOSS or instance.id in answers.deleted else Stage.BOOTING
    if worked and stage in (Stage.BOOTING, Stage.INSTALLING):
        return Stage.BROKEN  # a node that lost its GPUs or went NotReady is not on its way
    return stage


def _cordon(node: ClusterNode) -> Cordon:
    action, stop = node.annotations.get(CORDON_ANNOTATION), node.annotations.get(STOP_ANNOTATION)
    ours = CordonedBy.US if action or stop is not None else CordonedBy.SOMEONE
    return Cordon(by=ours if node.unschedulable else None, action=action, stop=stop)


def _may_pass(taint: Taint, node: ClusterNode, now: datetime) -> bool:
    """True for a taint of a condition that is so young that it may be over before another node would be usable."""
    since = node.tainted_since.get(taint.key)
    return since is not None and now - since <= SHORT_LOSS


def _room(
    node: ClusterNode, pool: Pool, answers: Answers, pods: Sequence[Pod], taken: Collection[DeviceId]
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the GPU resources of *node*, on which *pods* are, and its devices that only claims can take, while claims
    hold those *taken*."""
    allocatable, dra = dict(node.allocatable), served_by_dra(node, pool)
    if dra:
        # The status never shows what a DRA driver serves: as configured, for what a DeviceClass answers to.
        served, lost = _served_by(answers), len(node.sick_devices)
        allocatable = {r: max(0, n - lost) for r, n in pool.resources.items() if served is None or r in served}
    if node.devices is None:
        return allocatable, {}
    free, held = answers.join.free(node.devices, frozenset(taken)), _held(pods)
    allocatable |= {r: free[r] + held[r] for r in allocatable if dra and r in free}
    return allocatable, {name: count for name, count in free.items() if name not in (_served_by(answers) or ())}


def _held(pods: Sequence[Pod]) -> Counter[str]:
    """Count what *pods* hold; one that is only nominated has no devices yet, and those that it will get are free."""
    held: Counter[str] = Counter()
    for pod in pods:
        if not pod.reserved or (pod.nomination is not None and pod.nomination.prepared):
            held.update(pod.requests)
    return held


def _health(node: ClusterNode | None, answers: Answers, policy: Policy, life: NodeLife) -> Health:
    """What is wrong with a node that was usable, and who maintains it; for a while only, see `MAINTAINED_FOR`."""
    if node is None:
        return Health(since=life.sick_since)
    was_usable, telemetry = life.usable_at is not None, _believed_telemetry(answers)
    health = sickness(node, telemetry, policy.sick_conditions, life) if was_usable else Health()
    until = (life.maintained_since or answers.at) + MAINTAINED_FOR
    by = maintenance(node, telemetry) if answers.at < until else ""
    return replace(health, since=life.sick_since, maintained=by, maintained_until=until if by else None)


def _believed_telemetry(answers: Answers) -> TelemetryFacts | None:
    """What Prometheus says, None without our rules: a series that is missing then proves nothing."""
    return answers.telemetry if answers.telemetry is not None and answers.telemetry.rules_alive else None


MOMENTS = tuple(f.name for f in fields(NodeLife) if f.name.endswith(("_at", "_since")) and f.name != "created_at")
OLDER_ANSWERS_FOR = timedelta(minutes=2)  # a node that Civo lists again after that long is there
AFTER_BUILDING = (Stage.BOOTING, Stage.INSTALLING, Stage.USABLE)
# Where a node that was usable stands when it goes NotReady, loses its GPUs, or Civo says something new of it.
LOST = (Stage.BOOTING, Stage.INSTALLING, Stage.BROKEN)


def lives_of(answers: Answers, memory: Memory, policy: Policy, parts: Parts) -> tuple[NodeLife, ...]:
    """Bring the node lives of the ledger up to date with what Civo lists now. Moments that lie ahead are corrected:
    they were noted under another clock."""
    past = tuple(_believed(life, answers.at) for life in memory.lives)
    if answers.cloud is None:
        return past
    life_of = {life.instance: life for life in past}
    unreadable = {pool for pool, civo_pool in answers.cloud.items() if civo_pool.unreadable}
    listed: dict[str, NodeLife] = {}
    for civo_pool in answers.cloud.values():
        pool = policy.pool(civo_pool.id)
        for instance in civo_pool.instances:
            old = life_of.get(instance.id)
            if old is not None and civo_pool.unreadable and is_recent(old.gone_at, answers.at):
                listed[instance.id] = old  # the answer may be older than the removal
                continue
            if old is not None:  # without a pool it still costs what it cost
                listed[instance.id] = old if pool is not None else _with(old, idle_since=None)
            if pool is not None:
                with parts.part("node_life", pool.id, sets_aside=True):
                    listed[instance.id] = _life(old, instance, pool, answers, policy)
    ended_lives = (
        _priced(life if life.gone_at else replace(life, gone_at=answers.at, idle_since=None), policy)
        for life in past
        if life.instance not in listed and life.pool not in unreadable
    )
    unseen = (life for life in past if life.instance not in listed and life.pool in unreadable)
    return (*listed.values(), *ended_lives, *unseen)


def is_recent(moment: datetime | None, now: datetime) -> bool:
    """Return whether an answer of Civo may be older than *moment*."""
    return moment is not None and timedelta(0) <= now - moment <= OLDER_ANSWERS_FOR


def _believed(life: NodeLife, now: datetime) -> NodeLife:
    """Return *life* without moments that lie ahead: they were by now at the latest."""
    ahead: dict[str, Any] = {name: now for name in MOMENTS if (at := getattr(life, name)) is not None and at > now}
    return replace(life, **ahead) if ahead else life


def _life(old: NodeLife | None, instance: Instance, pool: Pool, answers: Answers, policy: Policy) -> NodeLife:
    """Return the life of a listed instance.

    GPUs in use on a usable node without a GPU pod make it neither busy nor idle: it is unknown.
    """
    now, node = answers.at, answers.nodes.get(instance.id)
    past = old or _new_life(instance, pool, now)
    worked = past.usable_at is not None
    stage = stage_of(instance, node, answers.cluster is not None, pool, policy.startup_taints, worked=worked)
    name = node.name if node else instance.hostname
    pods = answers.pods.get(name, ())
    activity = answers.telemetry.nodes.get(name) if answers.telemetry else None
    active = activity is not None and judge(activity) is Use.ACTIVE
    usable = stage is Stage.USABLE
    registered_at = past.registered_at or past.ready_at or (now if node else None)
    # A node that was in Kubernetes and is gone is not being built: its Node object was deleted.
    vanished = stage is Stage.BOOTING and node is None and registered_at is not None
    lost = vanished or (stage in LOST and past.usable_at is not None)
    # A startup taint that comes back does not begin the idle time anew.
    retainted = (
        stage is Stage.INSTALLING and past.usable_at is not None and node is not None and offers_gpus(node, pool)
    )
    empty = (usable or retainted) and not pods
    running = [p for p in pods if p.phase is PodPhase.RUNNING]
    kept_until, kept_for = kept((past.kept_until, past.kept_for), pods, policy.keep_until, now)
    return _with(
        past,
        pool=pool.id,
        name=instance.hostname,
        size=pool.size,
        # Civo may leave its creation out for a while: then the time was noted when the instance was first seen.
        created_at=min(past.created_at, instance.created_at or past.created_at),
        price_usd_per_hour=pool.price_usd_per_hour if past.price_usd_per_hour is None else past.price_usd_per_hour,
        gpus=past.gpus if past.gpus and node is None else gpus_of(pool.resources, node.labels if node else {}),
        gone_at=None,
        seen_at=past.seen_at or now,
        active_at=past.active_at or (now if stage in AFTER_BUILDING else None),
        registered_at=registered_at,
        ready_at=past.ready_at or (now if stage in (Stage.INSTALLING, Stage.USABLE) else None),
        usable_at=past.usable_at or (now if usable else None),
        bound_at=past.bound_at
        or min((_noted(p.times.bound_at, instance, now) for p in pods if not p.reserved), default=None),
        running_at=past.running_at
        or min((_noted(p.times.running_since, instance, now) for p in running), default=None),
        image=past.image if past.running_at else _first_image(running),
        idle_since=(past.idle_since or now) if empty else None,
        unknown_since=(past.unknown_since or now) if empty and active else None,
        lost_at=(past.lost_at or now) if lost else past.lost_at if stage is Stage.UNKNOWN else None,
        kept_until=kept_until,
        kept_for=kept_for,
        **_course(past, node, answers, policy, usable=usable),
    )


def _first_image(running: Sequence[Pod]) -> str | None:
    """The image of the pod of *running* that began first; None where no beginning is known."""
    began = [(p.times.running_since, p.scheduling.image) for p in running if p.times.running_since is not None]
    return min(began)[1] if began else None


CLOCKS_DIFFER = timedelta(minutes=5)  # at most, between Civo and here; a later creation is no time


def _created_at(instance: Instance, now: datetime) -> datetime | None:
    """When Civo says that *instance* was created, unless that is no usable time."""
    at = instance.created_at
    return None if at is None or at > now + CLOCKS_DIFFER else at


def _new_life(instance: Instance, pool: Pool, now: datetime) -> NodeLife:
    """The life of an instance that is seen for the first time."""
    return NodeLife(
        instance=instance.id,
        pool=pool.id,
        name=instance.hostname,
        size=pool.size,
        created_at=_created_at(instance, now) or now,
    )


def _is_undated(instance: Instance, life: NodeLife, now: datetime) -> bool:
    """True while Civo gives no creation of an instance that was built when it was first seen: only then the time noted
    says nothing of when its paid units begin."""
    noted = life.seen_at is None or life.created_at == life.seen_at
    return _created_at(instance, now) is None and noted and life.active_at == life.seen_at


def _course(
    past: NodeLife, node: ClusterNode | None, answers: Answers, policy: Policy, *, usable: bool
) -> dict[str, Any]:
    """How the sickness and the maintenance of a node go on. Without Kubernetes nothing of that is known."""
    if answers.cluster is None:
        return {}
    was_usable, telemetry = node is not None and (usable or past.usable_at is not None), _believed_telemetry(answers)
    health = sickness(node, telemetry, policy.sick_conditions, past) if node is not None and was_usable else Health()
    by = maintenance(node, telemetry) if node is not None else ""
    return course(past, node, health, by, answers.at)


def _noted(at: datetime | None, instance: Instance, now: datetime) -> datetime:
    """The moment that Kubernetes has noted, within the instance's life: its clock may differ from ours and Civo's."""
    return now if at is None else max(min(instance.created_at or at, now), min(at, now))


def _with(life: NodeLife, **attributes: Any) -> NodeLife:
    """Return *life* with new *attributes*; itself where that is nothing new, as it is at most steps."""
    news = {name: value for name, value in attributes.items() if getattr(life, name) != value}
    return replace(life, **news) if news else life


def _priced(life: NodeLife, policy: Policy) -> NodeLife:
    """Give a life without a price the one that its size has by now."""
    pool = policy.pool(life.pool)
    if life.price_usd_per_hour is not None or pool is None or pool.size != life.size:
        return life
    return replace(life, price_usd_per_hour=pool.price_usd_per_hour)


BUILDING_AT_CIVO = ("BUILDING", "BUILD_PENDING")
FAILED_AT_CIVO = ("ERROR", "FAILED")  # not documented, and plain enough not to wait for a node that is not Ready
SAID_BY_THE_STAGE = (*BUILDING_AT_CIVO, "ACTIVE")


def stage_of(
    instance: Instance,
    node: ClusterNode | None,
    cluster_answers: bool,
    pool: Pool,
    startup_taints: tuple[str, ...] = (),
    *,
    worked: bool = False,
) -> Stage:
    """How far an instance has come. One that is Ready is built and runs, whatever Civo's list says: Kubernetes is the
    witness. Only a node that is not Ready and that Civo calls failed is broken at once; a missing or other status says
    nothing. A node that has *worked* before and whose GPUs are not ready is sick; before that it is on its way."""
    if instance.status == DELETING_AT_CIVO:
        return Stage.DELETING
    if instance.status in BUILDING_AT_CIVO and (node is None or not node.ready):
        return Stage.BUILDING
    if not cluster_answers:
        return Stage.UNKNOWN
    if node is None or not node.ready:
        return Stage.BROKEN if instance.status in FAILED_AT_CIVO else Stage.BOOTING
    if not offers_gpus(node, pool) or startup_taint(node, pool, startup_taints) is not None:
        return Stage.INSTALLING
    if is_unready(node) and not worked:
        return Stage.INSTALLING
    return Stage.USABLE


def offers_gpus(node: ClusterNode, pool: Pool) -> bool:
    """True when *node* has some of everything that a node of *pool* offers."""
    return served_by_dra(node, pool) or all(node.allocatable.get(r, 0) > 0 for r in pool.resources)


def served_by_dra(node: ClusterNode, pool: Pool) -> bool:
    """True when a DRA driver shows GPUs on *node*, and no device plugin does: Kubernetes decides that by node."""
    return node.dra and not any(node.allocatable.get(r, 0) > 0 for r in pool.resources)


def startup_taint(node: ClusterNode, pool: Pool, prefixes: tuple[str, ...]) -> Taint | None:
    """The first taint of *node* that begins with one of *prefixes* and keeps pods away, unless *pool* is configured
    with it."""
    hard = (t for t in node.taints if t.effect != "PreferNoSchedule" and t not in pool.taints)
    return next((t for t in hard if t.key.startswith(prefixes)), None)


def with_nominations(
    states: Sequence[PoolState], now: datetime, parts: Parts
) -> tuple[Sequence[PoolState], Sequence[Pod]]:
    """Return *states* with nominated pods where they have room, and those that are demand again."""
    pools: list[PoolState] = []
    lapsed: list[Pod] = []
    for state in states:
        placed, again = state, tuple[Pod, ...]()
        with parts.part("nominations", state.pool, sets_aside=True):
            placed, again = without_misplaced(state, now)
        pools.append(placed)
        lapsed += again
    return pools, lapsed


def strays(pools: Sequence[PoolState], cluster: ClusterFacts | None, ours: Collection[str]) -> tuple[str, ...]:
    """The nodes that we closed to new work and that belong to none of *ours* (pool ids) any more, nor to the pools of
    another installation."""
    if cluster is None:
        return ()
    node_names = {node.name for state in pools for node in state.nodes}
    pool_ids = {*ours, *(pool.id for each in cluster.others.installations for pool in each.pools)}
    closed = (n for n in cluster.nodes if STOP_ANNOTATION in n.annotations)
    return tuple(n.name for n in closed if n.name not in node_names and n.labels.get(POOL_LABEL) not in pool_ids)
