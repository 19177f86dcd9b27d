"""Who may do what in the cluster: SelfSubjectAccessReviews, which the API server answers and forgets.

Everybody may ask them of themselves (ClusterRole system:basic-user), so no role of ours has to grant it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from receiver.adapters.kubernetes.api import REVIEWS, KubernetesApi
from receiver.adapters.kubernetes.nodes import section
from receiver.adapters.kubernetes.wire import REVIEW, ClusterWire
from receiver.core.model.text import harmless
from receiver.ports import TryLater

MOST = 200  # characters of what an authorizer says


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource (``pods/eviction``) of an API group, empty for the core's, as RBAC has it.

    *name* is that of the one object it is needed for, empty where it is needed for any.
    """

    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


# Without one of these no node goes, or none on which any pod is that no DaemonSet put there.
TO_REMOVE = (Right("get", "", "nodes"), Right("patch", "", "nodes"), Right("create", "", "pods/eviction"))


class Access:
    """Our own rights, asked of the API server."""

    def __init__(self, api: KubernetesApi, wire: ClusterWire) -> None:
        self._api = api
        self._wire = wire

    def may(self, right: Right) -> bool:
        """True when the API server says that we have *right* in every namespace. Raises TryLater and WontWork.

        An authorizer that failed is no refusal: the server then answers "not allowed" and names the failure.
        """
        resource, _, below = right.resource.partition("/")
        asked = {"verb": right.verb, "group": right.group, "resource": resource}
        asked |= {"name": right.name} if right.name else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**asked, **({"subresource": below} if below else {})}},
        }
        status = section(self._wire.ask("create", REVIEW, self._api.creates(REVIEWS), body), "status")
        allowed, failed = status.get("allowed"), status.get("evaluationError")
        if not isinstance(allowed, bool):
            raise TryLater(f"Kubernetes did not say whether we may {right}", code="malformed")
        if failed and not allowed and status.get("denied") is not True:
            why = harmless(str(failed))[:MOST]
            raise TryLater(f"Kubernetes could not work out whether we may {right}: {why}", code="evaluation")
        return allowed

    def lacking(self, rights: Iterable[Right]) -> tuple[str, ...]:
        """Return those of *rights* that we do not have, in words. Raises as `may` does."""
        return tuple(str(right) for right in rights if not self.may(right))
