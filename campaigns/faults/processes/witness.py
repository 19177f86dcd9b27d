"""The invariants as they can be seen from outside: every request is judged when it arrives, before it is answered."""

import json
import re
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from io import BytesIO
from math import inf
from typing import TYPE_CHECKING

from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Request, Response

from campaigns.faults.processes.schedule import PoolPlan, Schedule
from receiver.ports import CORDON_ANNOTATION, SAFE_TO_EVICT_ANNOTATION, STOP_ANNOTATION
from receiver.replay.world.objects import VM, WorldPod
from simulator.gate import MET, face_of
from simulator.server import Simulator
from simulator.world import World

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PUT_POOL = re.compile(r"/pools/([^/]+)$")
DELETE_INSTANCE = re.compile(r"/pools/([^/]+)/instances/([^/]+)$")
EVICTION = re.compile(r"/namespaces/([^/]+)/pods/([^/]+)/eviction$")
CORDONS = re.compile(rb'"unschedulable":\s*true')
NODE = re.compile(r"/api/v1/nodes/([^/]+)$")
LISTS = ("/api/v1/nodes", "/api/v1/pods")
OF_ITS_OWN = {"watch", "continue"}
ASKS_ITSELF = "/apis/authorization.k8s.io/"  # what may I do: changes nothing
PROVISION = timedelta(seconds=60)
A_STEP = 30.0  # seconds at most
WATCHED_WITHIN = 12.0  # seconds from a list that is answered after an outage to the watch
SEEN_FOR = 3.0  # seconds from what a watch brought to the PUT for it


class Witness:
    """WSGI middleware before the simulator's gate. *violated* notes what must not be; *cordoned* hears of cordons."""

    def __init__(self, schedule: Schedule, cloud: Simulator, app: "WSGIApplication") -> None:
        self._schedule, self._cloud, self._app = schedule, cloud, app
        self._plans = {p.id: p for p in schedule.pools}
        skews = [abs(e.what["by"]) for e in schedule.events if e.kind == "clock"]
        self._skew = timedelta(seconds=2 * max(skews, default=0))
        self.violations: list[str] = []
        self.puts = self.deletes = self.evictions = 0
        self.cordoned: Callable[[str], None] = lambda _node: None
        self.stale = self.stale_answers = 0  # how many lists are to be old, and how many were
        self._answered: dict[str, tuple[bytes, list[WorldPod]]] = {}  # lists by URL, and who waited then
        self._looked_at: dict[str, frozenset[str]] = {}  # by node: the GPU pods there when we last asked about it
        self.seen_for = SEEN_FOR
        self._seen: dict[str, float] = {}  # instances, since when (monotonic)
        self._listed_since: float | None = None  # since the API server is back (0: not listed yet), None: it is watched
        self._waiting: list[WorldPod] = []  # when all pods were last listed
        self._lately: list[tuple[float, list[WorldPod]]] = []  # who waited at each request since: a watch brings it
        self._failed_at = -inf  # when (monotonic) Kubernetes last did not answer a read

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        request = Request(environ)
        body = request.get_data()
        environ["wsgi.input"] = BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        face = face_of(request.path)
        if face in ("civo", "kubernetes"):
            with self._cloud.moved() as world:
                now = time.monotonic()
                self._lately = [(at, pods) for at, pods in self._lately if now - at < self.seen_for] + [
                    (now, _waiting(world))
                ]
                if request.method in ("GET", "HEAD"):
                    self._read(request, world)
                elif not request.path.startswith(ASKS_ITSELF):
                    self._written(request, body, world)
        met = environ.setdefault(MET, [])
        try:
            return self._answer(request, environ, start_response)
        finally:
            if met and face == "kubernetes" and request.method == "GET":
                self._failed_at = time.monotonic()

    def _answer(self, request: Request, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        of_one_node = "spec.nodeName" in request.args.get("fieldSelector", "")  # the last look, which is a quorum read
        if (
            request.method == "GET"
            and request.path in LISTS
            and not request.args.keys() & OF_ITS_OWN
            and not of_one_node
        ):
            return self._listed(request, environ, start_response)
        return self._app(environ, start_response)

    def _listed(self, request: Request, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer a list of all nodes or pods, with the answer before this one where that is to be stale."""
        if self.stale and request.full_path in self._answered:
            self.stale -= 1
            self.stale_answers += 1
            body, waiting = self._answered[request.full_path]
            self._waiting = waiting if request.path.endswith("pods") else self._waiting
            return Response(body, content_type="application/json")(environ, start_response)
        chunks, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        body = b"".join(chunks)
        if status.startswith("200"):
            self._answered[request.full_path] = (body, self._waiting)
        return Response(body, status, headers)(environ, start_response)

    def api_is_back(self) -> None:
        """The API server answers again after an outage: pods must soon be watched, not only listed."""
        self._listed_since = 0.0

    @property
    def awaits_watch(self) -> bool:
        """True from the end of an outage of the API server until pods are watched again."""
        return self._listed_since is not None

    def _lists_instead(self, now: float) -> None:
        """All pods are listed, as long as no watch stands."""
        if self._listed_since is not None:
            self._listed_since = self._listed_since or now
            if now - self._listed_since > WATCHED_WITHIN:
                self.violated("5 watched again", f"pods are listed for {now - self._listed_since:.0f} s, not watched")
                self._listed_since = None

    def violated(self, invariant: str, what: str) -> None:
        """Note that *invariant* does not hold."""
        self.violations.append(f"{invariant}: {what}")

    # --- reads

    def _read(self, request: Request, world: World) -> None:
        if request.path != "/api/v1/pods":
            return
        if request.args.get("watch"):
            self._listed_since = None
            return
        selector = request.args.get("fieldSelector", "")
        if selector.startswith("spec.nodeName="):
            node = selector.removeprefix("spec.nodeName=")
            self._looked_at[node] = frozenset(p.uid for p in _gpu_pods(world, node))
        elif selector.startswith("status.phase!="):
            self._lists_instead(time.monotonic())
            self._waiting = _waiting(world)

    # --- writes

    def _written(self, request: Request, body: bytes, world: World) -> None:
        if self._schedule.mode == "observe":
            self.violated("6 observe", f"{request.method} {request.path} was sent")
            return
        if request.method == "PUT" and (put := PUT_POOL.search(request.path)):
            self.puts += 1
            self._put(put[1], int(json.loads(body)["count"]), world)
        elif request.method == "DELETE" and (gone := DELETE_INSTANCE.search(request.path)):
            self.deletes += 1
            self._delete(gone[2], world)
        elif request.method == "POST" and (pod := EVICTION.search(request.path)):
            self._evict(world.pods.get((pod[1], pod[2])), body)
        elif request.method == "PATCH" and (node := NODE.search(request.path)) and CORDONS.search(body):
            self.cordoned(node[1])

    def _evict(self, pod: WorldPod | None, body: bytes) -> None:
        if json.loads(body or b"{}").get("deleteOptions", {}).get("dryRun"):
            return
        self.evictions += 1
        if pod is not None and pod.requests and pod.annotations.get(SAFE_TO_EVICT_ANNOTATION) != "true":
            self.violated("1 evictions", f"{pod.name} holds a GPU and did not consent")

    def _delete(self, instance: str, world: World) -> None:
        vm = next((v for p in world.pools.values() for v in p.instances if v.id == instance), None)
        if vm is None or not vm.living:
            return
        known = self._looked_at.get(vm.hostname, frozenset())
        held = _gpu_pods(world, vm.hostname)
        if any(p.uid in known for p in held) or (held and vm.hostname not in self._looked_at):
            self.violated("1 GPU pods", f"DELETE {vm.hostname} with {', '.join(p.name for p in held)} on it")
        node = world.nodes.get(vm.hostname)
        if (
            node is not None
            and node.unschedulable
            and not node.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION}
        ):
            self.violated("1 cordons of others", f"DELETE {vm.hostname}, which somebody else cordoned")
        if node is not None and node.ready and not node.unschedulable:
            self.violated("1 cordon first", f"DELETE {vm.hostname}, which takes new work")

    def _put(self, pool: str, target: int, world: World) -> None:
        plan, found = self._plans[pool], world.pools[pool]
        there = max(found.required, len(found.living))
        what = f"PUT {target} for {plan.name}, which asks for {found.required} and has {len(found.living)} nodes"
        if target < there:
            self.violated("4 never a lower count", what)
        if target > plan.max_nodes:
            self.violated("2 maximum", f"{what}: at most {plan.max_nodes}")
        counts = {p.id: max(p.required, len(p.living)) for p in world.pools.values()} | {pool: max(target, there)}
        gpus = sum(n * self._plans[p].gpus for p, n in counts.items())
        if self._schedule.max_gpus is not None and gpus > self._schedule.max_gpus:
            self.violated("2 max_gpus", f"{what}: {gpus} GPUs of at most {self._schedule.max_gpus}")
        self._budget(what, counts, world)
        self._asked_twice(what, plan, target - there, found.living, world)

    def _budget(self, what: str, counts: dict[str, int], world: World) -> None:
        budget = self._schedule.budget_usd
        if budget is None:
            return
        reserved = sum(n * self._unit(self._plans[p]) for p, n in counts.items())
        # What this very step has bought is reserved for once: its first unit is not spent beside that.
        fresh = [vm for vm in world.lives if time.monotonic() - self._seen.setdefault(vm.id, time.monotonic()) < A_STEP]
        spent = self.surely_spent(world) - sum(self._unit(self._plans[vm.pool]) for vm in fresh)
        if spent >= 0.8 * budget:
            self.violated("2 budget", f"{what}: {spent:.2f} of {budget} USD are spent, beyond the hold line")
        elif spent + reserved > budget:
            self.violated("2 budget", f"{what}: {spent:.2f} spent and {reserved:.2f} next, of {budget} USD")

    def surely_spent(self, world: World) -> float:
        """USD that every ledger must have counted, whatever clocks said."""
        step = timedelta(seconds=self._schedule.granularity)
        usd = 0.0
        for vm in world.lives:
            lived = min(world.now, vm.gone_at or world.now) - self._skew - vm.created_at
            usd += max(1, lived // step + 1) * self._unit(self._plans[vm.pool])
        return usd

    def _unit(self, plan: PoolPlan) -> float:
        return plan.usd * self._schedule.granularity / 3600

    def _asked_twice(self, what: str, plan: PoolPlan, new: int, living: Iterable[VM], world: World) -> None:
        """Each node on its way and each new one is for a pod of its own, or for the floor."""
        seen = {p.uid: p for pods in (self._waiting, *(pods for _, pods in self._lately)) for p in pods}
        unselected = time.monotonic() - self._failed_at < A_STEP  # kube-state-metrics shows no node selectors
        mine = [
            p
            for p in seen.values()
            if p.node_selector.get("tier") == plan.name or (unselected and max(p.requests.values()) <= plan.gpus)
        ]
        each = min(plan.gpus // n for p in mine for n in p.requests.values()) if mine else 1
        living = list(living)
        coming = sum(
            vm.usable_at is None
            and vm.status in ("BUILDING", "ACTIVE")
            and world.now - vm.created_at < PROVISION - self._skew - timedelta(seconds=5)
            for vm in living
        )
        for_pods = max(0, -(-(len(mine) - coming * each) // each))
        for_floor = max(0, plan.min_nodes - len(living))
        if new > for_pods + for_floor:
            names = ", ".join(p.name for p in mine) or "no pod"
            self.violated("4 asked twice", f"{what}: {coming} nodes are on their way, and {names} waits")


def _waiting(world: World) -> list[WorldPod]:
    return [p for p in world.active_pods.values() if p.requests and p.node is None]


def _gpu_pods(world: World, node: str) -> list[WorldPod]:
    return [p for p in world.pods_on(node) if p.requests]
