"""The calls of the Kubernetes API that we make, by path.

The client's own classes do the same and hold every call of the API in memory, each with its documentation: 25 MB for
these. Credentials, connections and errors are still the client's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from receiver.adapters.http.remarks import Remarks
from receiver.adapters.kubernetes.wire import NOT_FOUND, ClusterWire
from receiver.ports import Clock, TryLater, WontWork

# What a list of taints or containers in the change stands for is merged by name, as the client's own default does.
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
CREDENTIALS = ["BearerToken"]

NODES = "/api/v1/nodes"
NODE = "/api/v1/nodes/{name}"
PODS = "/api/v1/pods"
PODS_OF = "/api/v1/namespaces/{namespace}/pods"
POD = "/api/v1/namespaces/{namespace}/pods/{name}"
EVICTION = "/api/v1/namespaces/{namespace}/pods/{name}/eviction"
EVENTS_OF = "/api/v1/namespaces/{namespace}/events"
BUDGETS_OF = "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
QUOTAS = "/api/v1/resourcequotas"
QUOTAS_OF = "/api/v1/namespaces/{namespace}/resourcequotas"
QUOTA = "/api/v1/namespaces/{namespace}/resourcequotas/{name}"
DEPLOYMENT = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
STATEFUL_SET = "/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}"
REPLICA_SET = "/apis/apps/v1/namespaces/{namespace}/replicasets/{name}"
JOB = "/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CUSTOM = "/apis/{group}/{version}/{plural}"  # of a cluster, or of all namespaces
CUSTOM_ONE = "/apis/{group}/{version}/{plural}/{name}"


class KubernetesApi:
    """Calls through *api_client*. Each takes the parts of its path in the order in which they stand there, then a body.

    Options are the API's own, in snake case with an underscore before Python's words (``_continue``). They return
    urllib3's response, unread; ApiException for a status other than 2xx.
    """

    def __init__(self, api_client: client.ApiClient) -> None:
        self._client = api_client

    def reads(self, path: str) -> Callable[..., Any]:
        """Return the call that gets the object or list at *path*, such as ``/api/v1/nodes/{name}``."""
        return self._call("GET", path)

    def creates(self, path: str) -> Callable[..., Any]:
        """Return the call that posts its last argument to *path*."""
        return self._call("POST", path, "application/json")

    def patches(self, path: str, kind: str = STRATEGIC) -> Callable[..., Any]:
        """Return the call that changes the object at *path* by its last argument, a patch of *kind*."""
        return self._call("PATCH", path, kind)

    def deletes(self, path: str) -> Callable[..., Any]:
        """Return the call that deletes the object at *path*, on the conditions that its last argument may give."""
        return self._call("DELETE", path, "application/json")

    def _call(self, method: str, path: str, content: str | None = None) -> Callable[..., Any]:
        names = [part.partition("}")[0] for part in path.split("{")[1:]]

        def call(*given: Any, _request_timeout: Any = None, _preload_content: bool = False, **options: Any) -> Any:
            assert not _preload_content  # nothing here knows the models
            parts, body = given[: len(names)], given[len(names) :]
            return self._send(
                method,
                path,
                dict(zip(names, parts, strict=True)),
                body[0] if body else None,
                {_camel(name): value for name, value in options.items() if value is not None},
                content if body else None,
                _request_timeout,
            )

        return call

    def _send(
        self,
        method: str,
        path: str,
        parts: Mapping[str, str],
        body: object,
        query: Mapping[str, Any],
        content: str | None,
        timeout: object,
    ) -> Any:
        headers = {"Accept": "application/json", **({"Content-Type": content} if content else {})}
        request = self._client.param_serialize(
            method=method,
            resource_path=path,
            path_params=dict(parts),
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=CREDENTIALS,
        )
        answer: Any = self._client.call_api(*request, _request_timeout=timeout)
        if not 200 <= answer.status <= 299:
            answer.read()
            raise ApiException.from_response(http_resp=answer, body=None, data=None)
        return answer.response


def _camel(option: str) -> str:
    """``_continue`` is ``continue``, ``label_selector`` is ``labelSelector``."""
    first, *rest = option.strip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


ASK_AGAIN = timedelta(minutes=10)  # after this long a resource that was not installed may have come


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A resource by RBAC's words; *versions* are those whose shape we know, the one to try first at the head."""

    group: str
    plural: str
    versions: tuple[str, ...]

    @property
    def name(self) -> str:
        """``workloads.kueue.x-k8s.io``, as kubectl takes it."""
        return f"{self.plural}.{self.group}"


class CustomResources:
    """Reads whole lists over all namespaces."""

    def __init__(self, wire: ClusterWire, api: KubernetesApi, clock: Clock, remarks: Remarks) -> None:
        self._wire = wire
        self._api = api
        self._clock = clock
        self._remarks = remarks
        self._served: dict[ResourceKind, str] = {}
        self._absent: dict[ResourceKind, datetime] = {}

    def every(self, kind: ResourceKind, **options: str) -> list[Mapping[str, Any]]:
        """Return every object of *kind*, in the version that is served; *options* are the API's own.

        Raises WontWork with code ``http_404`` where none is, and as `ClusterWire.every` otherwise.
        """
        known = self._served.get(kind)
        for version in sorted(kind.versions, key=lambda v: v != known):
            call = partial(self._api.reads(CUSTOM), kind.group, version, kind.plural)
            try:
                found = self._wire.every(kind.name, call, **options)
            except WontWork as error:
                if error.code != NOT_FOUND:
                    raise
                continue
            self._served[kind] = version
            return found
        raise WontWork(f"Kubernetes does not serve {kind.name} ({', '.join(kind.versions)})", code=NOT_FOUND)

    def patch(self, kind: ResourceKind, name: str, change: Mapping[str, Any]) -> None:
        """Apply a merge patch to the cluster-wide object *name* of *kind*, in the version that `every` found served."""
        version = self._served.get(kind, kind.versions[0])
        call = self._api.patches(CUSTOM_ONE, MERGE)
        self._wire.ask("patch", kind.name, call, kind.group, version, kind.plural, name, dict(change))

    def if_readable(self, kind: ResourceKind, without: str) -> list[Mapping[str, Any]] | None:
        """Return every object of *kind*, or None where they cannot be read; never raises.

        For a failure a warning says what is lost *without* them.
        """
        try:
            return self.if_allowed(kind, without)
        except TryLater as error:
            self._remarks.warn("custom resources not read", f"{error}; {without}")
            return None

    def if_allowed(self, kind: ResourceKind, without: str, **options: str) -> list[Mapping[str, Any]] | None:
        """Return every object of *kind*, or None where it is not installed or we may not list it. Raises TryLater.

        A kind that is not installed is asked for again after ten minutes. For any other refusal a warning says what is
        lost *without* them.
        """
        now = self._clock.now()
        absent_since = self._absent.get(kind)
        if absent_since is not None and now - absent_since < ASK_AGAIN:
            return None
        self._absent.pop(kind, None)
        try:
            return self.every(kind, **options)
        except WontWork as error:
            if error.code == NOT_FOUND:
                self._absent[kind] = now
            else:
                self._remarks.warn("custom resources not read", f"{error}; {without}")
            return None

    def warn(self, event: str, detail: str) -> None:
        """Log what is odd about what was read, once an hour."""
        self._remarks.warn(event, detail)
