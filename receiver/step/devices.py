"""Join claims with devices: which devices answer the selectors of which claim, once for each kind of device.

The core sees names of resources only: one for what a pod claims, one for each kind of free device of a node, and one
for each counter that devices share.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from receiver.core.model.devices import (
    CLAIMS,
    COUNTER,
    GPU_DRIVER,
    NO_SUCH_GPU,
    Attribute,
    Device,
    DeviceId,
    Judge,
    NodeDevices,
    Question,
    as_text,
    claim_name,
    fewest_gpus,
    kind_name,
    question_id,
)
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Taint
from receiver.core.model.room_requests import NO_GPU, RoomRequest
from receiver.ports import ClusterFacts, ClusterNode

TOGETHER = "it shares a claim, and its node, with waiting pod "
Answers = tuple[bool | None, ...]  # of each device of a node
Words = tuple[str, ...]
# What tells kinds of devices apart: questions answered and not judged, attributes, taints, what each uses.
Kind = tuple[Words, Words, tuple[tuple[str, Attribute], ...], tuple[Taint, ...], tuple[tuple[str, int], ...]]


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What tells devices apart in one step: the questions of claims, those of extended resources, and the attributes
    of constraints."""

    questions: tuple[Question, ...] = ()
    served: Mapping[str, Question] = field(default_factory=dict)
    attributes: tuple[str, ...] = ()


def unjudged(expression: str, device: Device) -> None:  # a `Judge` without CEL
    """Judge nothing: no node is bought for claims."""


class DeviceJoin:
    """Joins claims with devices. Keeps what *judge* said of each node's devices from step to step."""

    def __init__(self, judge: Judge = unjudged) -> None:
        self._judge = judge
        self._asked = Questions()
        self._answers: WeakKeyDictionary[NodeDevices, dict[Question, Answers]] = WeakKeyDictionary()
        self._kept: WeakKeyDictionary[NodeDevices, tuple[Questions, frozenset[DeviceId], dict[str, int]]] = (
            WeakKeyDictionary()
        )

    def join(self, cluster: ClusterFacts, templates: Iterable[NodeDevices]) -> ClusterFacts:
        """Return *cluster* with waiting pods that ask for what they claim. *templates* are the devices of new nodes."""
        announced = (pod for request in cluster.requests for pod in request.pods if not request.waits)
        claiming = [pod for pod in (*cluster.pods, *announced) if pod.claiming.claims]
        questions = {a.selectors for p in claiming for c in p.claiming.claims for ways in c.requests for a in ways}
        attributes = {c.attribute for p in claiming for claim in p.claiming.claims for c in claim.constraints}
        question_set = Questions(
            questions=tuple(sorted(questions)),
            served=dict(cluster.dra_resources or {}),
            attributes=tuple(sorted(attributes)),
        )
        self._asked = self._asked if question_set == self._asked else question_set
        if not claiming and not any(pod.claiming.not_bought for pod in cluster.pods):
            return cluster
        nodes = [*(n.devices for n in cluster.nodes if n.devices is not None), *templates]
        of_gpus = {q for q in question_set.questions if not nodes or any(self._answers_gpu(node, q) for node in nodes)}
        pods = _joined(cluster.pods, of_gpus)
        by_key = {pod.key: pod for pod in pods}
        return replace(
            cluster,
            pods=pods,
            requests=tuple(_of_request(request, by_key, of_gpus) for request in cluster.requests),
        )

    def free(self, node: NodeDevices, taken: frozenset[DeviceId] = frozenset()) -> Mapping[str, int]:
        """Return what of *node* is free beside the devices that are *taken*: extended resources, and if any pod claims
        devices, those by kind and their counters."""
        cache_entry = self._kept.get(node)
        if cache_entry is not None and cache_entry[0] is self._asked and cache_entry[1] == taken:
            return cache_entry[2]
        questions = {*self._asked.questions, *self._asked.served.values()}
        amounts, answers = self._free(node, taken), self._answers.get(node, {})
        if questions <= answers.keys():  # everything could be judged
            self._kept[node] = self._asked, taken, amounts
            self._answers[node] = {question: answers[question] for question in questions}  # forget those of pods past
        return amounts

    def _free(self, node: NodeDevices, taken: frozenset[DeviceId]) -> dict[str, int]:
        question_set = self._asked
        counters = Counter({COUNTER + name: amount for name, amount in node.counters.items()})
        for device in node.devices:
            if device.id in taken:
                counters.subtract({COUNTER + name: amount for name, amount in device.uses.items()})
        amounts = dict.fromkeys(question_set.served, 0)
        kinds: dict[Kind, list[bool]] = {}
        answers = {q: self._said(node, q) for q in (*question_set.questions, *question_set.served.values())}
        for place, device in enumerate(node.devices):
            free, uses = device.id not in taken, {COUNTER + name: n for name, n in device.uses.items()}
            fits = free and all(counters[name] >= n for name, n in uses.items())
            serves = [r for r, q in question_set.served.items() if answers[q][place] and not device.taints]
            for resource in serves:
                amounts[resource] += fits
            if not serves and device.driver == GPU_DRIVER and not device.taints:  # room also while no pod claims
                serves = [CLAIMS]
                amounts[CLAIMS] = amounts.get(CLAIMS, 0) + free
            if question_set.questions:
                uses |= dict.fromkeys(serves, 1)
                key: Kind = (
                    tuple(question_id(q) for q in question_set.questions if answers[q][place]),
                    tuple(question_id(q) for q in question_set.questions if answers[q][place] is None),
                    tuple((a, device.attributes[a]) for a in question_set.attributes if _compares(device, a)),
                    device.taints,
                    tuple(sorted(uses.items())),
                )
                kinds.setdefault(key, []).append(free)
        amounts |= counters if question_set.questions else {}
        for (yes, unknown, values, taints, used), each in kinds.items():
            amounts[kind_name(yes, unknown, dict(values), taints, dict(used), len(each))] = sum(each)
        return amounts

    def _said(self, node: NodeDevices, question: Question) -> Answers:
        answers_of_node = self._answers.setdefault(node, {})
        if question in answers_of_node:
            return answers_of_node[question]
        answers = tuple(self._meets(question, device) for device in node.devices)
        if None not in answers:  # else it may be judged later: judging takes a limited time
            answers_of_node[question] = answers
        return answers

    def _meets(self, question: Question, device: Device) -> bool | None:
        """Judge the expressions of *question* in order: the first that does not hold ends it, as upstream."""
        for expression in question:
            if not (verdict := self._judge(expression, device)):
                return verdict
        return True

    def _answers_gpu(self, node: NodeDevices, question: Question) -> bool:
        answers = self._said(node, question)
        return any(answers[place] is not False and d.driver == GPU_DRIVER for place, d in enumerate(node.devices))


def _compares(device: Device, attribute: str) -> bool:
    """A list is no value that a constraint of ours compares."""
    return device.attributes.get(attribute, ("list", ""))[0] != "list"


def _joined(pods: Sequence[Pod], of_gpus: set[Question]) -> tuple[Pod, ...]:
    """Return *pods* with what they claim as requests, and gangs that need no room for those of them that ask for none.
    A gang of all its pods starts without none of them: one that no node is bought for holds up the others."""
    demand = {
        pod.key: replace(pod, claiming=replace(pod.claiming, claims=()))
        for pod in _demand([pod for pod in pods if pod.claiming.claims], of_gpus)
    }
    stuck = {pod.gang for pod in pods if _problem(pod)}
    joined = [demand.get(pod.key, pod) for pod in pods]
    size = Counter(pod.gang for pod in joined)
    fewer = Counter(new.gang for old, new in zip(pods, joined, strict=True) if _asks_nothing(new) and not _problem(old))

    def least(pod: Pod) -> int | None:
        if pod.gang_min is None:
            return size[pod.gang] if pod.gang in stuck else None
        return max(1, pod.gang_min - fewer[pod.gang])

    return tuple(replace(pod, gang_min=least(pod)) if pod.gang else pod for pod in joined)


def _asks_nothing(pod: Pod) -> bool:
    return bool(pod.claiming.not_bought) and not pod.requests


def _problem(pod: Pod) -> str:
    return next((claim.problem for claim in pod.claiming.claims if claim.problem), "")


def _of_request(request: RoomRequest, joined: Mapping[str, Pod], of_gpus: set[Question]) -> RoomRequest:
    """Return *request* with what its pods claim, and without those of them that claim no GPU; the pods of one that
    waits are *joined* already, by key."""
    problem = request.problem or next(filter(None, map(_problem, request.pods)), "")
    pods = tuple(joined.get(p.key, p) for p in request.pods) if request.waits else _joined(request.pods, of_gpus)
    asking = tuple(pod for pod in pods if pod.requests)
    return replace(request, pods=asking, problem=problem or (NO_GPU if pods and not asking else ""))


def _demand(pods: Sequence[Pod], of_gpus: set[Question]) -> Iterator[Pod]:
    """Yield *pods* with what they claim as a request, or why no node is bought for that. Waiting pods that share a
    claim must land on one node: the first of them by key asks for all of them."""
    groups: dict[str, list[Pod]] = {}
    group_of: dict[str, str] = {}  # by claim
    for pod in sorted(pods, key=lambda p: p.key):
        if problem := _problem(pod):
            yield replace(pod, requests={}, claiming=replace(pod.claiming, not_bought=problem))
            continue
        shared = [claim.key for claim in pod.claiming.claims if claim.shared and pod.phase is PodPhase.WAITING]
        joined = dict.fromkeys(group_of[key] for key in shared if key in group_of)
        first = next(iter(joined), pod.key)
        for other in [key for key in joined if key != first]:  # this pod joins two groups
            groups[first] += groups.pop(other)
            group_of = {key: first if group == other else group for key, group in group_of.items()}
        group_of |= dict.fromkeys(shared, first)
        groups.setdefault(first, []).append(pod)
    for group in groups.values():
        claims = {
            (claim.key if claim.shared else f"{pod.key}/{number}"): claim
            for pod in group
            for number, claim in enumerate(pod.claiming.claims)
        }
        selectors = {way.selectors for claim in claims.values() for ways in claim.requests for way in ways}
        if not any(pod.requests for pod in group) and not of_gpus & selectors:
            of_class = any(w.device_class == GPU_DRIVER for c in claims.values() for ways in c.requests for w in ways)
            not_bought = NO_SUCH_GPU if of_class else NO_GPU
            yield from (replace(pod, claiming=replace(pod.claiming, not_bought=not_bought)) for pod in group)
            continue
        claim = {claim_name(claims.values()): fewest_gpus(claims.values(), of_gpus)} if selectors else {}
        requests = {**_sum(pod.requests for pod in group), **claim}
        yield replace(group[0], requests=requests, compute=_sum(pod.compute for pod in group))
        for pod in group[1:]:
            yield replace(pod, requests={}, claiming=replace(pod.claiming, not_bought=TOGETHER + group[0].key))


def learnt(nodes: Iterable[ClusterNode]) -> str:
    """Return the devices of the one of *nodes* with the most devices without a taint as text; empty without any."""
    inventories = [node.devices for node in nodes if node.devices is not None]
    return as_text(max(inventories, key=lambda n: sum(not d.taints for d in n.devices))) if inventories else ""


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return dict(total)
