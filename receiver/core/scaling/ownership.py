"""Whose work it is where several installations share a cluster: each answers for what its own pools are meant for.

An installation that is alone answers for everything. Beside others it answers

- what names one of its pools (annotation or parameter ``gpu-autoscaler.io/pools``), and nothing that names another's;
- what its pools can hold, unless another's can as well: then the one whose key comes first answers;
- what its pools cannot hold only if the work selects labels of its nodes and of no other installation's;
- what selects no labels and can be shown to be too large for all of them, if its key comes first.

Everything else it leaves alone: a refusal is final for Kueue, and the other's pools may hold the work. Waiting pods
that several installations can hold stay demand of each: what is bought for a pod is no answer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum

from receiver.core.model.installations import InstallationLease, OtherInstallations
from receiver.core.model.model import Facts, PoolState
from receiver.core.model.pods import Pod, owner_of
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.room_requests import RoomRequest
from receiver.core.scaling.demand import may_wait, misfit, refusal, selects
from receiver.core.scaling.failures import blame
from receiver.core.scaling.rooms import Kind, shape
from receiver.core.scaling.template import NextLabels

GATE_OPENS_AFTER = timedelta(minutes=1)  # its time has come, and the installation that it belongs to did not open it


class Match(IntEnum):
    """How well work fits an installation, by the description of its pools."""

    NONE = 0
    PARTS = 1  # each pod fits an empty node, and all of them together ask for more than its pools may ever have
    MAYBE = 2  # it depends on labels or devices that the description does not know
    HERE = 3  # our nodes show that it fits, beyond the description
    ALL = 4


def own_work(facts: Facts, policy: Policy, others: OtherInstallations) -> Facts:
    """Return *facts* without what is left to *others*: waiting pods that no pool here can hold, gates, and requests
    (with those of their pods that wait)."""
    if not any(each.is_respected(facts.at) for each in others.installations):
        return facts
    judge, other_work = Ownership(facts, policy, others), facts.other_work
    requests = tuple(r for r in other_work.requests if r.named or judge.answers(_everything(r)))
    mine = {request.key for request in requests if request.waits}
    foreign = {request.key for request in other_work.requests if request.waits} - mine
    gangs: dict[str, list[Pod]] = {}
    for pod in (*facts.waiting, *other_work.deferred):
        gangs.setdefault(_key(pod), []).append(pod)
    refused = {key for key, pods in gangs.items() if key not in mine and not judge.may_refuse(pods)}
    gated = {_key(pod) for pod in other_work.deferred}
    opened = {key for key in gated if judge.answers(gangs[key]) or judge.is_overdue(gangs[key])}
    return replace(
        facts,
        other_work=replace(
            other_work,
            requests=requests,
            deferred=tuple(pod for pod in other_work.deferred if _key(pod) in opened),
        ),
        waiting=tuple(pod for pod in facts.waiting if _key(pod) not in (refused | foreign)),
    )


def _key(pod: Pod) -> str:
    return pod.gang or pod.key


def _everything(request: RoomRequest) -> Sequence[Pod]:
    return (request.announced or request.pods) * max(1, request.copies)


@dataclass(frozen=True, slots=True)
class _Described:
    """An installation's pools, as one side of a comparison."""

    key: str
    pools: tuple[Pool, ...]
    readable: bool = True

    def match(self, pods: Sequence[Pod]) -> Match:
        if not self.readable:
            return Match.MAYBE
        each = [max((_match(pod, pool) for pool in self.pools), default=Match.NONE) for pod in _shapes(pods)]
        least = min(each, default=Match.NONE)
        if least is Match.ALL and not self._has_room(pods):
            return Match.PARTS
        return least

    def _has_room(self, pods: Sequence[Pod]) -> bool:
        """True unless *pods* ask for more GPUs than the pools that fit them may ever have."""
        requested: dict[str, int] = {}
        for pod in pods:
            for resource, count in pod.requests.items():
                requested[resource] = requested.get(resource, 0) + count
        fitting = [pool for pool in self.pools if any(_match(pod, pool) is Match.ALL for pod in _shapes(pods))]
        counted = {resource for pool in fitting for resource in pool.resources}  # shares of GPUs are not
        most = {r: sum(pool.max_nodes * pool.resources.get(r, 0) for pool in fitting) for r in counted}
        return all(count <= most.get(resource, count) for resource, count in requested.items())

    def is_selected(self, pod: Pod) -> bool:
        """True unless the description shows that *pod* selects no node of these pools."""
        if not self.readable:
            return True
        return any(selects(_less_unknown(pod, pool), pool) for pool in self.pools)


class Ownership:
    """Whose the work of one step is. Work of the same shape is judged once."""

    def __init__(self, facts: Facts, policy: Policy, others: OtherInstallations) -> None:
        self._facts, self._policy = facts, policy
        self._states: dict[str, PoolState] = {state.pool: state for state in facts.pools}
        self._us = _Described(others.own, policy.pools)
        respected = [each for each in others.installations if each.is_respected(facts.at)]
        self._respected = tuple(map(_described, respected))
        self._live = tuple(_described(each) for each in respected if each.is_live(facts.at))
        self._fitting: dict[Kind, bool] = {}
        self._selecting: dict[Kind, bool] = {}

    def answers(self, pods: Sequence[Pod]) -> bool:
        """True if this installation answers for work with *pods*: it accepts or refuses it for good. Work without pods
        has one answer, which the first installation gives."""
        if not pods:
            return self._is_first()
        if not self._fits(pods):
            return self._is_ours_to_refuse(pods)
        mine = self._us.match(pods)
        mine = Match.HERE if mine in (Match.NONE, Match.MAYBE) else mine
        # What is too large here is not refused while an installation that is down may hold it.
        rivals = self._respected if mine is Match.PARTS else self._live
        return not any((-rival.match(pods), rival.key) < (-mine, self._us.key) for rival in rivals)

    def may_refuse(self, pods: Sequence[Pod]) -> bool:
        """True for pods that a pool here can hold, and for those that may be told that none can."""
        return self._fits(pods) or self._is_ours_to_refuse(pods)

    def is_overdue(self, pods: Iterable[Pod]) -> bool:
        """True for gated pods whose time came a moment ago, in the first installation."""
        due = (pod.created_at + may_wait(pod, self._policy) + GATE_OPENS_AFTER <= self._facts.at for pod in pods)
        return self._is_first() and all(due)

    def _fits(self, pods: Sequence[Pod]) -> bool:
        return all(self._of_kind(pod, self._fitting, self._pod_fits) for pod in pods)

    def _is_ours_to_refuse(self, pods: Sequence[Pod]) -> bool:
        """True for work without room here that is meant for our nodes, or for no one's while we come first."""
        if all(self._of_kind(pod, self._selecting, self._selects_ours_alone) for pod in pods):
            return True
        if any(pod.scheduling.node_selector or pod.scheduling.affinity for pod in pods) or not self._is_first():
            return False
        return all(other.match(pods) < Match.MAYBE for other in self._respected)

    def _is_first(self) -> bool:
        return all(self._us.key < other.key for other in self._live)

    def _of_kind(self, pod: Pod, verdicts: dict[Kind, bool], judge: Callable[[Pod], bool]) -> bool:
        kind = (*shape(pod), bool(pod.claiming.not_bought))
        if kind not in verdicts:
            with blame(owner=owner_of(pod)):
                verdicts[kind] = judge(pod)
        return verdicts[kind]

    def _pod_fits(self, pod: Pod) -> bool:
        return not pod.claiming.not_bought and any(
            refusal(pod, pool, self._states[pool.id]) is None for pool in self._policy.pools
        )

    def _selects_ours_alone(self, pod: Pod) -> bool:
        if not (pod.scheduling.node_selector or pod.scheduling.affinity):
            return False
        ours = any(selects(pod, pool, self._states[pool.id].offer) for pool in self._policy.pools)
        return ours and not any(other.is_selected(pod) for other in self._respected)


def _described(installation: InstallationLease) -> _Described:
    return _Described(installation.key, installation.pools, installation.readable)


def _shapes(pods: Iterable[Pod]) -> Iterable[Pod]:
    """One pod of each shape."""
    return {shape(pod): pod for pod in pods}.values()


def _match(pod: Pod, pool: Pool) -> Match:
    if misfit(pod, pool) is None:
        return Match.MAYBE if pod.claiming.words or pod.claiming.not_bought else Match.ALL
    return Match.MAYBE if misfit(_less_unknown(pod, pool), pool) is None else Match.NONE


def _less_unknown(pod: Pod, pool: Pool) -> Pod:
    """*pod* without what it selects by labels that the description of *pool* does not know."""
    labels = NextLabels(pool, None)
    terms = tuple(tuple(want for want in term if labels.values(want.key)) for term in pod.scheduling.affinity)
    selector = {key: value for key, value in pod.scheduling.node_selector.items() if labels.values(key)}
    where = replace(pod.scheduling, node_selector=selector, affinity=terms if all(terms) else ())
    return replace(pod, scheduling=where)
