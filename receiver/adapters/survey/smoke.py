"""The one pod that the smoke test creates, and looks after until it is deleted again.

Promises to delete exactly that pod, not a namesake that came after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from receiver.adapters.kubernetes.api import CONFLICT, NOT_FOUND, POD, PODS_OF, entries, section
from receiver.adapters.kubernetes.nodes import words
from receiver.adapters.survey.cluster import ClusterSurvey
from receiver.ports import TryLater, WontWork

MARK = "gpu-autoscaler.io/smoke-test"  # an annotation: which run of the test made the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """The pod as it stands: its *phase*, on which *node*, whether the scheduler found none, and what it or a container
    *says* about why."""

    phase: str
    node: str = ""
    unschedulable: bool = False
    says: str = ""


class SmokeSurvey(ClusterSurvey):
    """A `ClusterSurvey` that may also create and delete one pod."""

    def create(self, namespace: str, manifest: Mapping[str, Any]) -> str:
        """Create the pod and return its uid. Raises TryLater and WontWork."""
        made = self._wire.ask("create", "pods", self._api.creates(PODS_OF), namespace, dict(manifest))
        return str(section(made, "metadata").get("uid"))

    def made(self, namespace: str, name: str, mark: str) -> str | None:
        """Return the uid of the pod that carries *mark*: one whose creation was not answered. Raises TryLater."""
        try:
            raw = self._wire.ask("get", "pods", self._api.reads(POD), namespace, name)
        except WontWork:
            return None
        metadata = section(raw, "metadata")
        return str(metadata.get("uid")) if words(metadata, "annotations").get(MARK) == mark else None

    def state(self, namespace: str, name: str) -> PodState:
        """Return how the pod stands. Raises TryLater and WontWork (``http_404``: it is gone)."""
        raw = self._wire.ask("get", "pods", self._api.reads(POD), namespace, name)
        status = section(raw, "status")
        scheduled = next((c for c in entries(status, "conditions") if c.get("type") == "PodScheduled"), {})
        stuck = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
        waits = [section(section(c, "state"), "waiting") for c in entries(status, "containerStatuses")]
        ends = [section(section(c, "state"), "terminated") for c in entries(status, "containerStatuses")]
        said = [str(each.get("reason") or "") for each in (*waits, *ends)]
        return PodState(
            phase=str(status.get("phase") or ""),
            node=str(section(raw, "spec").get("nodeName") or ""),
            unschedulable=stuck,
            says=str(scheduled.get("message") or "") if stuck else ", ".join(filter(None, said)),
        )

    def delete(self, namespace: str, name: str, uid: str) -> None:
        """Delete the pod of that *uid*; one that is gone or another's is left. Raises TryLater and WontWork."""
        options = {"preconditions": {"uid": uid}}
        try:
            self._wire.ask("delete", "pods", self._api.deletes(POD), namespace, name, options)
        except WontWork as error:
            if error.code != NOT_FOUND:
                raise
        except TryLater as error:
            if error.code != CONFLICT:
                raise
