"""New work kept out of a World in memory, as `receiver.ports.Holding` describes it."""

from collections.abc import Sequence

from receiver.ports import STOP_POLICY_ANNOTATION, Did, KeptOut, Receipt
from receiver.replay.switches import Switches
from receiver.replay.world.holding import Holding, Quota


class WorldHolding(Switches):
    """The means of a budget hold, over the objects that a world keeps."""

    _holding: Holding

    def kept_out(self, *, queues: bool) -> KeptOut:
        """Return what is ours."""
        self.called("kept_out")
        held = [n for n, q in self._holding.cluster_queues.items() if STOP_POLICY_ANNOTATION in q.annotations]
        return KeptOut(
            namespaces=tuple(sorted(n for n, q in self._holding.quotas.items() if q.ours)),
            cluster_queues=tuple(sorted(held)) if queues else (),
        )

    def keep_out(self, namespace: str, resources: Sequence[str], passing: Sequence[str]) -> Receipt:
        """Put our quota in place."""
        self.called("keep_out")
        found = self._holding.quotas.get(namespace)
        spec = {"resources": sorted(resources), "passing": sorted(passing)}
        if found is not None and not found.ours:
            return Receipt(did=Did.DIFFERS, sentence=f"the quota of {namespace} is not ours and is left alone")
        if found is not None and found.spec == spec:
            return Receipt(did=Did.ALREADY, sentence=f"the quota of {namespace} is there already")
        self.write("keep_out", (namespace,), lambda: self._holding.quotas.update({namespace: Quota(spec=spec)}))
        return Receipt(did=Did.DONE, sentence=f"created the quota of {namespace}")

    def let_in(self, namespace: str) -> Receipt:
        """Delete our quota."""
        self.called("let_in")
        found = self._holding.quotas.get(namespace)
        if found is None or not found.ours:
            did = Did.ALREADY if found is None else Did.DIFFERS
            return Receipt(did=did, sentence=f"no quota of ours is in {namespace}")
        self.write("let_in", (namespace,), lambda: self._holding.quotas.pop(namespace))
        return Receipt(did=Did.DONE, sentence=f"deleted the quota of {namespace}")

    def hold_queue(self, queue: str) -> Receipt:
        """Put a queue on Hold and note what it was."""
        self.called("hold_queue")
        found = self._holding.cluster_queues.get(queue)
        if found is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no ClusterQueue {queue}")
        ours, stopped = STOP_POLICY_ANNOTATION in found.annotations, found.stop_policy not in (None, "None")
        if stopped:
            did = Did.ALREADY if ours else Did.DIFFERS
            return Receipt(did=did, sentence=f"ClusterQueue {queue} is stopped already ({found.stop_policy})")

        def hold() -> None:
            found.annotations.setdefault(STOP_POLICY_ANNOTATION, found.stop_policy or "")
            found.stop_policy = "Hold"

        self.write("hold_queue", (queue,), hold)
        return Receipt(did=Did.DONE, sentence=f"put ClusterQueue {queue} on Hold")

    def release_queue(self, queue: str) -> Receipt:
        """Give a queue back what it had."""
        self.called("release_queue")
        found = self._holding.cluster_queues.get(queue)
        if found is None or STOP_POLICY_ANNOTATION not in found.annotations:
            return Receipt(did=Did.ALREADY, sentence=f"ClusterQueue {queue} is not held by us")

        def release() -> None:
            before = found.annotations.pop(STOP_POLICY_ANNOTATION) or None
            found.stop_policy = before if found.stop_policy == "Hold" else found.stop_policy

        self.write("release_queue", (queue,), release)
        return Receipt(did=Did.DONE, sentence=f"released ClusterQueue {queue}")
