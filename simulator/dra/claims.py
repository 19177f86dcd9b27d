"""ResourceClaims and what surrounds them, as JSON of resource.k8s.io/v1: generated, allocated, reserved and freed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from receiver.replay.world.cluster import Agenda, ClusterObjects, Key
from receiver.replay.world.objects import CLAIMS, WorldNode, WorldPod, WorldPool
from receiver.replay.world.scheduler import NodeChoice
from simulator.dra.allocator import Attempt, alternatives, tolerated
from simulator.dra.devices import (
    DRA,
    JSON,
    DeviceId,
    DevicePool,
    Judge,
    complete_pools,
    device_class,
    simple_judge,
    stamp,
    uid_of,
)

CLAIM, TEMPLATE, SLICE = "resourceclaims", "resourceclaimtemplates", "resourceslices"
CLASS, RULE = "deviceclasses", "devicetaintrules"
KINDS: Mapping[str, str] = {
    CLAIM: "ResourceClaim",
    TEMPLATE: "ResourceClaimTemplate",
    SLICE: "ResourceSlice",
    CLASS: "DeviceClass",
    RULE: "DeviceTaintRule",
}
IMPLICIT = "deviceclass.resource.kubernetes.io/"
NO_CLAIM = "cannot allocate all claims"


@dataclass(frozen=True, slots=True)
class Allocation(NodeChoice):
    """A node with the *results* for the claims of the pod that are not allocated yet. The claim for its extended
    resources, which does not exist before, has the key `special`."""

    results: Mapping[Key, list[JSON]]


def special(pod: WorldPod) -> Key:
    return ("", pod.uid)


def extended_requests(pod: WorldPod) -> Mapping[str, str]:
    """Return the request for each extended resource of *pod* in the claim that the scheduler makes for them."""
    return {resource: f"container-0-request-{n}" for n, resource in enumerate(r for r in pod.requests if r != CLAIMS)}


def node_of(claim: JSON) -> str | None:
    """Return the node that *claim* is allocated on, None before; empty for devices that every node reaches."""
    allocation = (claim.get("status") or {}).get("allocation")
    if allocation is None or "nodeSelector" not in allocation:
        return None if allocation is None else ""
    [field_] = allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"]
    return str(field_["values"][0])


def results_of(claim: JSON) -> Sequence[JSON]:
    allocation = (claim.get("status") or {}).get("allocation")
    return () if allocation is None else allocation["devices"]["results"]


def _ids(results: Iterable[JSON]) -> Iterable[DeviceId]:
    """Yield the devices that *results* use up."""
    return (DeviceId(r["driver"], r["pool"], r["device"]) for r in results if not r.get("adminAccess"))


class _Present(NamedTuple):
    pools: Mapping[str, Sequence[DevicePool]]  # complete ones by node
    in_use: frozenset[DeviceId]


@dataclass(slots=True, eq=False)
class Claims:
    """The objects of the API group by plural, and what controllers and the scheduler do with them. *told* hears of
    every change that may let a pod be scheduled, or that may evict one."""

    _cluster: ClusterObjects
    _agenda: Agenda
    told: Callable[[], None]
    judge: Judge = simple_judge
    objects: Mapping[str, dict[Key, JSON]] = field(default_factory=lambda: {plural: {} for plural in KINDS})
    _present: _Present | None = None

    # --- objects ---

    def put(self, plural: str, obj: JSON) -> JSON:
        """Create or replace an object."""
        stored, journal = self.objects[plural], self._cluster.journal
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        before = stored.get(key)
        born = {"creationTimestamp": stamp(self._agenda.now), "uid": uid_of(plural, *key, str(journal.version))}
        if before is not None:
            born = {name: before["metadata"][name] for name in born}
        after = {"apiVersion": f"{DRA}/v1", "kind": KINDS[plural], **obj, "metadata": {**born, **obj["metadata"]}}
        stored[key] = journal.keep(f"{plural}.{DRA}", before, after)
        self._present = None
        return stored[key]

    def remove(self, plural: str, key: Key) -> None:
        before = self.objects[plural].pop(key, None)
        if before is not None:
            self._cluster.journal.keep(f"{plural}.{DRA}", before, None)
            self.changed()

    def delete_claim(self, key: Key) -> None:
        """Delete a claim when no pod uses it any more."""
        claim = self.objects[CLAIM][key]
        if results_of(claim):
            metadata = {**claim["metadata"], "deletionTimestamp": stamp(self._agenda.now)}
            self.put(CLAIM, {**claim, "metadata": metadata})
        else:
            self.remove(CLAIM, key)

    def changed(self) -> None:
        """Take into account what somebody changed in `objects`."""
        self._present = None
        self.told()

    def install(self, pools: Iterable[WorldPool]) -> None:
        """Create the DeviceClasses that NVIDIA's driver brings where it serves devices of one of *pools*."""
        served = [pool for pool in pools if pool.served_by_dra]
        named = sorted({resource for pool in served if pool.dra for resource in pool.resources})
        classes = {r.replace("/", "-"): device_class(r) for r in named}
        if served:
            gpu = classes.pop("nvidia.com-gpu", device_class(None, "gpu"))
            classes = {"gpu.nvidia.com": gpu, "mig.nvidia.com": device_class(None, "mig"), **classes}
        for name, spec in classes.items():
            self.put(CLASS, {"metadata": {"name": name}, "spec": spec})

    # --- claims of a pod ---

    def generate(self, pod: WorldPod) -> WorldPod:
        """Create the claims of *pod* that come from templates which exist."""
        names = dict(pod.claim_names)
        for claim in pod.claims:
            template = self.objects[TEMPLATE].get((pod.namespace, claim.template))
            if template is not None and claim.name not in names:
                name = f"{pod.name}-{claim.name}-{uid_of(pod.uid, claim.name)[:5]}"
                marks = {"resource.kubernetes.io/pod-claim-name": claim.name}
                self._create(pod, name, marks, template["spec"]["spec"])
                names[claim.name] = name
        return pod if names == pod.claim_names else self._cluster.change_pod(pod, claim_names=names)

    def _create(self, pod: WorldPod, name: str, annotations: Mapping[str, str], spec: JSON) -> JSON:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        metadata = {
            "name": name,
            "namespace": pod.namespace,
            "annotations": dict(annotations),
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        return self.put(CLAIM, {"metadata": metadata, "spec": spec})

    def keys(self, pod: WorldPod) -> list[Key]:
        """Return the keys of the claims of *pod* that are known by name."""
        names = [claim.claim or pod.claim_names.get(claim.name, "") for claim in pod.claims]
        return [(pod.namespace, name) for name in (*names, pod.special_claim) if name]

    def ready(self, pod: WorldPod) -> bool:
        """True once every claim of *pod* exists; before, the scheduler does not try it."""
        keys = self.keys(pod)
        return len(keys) >= len(pod.claims) and all(key in self.objects[CLAIM] for key in keys)

    # --- allocation ---

    def refuses(self, pod: WorldPod) -> str:
        """Return why *pod* fits no node at all, empty when it may fit one."""
        for key in self.keys(pod):
            claim = self.objects[CLAIM].get(key)
            if claim is None:
                return f'resourceclaim "{key[1]}" not found'
            for request in claim["spec"]["devices"]["requests"]:
                for device_ask in alternatives(request):
                    name = device_ask.given["deviceClassName"]
                    if ("", name) not in self.objects[CLASS]:
                        return f"request {device_ask.name}: device class {name} does not exist"
        return ""

    def fit(self, pod: WorldPod, node: WorldNode, assumed: Sequence[Allocation] = ()) -> Allocation | str:
        """Return what *pod* would get on *node* beside what is *assumed*, or why it gets nothing. Raises
        UnjudgedError."""
        if refused := self.refuses(pod):
            return refused
        if CLAIMS in pod.requests and not pod.claims:
            return NO_CLAIM
        specs: dict[Key, JSON] = {}
        for key in self.keys(pod):
            claim = self.objects[CLAIM][key]
            at = next((a.node for a in assumed if key in a.results), node_of(claim))
            if at is None:
                specs[key] = claim["spec"]["devices"]
            elif at not in ("", node.name):
                return "resourceclaim not available on the node"
        extended = self._extended(pod, node)
        if isinstance(extended, str):
            return extended
        if extended["requests"]:
            specs[special(pod)] = extended
        if not specs:
            return Allocation(node.name, {})
        present = self._now()
        in_use = present.in_use.union(_ids(r for a in assumed for results in a.results.values() for r in results))
        classes = {name: device_class for (_, name), device_class in self.objects[CLASS].items()}
        attempt = Attempt(present.pools.get(node.name, ()), in_use, classes, self.judge)
        allocated = attempt.allocate(list(specs.values()))
        return NO_CLAIM if allocated is None else Allocation(node.name, dict(zip(specs, allocated, strict=True)))

    def _extended(self, pod: WorldPod, node: WorldNode) -> JSON | str:
        """Return the ``spec.devices`` of the claim for the extended resources of *pod*, or which of them is short."""
        requests = []
        for resource, request in extended_requests(pod).items() if node.dra else ():
            name = self.class_of(resource)
            if name is None:
                return f"Insufficient {resource}"
            exactly = {"deviceClassName": name, "allocationMode": "ExactCount", "count": pod.requests[resource]}
            requests.append({"name": request, "exactly": exactly})
        return {"requests": requests}

    def class_of(self, resource: str) -> str | None:
        """Return the class that serves an extended resource: the newest, of equals the first by name."""
        classes = self.objects[CLASS]
        if resource.startswith(IMPLICIT):
            name = resource.removeprefix(IMPLICIT)
            return name if ("", name) in classes else None
        named = [c["metadata"] for c in classes.values() if c["spec"].get("extendedResourceName") == resource]
        named.sort(key=lambda metadata: metadata["name"])
        named.sort(key=lambda metadata: metadata["creationTimestamp"], reverse=True)
        return named[0]["name"] if named else None

    def _now(self) -> _Present:
        if self._present is None:
            by_node: dict[str, list[JSON]] = {}
            for device_slice in self.objects[SLICE].values():
                by_node.setdefault(device_slice["spec"].get("nodeName") or "", []).append(device_slice)
            rules = list(self.objects[RULE].values())
            self._present = _Present(
                {node: complete_pools(slices, rules) for node, slices in by_node.items()},
                frozenset(name for claim in self.objects[CLAIM].values() for name in _ids(results_of(claim))),
            )
        return self._present

    # --- while a pod holds them ---

    def reserve(self, pod: WorldPod, chosen: Allocation) -> WorldPod:
        """Allocate the claims of *pod* as *chosen*, and reserve all of its claims for it."""
        if not pod.claims and not chosen.results:
            return pod
        for key, results in chosen.results.items():
            if key == special(pod):
                pod = self._create_special(pod, chosen.node)
                key = (pod.namespace, pod.special_claim)
            claim = self.objects[CLAIM][key]
            field_ = {"key": "metadata.name", "operator": "In", "values": [chosen.node]}
            allocation = {
                "allocationTimestamp": stamp(self._agenda.now),
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field_]}]},
            }
            self.put(CLAIM, {**claim, "status": {"allocation": allocation}})
        for key in self.keys(pod):
            claim = self.objects[CLAIM][key]
            holders = [*claim["status"].get("reservedFor", ()), _holder(pod)]
            self.put(CLAIM, {**claim, "status": {**claim["status"], "reservedFor": holders}})
        devices = sum(1 for key, results in chosen.results.items() if key != special(pod) for _ in _ids(results))
        return self._cluster.change_pod(pod, requests={**pod.requests, CLAIMS: devices}) if pod.claims else pod

    def _create_special(self, pod: WorldPod, node: str) -> WorldPod:
        name = f"{pod.name}-extended-resources-{uid_of(pod.uid)[:5]}"
        extended = self._extended(pod, self._cluster.nodes[node])
        self._create(pod, name, {"resource.kubernetes.io/extended-resource-claim": "true"}, {"devices": extended})
        return self._cluster.change_pod(pod, special_claim=name)

    def release(self, pod: WorldPod) -> None:
        """Free what *pod* holds: its own claims go, others are deallocated by the last one to leave."""
        for key in self.keys(pod):
            claim = self.objects[CLAIM].get(key)
            if claim is None:
                continue
            holders = [h for h in (claim.get("status") or {}).get("reservedFor", ()) if h["uid"] != pod.uid]
            owned = any(owner["uid"] == pod.uid for owner in claim["metadata"].get("ownerReferences", ()))
            if owned or (not holders and "deletionTimestamp" in claim["metadata"]):
                self.remove(CLAIM, key)
            elif results_of(claim):
                self.put(CLAIM, {**claim, "status": {**claim["status"], "reservedFor": holders} if holders else {}})
                self.changed()

    def to_evict(self) -> list[str]:
        """Return the uids of the pods with a device under a taint NoExecute that its request does not tolerate."""
        devices = {
            DeviceId(pool.driver, pool.name, name): device
            for pools in self._now().pools.values()
            for pool in pools
            for name, device in pool.devices.items()
        }
        uids: dict[str, None] = {}
        for claim in self.objects[CLAIM].values():
            for result in results_of(claim):
                device = devices.get(DeviceId(result["driver"], result["pool"], result["device"]), {})
                evicting = [taint for taint in device.get("taints") or () if taint["effect"] == "NoExecute"]
                if not all(tolerated(taint, result.get("tolerations") or ()) for taint in evicting):
                    uids |= dict.fromkeys(holder["uid"] for holder in claim["status"].get("reservedFor", ()))
        return list(uids)


def _holder(pod: WorldPod) -> JSON:
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}
