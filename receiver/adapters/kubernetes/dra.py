"""Reads what Dynamic Resource Allocation serves and what pods claim of it. What was read last counts while the API
server cannot tell, or does not let us any more: a node with a DRA driver must never look like one without GPUs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from receiver.adapters.kubernetes.api import key_of, section
from receiver.adapters.kubernetes.devices import (
    DeviceClasses,
    SeenClaim,
    Slice,
    TaintRule,
    by_node,
    claim_from,
    claim_of,
    classes_from,
    devices_in,
    in_words,
    resource_of,
    rule_from,
    slice_from,
)
from receiver.adapters.kubernetes.pods import ANY_CLASS, SeenPod
from receiver.adapters.kubernetes.reflector import Lists, ResourceKind
from receiver.core.model.devices import (
    CLAIMS,
    GPU_DRIVER,
    Claim,
    Device,
    DeviceId,
    DeviceRequest,
    NodeDevices,
    Question,
)
from receiver.core.model.pods import Claiming, Nomination, Pod, PodPhase
from receiver.core.model.text import listed
from receiver.ports import Clock, ClusterNode, TryLater

DRA_GROUP = "resource.k8s.io"
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
RESOURCE_SLICES = ResourceKind(DRA_GROUP, "resourceslices", DRA_VERSIONS)
DEVICE_CLASSES = ResourceKind(DRA_GROUP, "deviceclasses", DRA_VERSIONS)
RESOURCE_CLAIMS = ResourceKind(DRA_GROUP, "resourceclaims", DRA_VERSIONS)
CLAIM_TEMPLATES = ResourceKind(DRA_GROUP, "resourceclaimtemplates", DRA_VERSIONS)
TAINT_RULES = ResourceKind(DRA_GROUP, "devicetaintrules", ("v1", "v1beta2", "v1alpha3"))
UNREAD_FOR = timedelta(minutes=5)
WITHOUT_SLICES = "nodes whose GPUs a DRA driver serves look like nodes whose GPUs never come"
WITHOUT_CLASSES = "every GPU resource is believed to be served on nodes with a DRA driver"
WITHOUT_RULES = "devices that a DeviceTaintRule taints count as free"
WITHOUT_CLAIMS = "no node is bought for pods that claim devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraServed:
    """What DRA serves: *devices* by node in complete pools, and the *classes* by which pods may ask for them (None: not
    known)."""

    devices: Mapping[str, NodeDevices] = field(default_factory=dict)
    classes: DeviceClasses | None = None
    by_id: Mapping[DeviceId, tuple[str, Device]] = field(default_factory=dict)  # with the node

    def on(self, node: ClusterNode, taken: Mapping[str, Mapping[DeviceId, datetime | None]] | None) -> ClusterNode:
        """Return *node* with its devices, and those *taken* by claims (None: not known, so none counts as free)."""
        devices = self.devices.get(node.name)
        if devices is None:
            return node
        return replace(
            node,
            dra=any(device.driver == GPU_DRIVER for device in devices.devices),
            gpu_devices=len(devices.gpus),
            sick_devices=tuple(f"{gpu.name} ({key})" for gpu in devices.gpus if (key := _fault(gpu))),
            devices=devices if taken is not None else None,
            taken=(taken or {}).get(node.name, {}),
        )


def gpu_nodes(devices: Mapping[str, NodeDevices]) -> frozenset[str]:
    return frozenset(n for n, inventory in devices.items() if any(d.driver == GPU_DRIVER for d in inventory.devices))


def _fault(gpu: Device) -> str:
    """The key of the taint by which its driver tells that *gpu* failed, empty for a well one. Taints of others have
    their own reasons."""
    return next((t.key for t in gpu.taints if t.key.startswith(f"{GPU_DRIVER}/")), "")


class Dra:
    """Reads `resource.k8s.io`; nothing but one failed list where the API is not served."""

    def __init__(self, lists: Lists, clock: Clock) -> None:
        self._lists = lists
        self._clock = clock
        self._last: DraServed | None = None
        self._unread_since: datetime | None = None
        self._parts: dict[str, tuple[tuple[Slice, ...], NodeDevices]] = {}
        self._rules: tuple[TaintRule, ...] = ()
        self._claims: Mapping[str, SeenClaim] | None = None
        self._templates: Mapping[str, Any] | None = None
        self._seen: tuple[DraServed, Sequence[SeenPod]] = DraServed(), ()
        self._now: PodClaims | None = None

    def served(self) -> DraServed:
        """Return what DRA serves now; nothing where the API or the right to list slices was missing from the start.
        Raises TryLater while the API server cannot tell and never has, for a few minutes. After that it is as without
        the API."""
        try:
            slices = self._lists.if_allowed(RESOURCE_SLICES, WITHOUT_SLICES, view=slice_from)
            classes = None if slices is None else self._lists.if_allowed(DEVICE_CLASSES, WITHOUT_CLASSES)
        except TryLater as error:
            if self._last is not None:
                return self._last
            now = self._clock.now()
            self._unread_since = self._unread_since or now
            if timedelta(0) <= now - self._unread_since < UNREAD_FOR:
                raise
            self._lists.remarks.warn("ResourceSlices not read", f"{error}; {WITHOUT_SLICES}")
            return DraServed()
        if slices is None:
            return self._last or DraServed()
        rules = (self._lists.if_readable(TAINT_RULES, WITHOUT_RULES, view=rule_from) if slices else None) or ()
        devices = self._same(by_node(slices), tuple(rule for rule in rules if rule is not None))
        last = self._last or DraServed()
        by_id = last.by_id if devices == last.devices else {d.id: (n, d) for n, x in devices.items() for d in x.devices}
        read = None if classes is None else classes_from(classes)
        self._last = DraServed(devices=devices, classes=read, by_id=by_id)
        return self._last

    def _same(self, slices: Mapping[str, tuple[Slice, ...]], rules: tuple[TaintRule, ...]) -> dict[str, NodeDevices]:
        """Return the devices of each node by its slices; the same object while those and the *rules* are the same."""
        cache, self._rules = self._parts if rules == self._rules else {}, rules
        self._parts = {
            node: cache[node] if node in cache and cache[node][0] == parts else (parts, devices_in(parts, rules))
            for node, parts in slices.items()
        }
        return {node: devices for node, (_, devices) in self._parts.items()}

    def claims(self, served: DraServed, pods: Sequence[SeenPod]) -> "PodClaims | None":
        """Return the claims of *pods*, read after them: the claim of a bound pod is seen. None where nothing serves
        DRA and no pod claims."""
        self._seen, self._now = (served, pods), None
        classes = served.classes is not None and served.classes.of
        if not (served.devices or classes or any(pod.resource_claims for pod in pods)):
            return None
        return self._looked()

    def _looked(self) -> "PodClaims":
        served, pods = self._seen
        self._claims = self._listed(RESOURCE_CLAIMS, self._claims, claim_from, lambda claim: claim.key)
        self.mark(pods)
        self._now = PodClaims(served, self._claims, self._read_templates, pods)
        return self._now

    def _read_templates(self) -> Mapping[str, Any] | None:
        self._templates = self._listed(CLAIM_TEMPLATES, self._templates, dict, key_of)
        return self._templates

    def read(self, pod: SeenPod) -> Pod | None:
        """Return a *pod* with GPUs, or one that claims devices, by what the last call of `claims` read. It may be one
        that does not exist yet."""
        if pod.terminated or (self._now is None and not pod.resource_claims):
            return pod.pod
        return (self._now or self._looked()).of(pod, pod.pod)

    def mark(self, pods: Iterable[SeenPod]) -> None:
        """Mark those of *pods* whose claims take no device, and those of DaemonSets whose claims take no GPU: every
        node has one. The claims that were read last count."""
        for pod in pods:
            names = [name for name, _ in pod.resource_claims.values()] if pod.node and self._claims else ()
            claims = [(self._claims or {}).get(f"{pod.namespace}/{name}") for name in names]
            if claims and all(claim is not None and _keeps_none_busy(claim, daemon=pod.daemon) for claim in claims):
                pod.watch_only()

    def _listed(
        self, kind: ResourceKind, last: Mapping[str, Any] | None, view: Callable[[Any], Any], key: Callable[[Any], str]
    ) -> Mapping[str, Any] | None:
        try:
            objects = self._lists.if_allowed(kind, WITHOUT_CLAIMS, view=view)
        except TryLater as error:
            self._lists.remarks.warn("claims not read", f"{error}; {WITHOUT_CLAIMS}")
            return last
        return None if objects is None else {key(each): each for each in objects}


def _keeps_none_busy(claim: SeenClaim, *, daemon: bool) -> bool:
    no_gpus = claim.given is not None and all(driver != GPU_DRIVER for driver, _, _ in claim.given)
    return no_gpus if daemon else claim.given == ()


def _prepared(seen: SeenPod, pod: Pod | None) -> Pod | None:
    """Return *pod*, which is bound in a moment: its claims have their devices."""
    if pod is None or not seen.nominated:
        return replace(pod, phase=PodPhase.OTHER) if pod else None
    nomination = replace(pod.nomination or Nomination(node=seen.nominated, since=pod.created_at), prepared=True)
    return replace(pod, phase=PodPhase.RESERVED, nomination=nomination)


class PodClaims:
    """What *pods* claim, and which devices claims hold."""

    def __init__(
        self,
        served: DraServed,
        claims: Mapping[str, SeenClaim] | None,
        read_templates: Callable[[], Mapping[str, Any] | None],
        pods: Sequence[SeenPod],
    ) -> None:
        self._classes, self._claims, self._read_templates = served.classes, claims, read_templates
        self._devices = served.by_id
        self._leaves_at = {pod.uid: pod.leaves_at for pod in pods if not pod.terminated} if claims else {}
        self._bound = frozenset(pod.uid for pod in pods if pod.node and not pod.terminated)
        self._reserved = frozenset(uid for c in (claims or {}).values() if c.given is not None for uid in c.pods)
        users = sorted((p for p in pods if p.node and not p.terminated and p.resource_claims), key=lambda p: p.key)
        self._counts: dict[str, str] = {}  # the uid of the pod that a shared claim counts for, by claim
        for pod in users:
            for name, _ in pod.resource_claims.values():
                self._counts.setdefault(f"{pod.namespace}/{name}", pod.uid)

    @cached_property
    def _templates(self) -> Mapping[str, Any] | None:
        return self._read_templates()

    def taken(self) -> dict[str, dict[DeviceId, datetime | None]] | None:
        """Return the devices of each node that claims hold, as in `ClusterNode.taken`; None where the claims are not
        known."""
        if self._claims is None:
            return None
        devices_by_node: defaultdict[str, dict[DeviceId, datetime | None]] = defaultdict(dict)
        for claim in self._claims.values():
            at = self._returned_at(claim) if claim.given else None
            for device in claim.given or ():
                if device in self._devices:
                    devices_by_node[self._devices[device][0]][device] = at
        return dict(devices_by_node)

    def _returned_at(self, claim: SeenClaim) -> datetime | None:
        """When the last of the pods that use *claim* will have left; None while one of them is not leaving."""
        users = [self._leaves_at[uid] for uid in claim.pods if uid in self._leaves_at]
        if not users:  # its pods are gone, and the claim that was made for one goes after it
            return claim.deleted_at
        return None if None in users else max(at for at in users if at is not None)

    def without_pod(self) -> Iterable[tuple[str, str]]:
        """Yield each claim that has devices for pods of which none is bound yet, and the node."""
        for claim in (self._claims or {}).values():
            if claim.pods and not claim.pods & self._bound:
                yield from {(claim.key, self._devices[d][0]) for d in claim.given or () if d in self._devices}

    def of(self, seen: SeenPod, pod: Pod | None) -> Pod | None:
        """Return *pod*, or the pod that *seen* is, with what it holds or asks for by claims; None where it has no
        GPUs and claims nothing."""
        if seen.node:
            return self._holding(seen, pod) if pod is not None else None
        if seen.uid in self._reserved and not seen.resource_claims:  # bound in a moment, for a resource that DRA serves
            return _prepared(seen, pod)
        if seen.nominated and seen.resource_claims and self._has_devices(seen):
            return _prepared(seen, self._holding(seen, pod or seen.without_gpus))
        if not seen.resource_claims and not self._by_class(seen):
            return pod
        return self._asking(seen, pod or seen.without_gpus)

    def _by_class(self, seen: SeenPod) -> dict[str, tuple[Question | None, int]]:
        """What *seen* asks of DeviceClasses by resource, with the selectors (None: there is no such class)."""
        by_resource: dict[str, tuple[Question | None, int]] = {}
        for resource, count in seen.extended.items():
            if self._classes is not None and resource.startswith(ANY_CLASS):
                by_resource[resource] = self._classes.of.get(resource.removeprefix(ANY_CLASS)), count
            elif self._classes is None or resource in self._classes.serving:
                by_resource[resource] = self._classes.serving[resource] if self._classes is not None else None, count
        return by_resource

    def _has_devices(self, seen: SeenPod) -> bool:
        """True when every claim of *seen* has its devices: it starts where these are."""
        claims = [(self._claims or {}).get(f"{seen.namespace}/{name}") for name, _ in seen.resource_claims.values()]
        return all(claim is not None and claim.given is not None for claim in claims)

    def _holding(self, seen: SeenPod, pod: Pod) -> Pod | None:
        """Return a bound *pod* with the devices of its claims as resources: those of a claim that pods share count
        once, those of admin access never, and those that are no GPUs only where it holds no GPU."""
        names = [claim or name for name, (claim, _) in seen.resource_claims.items()]
        names += [seen.given_claim] if CLAIMS in pod.requests and seen.given_claim else []
        if not names or self._claims is None:
            return pod
        held = {resource: count for resource, count in pod.requests.items() if resource != CLAIMS}
        unknown = False
        for name in names:
            key = f"{seen.namespace}/{name}"
            claim = self._claims.get(key)
            if claim is None or claim.given is None:
                held[CLAIMS], unknown = held.get(CLAIMS, 0) + 1, True
                continue
            weight = int(self._counts.get(key, seen.uid) == seen.uid)
            for device in claim.given:
                resource = resource_of(
                    self._devices[device][1] if device in self._devices else Device(driver=device[0])
                )
                held[resource] = held.get(resource, 0) + weight
        if len(held) > 1 and not unknown:
            held.pop(CLAIMS, None)
        claiming = Claiming(words=tuple(f"claim {name}" for name in names))
        return replace(pod, requests=held, claiming=claiming) if held else None

    def _asking(self, seen: SeenPod, pod: Pod) -> Pod:
        """Return *pod*, which waits, with what it claims, or why no node is bought for that."""
        lists = ((DEVICE_CLASSES, self._classes), (RESOURCE_CLAIMS, self._claims), (CLAIM_TEMPLATES, self._templates))
        unread = [kind.plural for kind, objects in lists if objects is None]
        if unread or self._classes is None or self._claims is None or self._templates is None:
            note = f"the list of {listed(unread)} ({DRA_GROUP}) is refused or fails"
            unjudged = Claim(key=seen.key, problem=note)
            claiming = Claiming(words=(*seen.resource_claims, *self._by_class(seen)), claims=(unjudged,))
            return replace(pod, claiming=claiming)
        claims: list[Claim] = []
        words: list[str] = []
        for name, template in seen.resource_claims.values():
            key = f"{seen.namespace}/{name or template}"
            claim, raw = self._claims.get(key), self._templates.get(f"{seen.namespace}/{template}")
            if claim is not None and claim.given is not None:
                where = sorted({self._devices[d][0] for d in claim.given if d in self._devices})
                note = f"claim {name} has its devices on node {listed(where) or '(unknown)'}: it can only start there"
                claiming = Claiming(words=(f"devices (claim {name})",), not_bought=note)
                return replace(pod, requests={}, claiming=claiming)
            spec = claim.spec if claim is not None else section(section(raw or {}, "spec"), "spec")
            shared = not template or (claim is not None and claim.shared)
            parsed = claim_of(key, spec, self._classes, shared=shared)
            claims.append(parsed if claim or raw else Claim(key=key, problem=f"there is no claim or template {key}"))
            words.append(in_words(parsed, f"template {template}" if template else f"claim {name}"))
        for resource, (selectors, count) in self._by_class(seen).items():
            way = DeviceRequest(name=resource, device_class=resource, selectors=selectors or (), count=count)
            problem = "" if selectors is not None else f"there is no DeviceClass for {resource}"
            claims.append(Claim(key=resource, requests=() if problem else ((way,),), problem=problem))
            words.append(f"{count} {resource}")
        claims = [claim for claim in claims if claim.requests or claim.problem]
        none = "" if claims or pod.requests else "it claims devices with admin access only, which takes none"
        return replace(pod, claiming=Claiming(words=tuple(words), claims=tuple(claims), not_bought=none))
