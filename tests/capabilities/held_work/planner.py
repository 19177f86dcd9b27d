"""A planner of inference workers, written from what the planners of Dynamo and llm-d document: it sets the workers that
its load needs, and only observes while one that it asked for has not started. So one node that never comes keeps it
from scaling at all (ai-dynamo/dynamo#14251). Where it asks what is held, it takes back what it will not get."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from receiver.replay.world.objects import WorldPod
from receiver.replay.world.world import World
from tests.given.pods import waiting

NAMESPACE = "serving"
Held = Callable[[], Sequence[dict[str, Any]]]


def none_held() -> Sequence[dict[str, Any]]:
    """What is held for a planner that does not ask."""
    return ()


@dataclass
class Planner:
    """Scales the workers of one model in *world*. *held* returns the held work of its namespace, as the API does."""

    world: World
    held: Held = none_held
    rests_until: datetime | None = None
    falls_back: bool = False
    made: int = 0

    def workers(self) -> list[WorldPod]:
        """Its pods."""
        return [pod for pod in self.world.active_pods.values() if pod.namespace == NAMESPACE]

    def ready(self) -> int:
        """How many of them run."""
        return sum(pod.phase == "Running" for pod in self.workers())

    def plan(self, needed: int) -> None:
        """One round: *needed* workers would serve the load."""
        self._take_back()
        workers = self.workers()
        if self.ready() < len(workers):
            return  # workers start: observe
        resting = self.rests_until is not None and self.world.now < self.rests_until
        if needed > len(workers) and not resting:
            self.falls_back = False
            for _ in range(needed - len(workers)):
                self.made += 1
                self.world.add_pod(waiting(f"decode-{self.made}", namespace=NAMESPACE))
        for worker in workers[needed:]:
            self.world.delete_pod(NAMESPACE, worker.name)

    def _take_back(self) -> None:
        """Delete the workers that get no node, serve with the others, and rest until asking again is of use."""
        names = {worker.name for worker in self.workers()}
        for line in self.held():
            refused = names.intersection(line["pods"])
            if refused:
                self.falls_back = True
                self.rests_until = datetime.fromisoformat(line["not_before"]) if line["not_before"] else None
            for name in refused:
                self.world.delete_pod(NAMESPACE, name)
