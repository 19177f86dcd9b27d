"""The calls of the Kubernetes API that we make, by path.

The client's own classes do the same and hold every call of the API in memory, each with its documentation: 25 MB for
these. Credentials, connections and errors are still the client's.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

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
