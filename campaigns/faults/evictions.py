"""Whether a GPU pod may be evicted: by its owner's consent, or by a window whose grace was told and is over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from campaigns.faults.spoken import windowed
from campaigns.faults.truth import Counted, Truth
from receiver.core.model.actions import Decision, Verdict
from receiver.ports import CORDON_ANNOTATION, PROTECT_ANNOTATION, SAFE_TO_EVICT_ANNOTATION
from receiver.replay.world.objects import CivoPool, Denied, WorldNode, WorldPod

TOPIC = "evict:"
GIVEN_UP_AFTER = timedelta(minutes=14)  # a node that cannot be emptied is given back 15 minutes after its cordon
REPLACERS = ("ReplicaSet", "StatefulSet", "ReplicationController")


@dataclass
class Evictions:
    """Follows what windows evict: what was *told* (when, by pool id), and the nodes that are *going* for it.

    Of each node that we cordoned it keeps when, and whose pods were evicted from it since: by node, and by owner there.
    """

    truth: Truth
    told: dict[str, datetime] = field(default_factory=dict)
    going: dict[str, str] = field(default_factory=dict)  # pool by node
    cordoned: dict[str, datetime] = field(default_factory=dict)
    left: dict[str, dict[tuple[str, str], datetime]] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)  # the last one of each pool
    made: int = 0

    def said(self, topic: str, key: str, at: datetime, answer: Any) -> None:
        """A notice was put into the outbox, or perhaps: a call that failed may have had its effect."""
        pool = topic.removeprefix(TOPIC).split(":")[0]
        if not topic.startswith(TOPIC) or answer is False:
            return
        if key.startswith("warned:act:"):
            self.told[pool] = at
        elif answer is True:
            self.told.pop(pool, None)

    def why_not(self, pod: WorldPod, counted: Mapping[str, Counted], now: datetime) -> str:
        """Why *pod*, which holds GPUs, may not be evicted now; empty when it may."""
        if pod.annotations.get(SAFE_TO_EVICT_ANNOTATION) == "true":
            return ""
        if pod.annotations.get(SAFE_TO_EVICT_ANNOTATION) == "false" or pod.annotations.get(PROTECT_ANNOTATION):
            return "is protected"
        if pod.gang is not None:
            return "belongs to a gang"
        if pod.owner_kind not in REPLACERS:
            return "is not certain to be started again"
        found = self._pool_of(pod)
        if found is None:
            return "is on no node of a pool"
        plan, skew = self.truth.plans[found.id], self.truth.skew
        if plan.evict_after is None:
            return "did not consent, and no window evicts"
        moments = (now - skew, now, now + skew)
        most = min(self.truth.words.tightest(plan, at) for at in moments)
        if min(most, *(windowed(plan, at) for at in moments)) >= plan.max_nodes:
            return "did not consent, and the window is closed"
        told = self.told.get(found.id)
        if told is None or now - told < timedelta(seconds=plan.evict_after) - skew:
            return f"did not consent, and its pool was told at {told}"
        self.going = {node: pool for node, pool in self.going.items() if self._still_goes(node)}
        others = [node for node, pool in self.going.items() if pool == found.id and node != pod.node]
        if len(others) + 1 > counted[found.id].there - most:
            return f"did not consent, and {len(others)} nodes are evicted of {counted[found.id].there}, {most} allowed"
        assert pod.node is not None
        owner = (pod.owner_kind, pod.owner_name)
        first = self.left.setdefault(pod.node, {}).setdefault(owner, self.truth.world.now)
        if pod.scheduled_since is not None and pod.scheduled_since > first:
            return f"came back to {pod.node}, from which its owner's pod was evicted at {first:%H:%M:%S}"
        self.going[pod.node] = found.id
        self.made += 1
        return ""

    def cordons(self, node: str, now: datetime) -> None:
        """We cordon *node* for a removal, or its cordon was lifted and we cordon it again."""
        found = self.truth.world.nodes.get(node)
        if found is None or not is_on_its_way_out(found):
            self.cordoned[node] = now
            self.left.pop(node, None)

    def why_not_back(self, node: WorldNode, now: datetime) -> str:
        """Why *node* may not be given back, whose work a window evicted; empty when it may.

        A person may call an eviction off, and so may a guardrail, the end of the window, a pod that came to the node,
        or a quarter of an hour in which it could not be emptied.
        """
        found = next((p for p in self.truth.world.pools.values() if node.pool == p.id), None)
        if found is None or not self.left.get(node.name) or not is_on_its_way_out(node):
            return ""
        plan, skew, words = self.truth.plans[found.id], self.truth.skew, self.truth.words
        moments = (now - skew, now, now + skew)
        most = max(words.most(plan, at) for at in moments)
        usable = sum(vm.usable_at is not None and self._works(vm.hostname) for vm in found.living)
        decided = self.decisions.get(found.id)
        holds = [r.rule for r in decided.reasons if r.verdict in (Verdict.HOLDS, Verdict.LIMITS)] if decided else []
        stops = (
            min(found.required, usable) <= most,
            any(min(words.tightest(plan, at), windowed(plan, at)) >= plan.max_nodes for at in moments),
            any(words.perhaps(kind, plan, now) for kind in ("pause", "snooze", "pin", "ceiling")),
            bool(holds),
            bool(node.annotations.get(PROTECT_ANNOTATION)),
            any(p.requests and p.deletion_at is None for p in self.truth.world.pods_on(node.name)),
            any(reservation.node == node.name for reservation in self.truth.world.reserved.values()),
            any(self.truth.would_be_lost(p) for p in self.truth.world.pods_on(node.name)),
            abs(now - self.cordoned.get(node.name, now)) >= GIVEN_UP_AFTER - skew,
            not self._works(node.name),
        )
        if any(stops):
            return ""
        owners = ", ".join(name for _, name in self.left[node.name])
        return f"it was emptied of {owners} for a window that allows {most} of {usable} nodes, and nothing stops that"

    def _works(self, node: str) -> bool:
        found = self.truth.world.nodes.get(node)
        return found is not None and found.ready

    def _pool_of(self, pod: WorldPod) -> CivoPool | None:
        """The pool whose node *pod* is on, if its instance lives or did at our last look."""
        pools = self.truth.world.pools.values()
        living = next((p for p in pools for v in p.living if v.hostname == pod.node), None)
        return living or next((p for p in pools if pod.node in self.truth.listed.get(p.id, ())), None)

    def why_held(self, pod: WorldPod) -> str:
        """Why nobody may leave the node of *pod* yet: a budget holds one that would have to go too; empty if none does.

        Once a pod there is leaving, it may have used up what a budget allowed.
        """
        beside = [p for p in self.truth.world.pods_on(pod.node or "") if p.owner_kind not in ("DaemonSet", "Node")]
        if any(p.deletion_at is not None for p in beside):
            return ""
        for other in beside:
            try:
                self.truth.world.rehearse_eviction(other.namespace, other.name)
            except Denied:
                return f"a budget holds {other.namespace}/{other.name} on {pod.node}"
        return ""

    def _still_goes(self, node: str) -> bool:
        """False once it is gone, or its cordon was lifted, by us or by somebody else."""
        found = self.truth.world.nodes.get(node)
        if found is not None and not is_on_its_way_out(found):
            return False
        return any(v.hostname == node for p in self.truth.world.pools.values() for v in p.living)


def is_on_its_way_out(node: WorldNode) -> bool:
    """True while *node* bears our cordon for a removal."""
    return node.unschedulable and CORDON_ANNOTATION in node.annotations
