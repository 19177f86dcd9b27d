"""What an event does to the world, to the product's sources, or to the product itself."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from campaigns.faults.bugs import Bugs
from campaigns.faults.build import job_of
from campaigns.faults.claims import ClaimsHappen
from campaigns.faults.doors import Doors
from campaigns.faults.everyday import EverydayHappens
from campaigns.faults.grouped import LEADER_READY, Leaders, object_of
from campaigns.faults.lines import LineTrap
from campaigns.faults.scenario import AGAIN
from campaigns.faults.sick import recover, sicken
from campaigns.faults.spoken import Word, Words
from campaigns.faults.truth import is_theirs
from receiver.capabilities.approvals.api import size_of, take_answer
from receiver.capabilities.approvals.choices import override_by_answer
from receiver.core.model.overrides import Answer, Override, OverrideKind
from receiver.core.model.policy import Policy, Taint
from receiver.core.model.signals import COMPONENT, Alert, Matcher, Silence
from receiver.core.notices.notice import Notice, Severity
from receiver.ports import CORDON_ANNOTATION, PROTECT_ANNOTATION, STOP_ANNOTATION, Delivery, Store
from receiver.replay.world.objects import VM, Denied, PodSpec, WorldNode
from simulator.world import Pdb, SimulatedAlarms, World

What = dict[str, Any]
PORT_OF_SOURCE = {"civo": "cloud", "kubernetes": "cluster", "prometheus": "telemetry", "alertmanager": "alarms"}


class Happenings(ClaimsHappen, EverydayHappens):
    """Lets events happen. Whatever names a node or an instance counts the pool's living ones in a ring."""

    def __init__(
        self, world: World, doors: Doors, alarms: SimulatedAlarms, store: Store, words: Words, policy: Policy
    ) -> None:
        self._world, self._doors, self._alarms, self._words = world, doors, alarms, words
        self.store = store  # the present process's
        self._policy = policy
        self.answered = 0
        self.deliveries: list[int] = []
        self.skew = timedelta(0)
        self.trap = LineTrap()
        self.lost_writer_after: int | None = None  # how many more times we may write
        self.quiet_until = world.now  # the heartbeat's
        self.bugs = Bugs(world)
        self.leaders = Leaders(world)

    def happen(self, kind: str, what: What) -> None:
        """Do it; what the world refuses does not happen."""
        does: Callable[[What], None] = getattr(self, f"_{kind}")
        with suppress(Denied):
            does(what)

    def _bug(self, what: What) -> None:
        self.bugs.begin(what)

    # --- work

    def _job(self, what: What) -> None:
        job = job_of(what, self._world.now)
        self._world.submit(job)
        found = object_of(what, self._world.now)
        if found is not None:
            kind, shown = found
            self._world.group_objects.setdefault(kind, []).append(shown)
        if what.get("form") == LEADER_READY:
            self.leaders.expect(job, what)

    def _cancel(self, what: What) -> None:
        self._world.cancel_job(what["id"])
        self.leaders.cancel(what["id"])

    def _cpu(self, what: What) -> None:
        namespace, owner = what.get("namespace", "web"), what.get("owner", "ReplicaSet")
        for number in range(what.get("pods", 1)):
            self._world.add_pod(
                PodSpec(
                    namespace=namespace,
                    name=f"{what['id']}-{number}",
                    labels={"app": what["id"], **what.get("labels", {})},
                    annotations=what.get("annotations", {}),
                    tolerations=job_of({**TOLERANT, **what}, self._world.now).tolerations,
                    owner_kind=owner,
                    owner_name=what["id"] if owner else "",
                    compute=what.get("compute", {}),
                )
            )
        if what.get("min_available") or what.get("covered"):
            self._world.pdbs.append(
                Pdb(namespace=namespace, selector={"app": what["id"]}, min_available=what.get("min_available", 0))
            )

    def _bind(self, what: What) -> None:
        """Somebody puts a pod on a node by name, as long as the kubelet would admit it."""
        node = self._node(what)
        if node is None or not node.ready or self._world.pools[what["pool"]].spec.devices:
            return
        used = {r: sum(p.requests.get(r, 0) for p in self._world.pods_on(node.name)) for r in node.gpus}
        free = [r for r, n in node.gpus.items() if n > used[r]]
        if free:
            duration = timedelta(seconds=what["seconds"])
            pod = PodSpec(namespace="ml", name=what["id"], requests={free[0]: 1}, duration=duration, node=node.name)
            self._world.add_pod(pod)

    # --- other people

    def _count(self, what: What) -> None:
        found = self._world.pools[what["pool"]].required
        self._world.resize(what["pool"], max(0, found + what["by"]))

    def _cordon(self, what: What) -> None:
        node = self._node(what)
        if node is not None and not node.unschedulable:
            self._world.patch_node(node.name, unschedulable=True)

    def _uncordon(self, what: What) -> None:
        node = self._node(what)
        if node is not None:
            self._world.patch_node(node.name, unschedulable=False)

    def _protect(self, what: What) -> None:
        node = self._node(what)
        if node is not None:
            self._world.patch_node(node.name, annotations={PROTECT_ANNOTATION: "true"})

    def _delete_node(self, what: What) -> None:
        node = self._node(what)
        if node is not None:
            self._world.delete_node(node.name)

    def _retaint(self, what: What) -> None:
        """What sets nodes up finds fault with one that it had let go."""
        node = self._node(what)
        usable = node is not None and any(vm.usable_at for vm in self._world.lives if vm.id == node.instance)
        if node is None or not usable:
            return
        again = Taint(key=what["key"], value=AGAIN)
        self._world.patch_node(node.name, taints=(*(t for t in node.taints if t != again), again))

    def _retaint_over(self, what: What) -> None:
        """It has nothing to object any more, in all of the pool."""
        for node in [n for n in self._world.nodes.values() if n.pool == what["pool"]]:
            kept = tuple(t for t in node.taints if (t.key, t.value) != (what["key"], AGAIN))
            self._world.patch_node(node.name, taints=kept)

    def _sicken(self, what: What) -> None:
        sicken(self._world, self._node(what), what["how"])

    def _recover(self, what: What) -> None:
        recover(self._world, what["pool"])

    def _delete_instance(self, what: What) -> None:
        vm = _pick(self._world.pools[what["pool"]].living, what["which"])
        if vm is not None:
            self._world.delete_instance(vm.pool, vm.id)

    def _recycle(self, what: What) -> None:
        node = self._node(what)
        if node is not None:
            self._world.recycle(node.name)

    # --- Civo

    def _stock(self, what: What) -> None:
        self._world.faults.stock[self._world.pools[what["pool"]].size] = what["left"]

    def _quota(self, what: What) -> None:
        living = sum(len(p.living) for p in self._world.pools.values())
        self._world.limit({} if what["left"] is None else {"instance_count": living + what["left"]})

    def _refuse(self, what: What) -> None:
        self._world.faults.refuse_rescale(what["code"], status=what["status"], times=what["times"])

    def _stuck(self, what: What) -> None:
        self._world.faults.stuck_building(what["pool"], what.get("nodes", 1))

    def _gpu_never(self, what: What) -> None:
        self._world.faults.gpu_never(what["pool"], what.get("nodes", 1))

    def _bare(self, what: What) -> None:
        self._world.faults.bare_labels(what["pool"])

    def _odd(self, what: What) -> None:
        self._world.faults.odd_status(what["pool"], what.get("nodes", 1), what["status"])

    # --- sources and ports

    def _fault(self, what: What) -> None:
        self._doors.arm(what["on"], what["error"], after=what.get("after", False))

    def _die(self, what: What) -> None:
        self.trap.arm(what["within"], what["lines"])

    def _blur(self, what: What) -> None:
        self._doors.blurred = (what["how"], self._world.now + timedelta(seconds=what["seconds"]))

    def _civo_answers(self, what: What) -> None:
        self._doors.partial = (what, self._world.now + timedelta(seconds=what["seconds"]))

    def _silent(self, what: What) -> None:
        until = self._world.now + timedelta(seconds=what["seconds"])
        match what["source"]:
            case "dcgm":
                self._world.faults.telemetry_gone = True
            case "rules":
                self._world.faults.rules_dead = True
            case "heartbeat":
                self.quiet_until = until
            case source:
                self._doors.silent[PORT_OF_SOURCE[source]] = until

    def _rights(self, what: What) -> None:
        self._doors.refused = tuple(what["lost"])

    def _heard(self, _what: What) -> None:
        self._world.faults.telemetry_gone = self._world.faults.rules_dead = False

    def _clock(self, what: What) -> None:
        self.skew = timedelta(seconds=what["by"])

    def _writer_lost(self, what: What) -> None:
        self.lost_writer_after = what["after"]

    def _writer_back(self, _what: What) -> None:
        self.lost_writer_after = None

    # --- signals

    def _alert(self, what: What) -> None:
        labels = {"alertname": what["name"], "component": COMPONENT, "action": what["action"]}
        if what.get("pool"):
            labels["pool"] = what["pool"]
        alert = Alert(fingerprint=what["name"], labels=labels, starts_at=self._world.now)
        self._alarms.extra.append(alert)
        delivery = Delivery(receiver="faults", group_key=what["name"], alerts=(alert,))
        self.deliveries.append(self.store.remember(delivery, self._world.now))

    def _resolved(self, what: What) -> None:
        self._alarms.extra[:] = [a for a in self._alarms.extra if a.fingerprint != what["name"]]

    def _silence(self, what: What) -> None:
        matchers = (Matcher(name="component", value=COMPONENT), Matcher(name="pool", value=what["pool"]))
        ends = self._world.now + timedelta(seconds=what["seconds"])
        self._alarms.silences.append(Silence(id=str(len(self._alarms.silences)), matchers=matchers, ends_at=ends))

    # --- people's words

    def _override(self, what: What) -> None:
        now = self._world.now + self.skew
        until = now + timedelta(seconds=what["seconds"])
        word = Word(what["id"], what["say"], what.get("pool"), what.get("nodes"), now, until)
        override = Override(
            id=word.id,
            kind=OverrideKind(word.kind),
            who="ada",
            why="a try",
            at=now,
            until=until,
            pool=word.pool,
            nodes=word.nodes,
        )
        self.store.set_override(override, _told(word, "set"))
        self._words.said.append(word)

    def _override_end(self, what: What) -> None:
        now = self._world.now + self.skew
        for word in self._words.said:
            if word.id == what["id"] and self.store.end_override(word.id, now, "bob", _told(word, "ended")):
                word.until = min(word.until, now)

    def _answer(self, what: What) -> None:
        """Whoever sees what is asked answers all of it alike, by the page's own way."""
        now, answer = self._world.now + self.skew, Answer(what["say"])
        for question in self.store.questions_standing(now):
            present = size_of(question.pool, self.store)
            if present is None or not question.is_open(now):
                continue
            given = replace(question, answer=answer, who="ada", answered_at=now)
            if take_answer(given, self.store, self._policy, present=present):
                self.answered += 1
                set_by = override_by_answer(given, self._policy, present=present)
                if set_by is not None:
                    word = Word(set_by.id, set_by.kind.value, set_by.pool, set_by.nodes, now, set_by.until)
                    self._words.said.append(word)

    # --- picking

    def _node(self, what: What) -> WorldNode | None:
        """The node object that *what* means; *ours* picks among those that we cordoned."""
        living = [vm.hostname for vm in self._world.pools[what["pool"]].living if vm.hostname in self._world.nodes]
        nodes = [self._world.nodes[name] for name in living]
        if what.get("ours"):
            nodes = [n for n in nodes if n.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}]
        node: WorldNode | None = _pick(nodes, what["which"])
        return node


TOLERANT: What = {"id": "", "seconds": 0, "resource": ""}


def _told(word: Word, key: str) -> Notice:
    return Notice(
        cause="override_set",
        topic=f"override:{word.id}",
        key=key,
        title=f"{word.kind} {key}",
        body="",
        severity=Severity.INFO,
    )


def _pick(found: Sequence[Any], which: int) -> Any:
    return found[which % len(found)] if found else None


def restock(world: World, shelf: Mapping[str, int]) -> None:
    """Civo has as many nodes of each pool of *shelf* to sell, whatever it sold before."""
    for pool, nodes in shelf.items():
        spec = world.pools[pool].spec
        world.faults.stock[spec.size] = nodes * spec.gpu_units


def tidy(world: World, alarms: SimulatedAlarms) -> None:
    """The troubles end: Civo has stock, nothing fires, and people take back what they did to nodes."""
    world.faults.clear()
    world.limit({})
    world.pdbs.clear()
    alarms.extra.clear()
    alarms.silences.clear()
    for node in list(world.nodes.values()):
        unschedulable = False if is_theirs(node) else None
        taints = tuple(t for t in node.taints if t.value != AGAIN)
        world.patch_node(node.name, unschedulable=unschedulable, annotations={PROTECT_ANNOTATION: None}, taints=taints)


def broken(world: World) -> list[VM]:
    """The instances that a person has to look at: never usable for half an hour, or without their node object."""
    found = []
    for pool in world.pools.values():
        for vm in pool.instances:
            late = vm.usable_at is None and world.now - vm.created_at > timedelta(minutes=30)
            lost = vm.ready_at is not None and vm.hostname not in world.nodes
            if vm.living and (late or lost):
                found.append(vm)
    return found
