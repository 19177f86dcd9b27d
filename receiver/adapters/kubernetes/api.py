"""Calls of the Kubernetes API, by path: JSON in, JSON out, failing only as TryLater or WontWork.

The client's own classes do the same and hold every call of the API in memory, each with its documentation: 25 MB for
these. Credentials, connections and errors are still the client's.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from receiver.adapters.http.sessions import Calls, ReadPause, retry_after, shown, wire_failure
from receiver.core.model.text import harmless
from receiver.ports import Clock, TryLater, WontWork

READS = frozenset({"get", "list", "watch"})
REVIEW = "selfsubjectaccessreviews"  # created, answered and forgotten: it changes nothing
PAGE = 500  # objects per answer: bounds what the API server and we hold at once
NOT_FOUND = "http_404"
FORBIDDEN = "http_403"
GONE = "http_410"
CONFLICT = "conflict"
TOO_MANY = "http_429"
HIDE_FROM = 8  # characters; a shorter word is no credential
WORDS = 300  # characters of Kubernetes' own explanation that a message may carry

# In a strategic merge a list of taints or containers is merged by name, as the client's own default does.
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
METHODS = {  # by RBAC's verb, with the type of a body; the others are GET
    "create": ("POST", "application/json"),
    "patch": ("PATCH", STRATEGIC),
    "delete": ("DELETE", "application/json"),
}

CORE = "/api/v1/"
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
LEASES = "/apis/coordination.k8s.io/v1/leases"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
OPENAPI = "/openapi/v3/apis/{group}/{version}"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
POD_TEMPLATES = "/api/v1/podtemplates"
CONTROLLERS = "/api/v1/replicationcontrollers"
DEPLOYMENTS = "/apis/apps/v1/deployments"
REPLICA_SETS = "/apis/apps/v1/replicasets"
STATEFUL_SETS = "/apis/apps/v1/statefulsets"
JOBS = "/apis/batch/v1/jobs"
CUSTOM = "/apis/{group}/{version}/{plural}"  # of a cluster, or of all namespaces
CUSTOM_ONE = "/apis/{group}/{version}/{plural}/{name}"
CUSTOM_ONE_STATUS = "/apis/{group}/{version}/{plural}/{name}/status"
CUSTOM_STATUS = "/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}/status"

Json = Mapping[str, Any]


class MissingRightError(WontWork):
    """RBAC refuses *verb* on *resource*; *answer* is what Kubernetes said, without the remedy."""

    def __init__(self, answer: str, verb: str, resource: str) -> None:
        super().__init__(f'{answer}: grant the verb "{verb}" on "{resource}" in the ClusterRole (RBAC)', code=FORBIDDEN)
        self.answer = answer


class ClusterWire:
    """Sends one call at a time, by *calls* or their timeouts; what `Calls.before_write` raises is passed on."""

    def __init__(self, api_client: client.ApiClient, calls: Calls | tuple[float, float], clock: Clock) -> None:
        self._calls = calls = calls if isinstance(calls, Calls) else Calls(timeouts=calls)
        self.url = shown(str(api_client.configuration.host))
        self._client = api_client
        self._write_seconds = min(calls.write_seconds, sum(calls.timeouts))
        self._clock = clock
        self._pause = ReadPause()
        self.wrote: Callable[[str, Json | None], None] = lambda _, __: None

    def ask(self, verb: str, resource: str, path: str, *parts: Any, content: str | None = None, **options: Any) -> Json:
        """Return the decoded answer of a call; *verb* and *resource* are RBAC's words for it.

        *parts* are what stands in the braces of *path*, in that order, then a body, of type *content* if it is not the
        verb's usual one. *options* are the API's own, in snake case with an underscore before Python's words
        (``_continue``).

        Raises WontWork with code ``http_404`` when the object is not there, TryLater with ``conflict`` when it
        changed meanwhile and with ``http_429`` when something (a PodDisruptionBudget, load) asks to wait. Nothing is
        read before the time that the server named is over.
        """
        writes = not _reads(verb, resource)
        if not writes:
            self._pause.check(resource)
        if writes:
            self._calls.before_write()
        try:
            with self._understood(verb, resource, path):
                limit = self._write_seconds if writes else self._calls.timeouts
                response = self._send(verb, path, parts, options, limit, content)
                decoded = json.loads(self._blotted(response.data))
            if not isinstance(decoded, dict):
                raise TryLater(f"Kubernetes' answer to {verb} {resource} is not understood", code="malformed")
        except TryLater:  # it may have been done all the same
            if writes:
                self.wrote(resource, None)
            raise
        if writes and "dry_run" not in options:
            self.wrote(resource, None if verb == "delete" else decoded)
        return decoded

    def find(self, resource: str, path: str, *parts: str) -> Json | None:
        """Return the object at *path*, None when it is not there. Raises as `ask` does."""
        try:
            return self.ask("get", resource, path, *parts)
        except WontWork as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def watch(
        self,
        resource: str,
        path: str,
        parts: Sequence[str],
        opened: Callable[[Any], None],
        seconds: int,
        silence: float,
        **options: object,
    ) -> Iterator[Json]:
        """Yield the events of a watch as they come, with their objects as JSON, until the server ends it. *opened*
        is given the response as soon as its head is there. The server ends it after *seconds*. Raises as `ask` does,
        with ``http_410`` for a version that is forgotten, and ``timeout`` when nothing comes for *silence* seconds."""

        def asked(_preload_content: bool, **query: object) -> object:  # undocumented: a docstring would name a model
            response = self._send("watch", path, parts, query, (self._calls.timeouts[0], silence))
            opened(response)
            return response

        self._pause.check(resource)
        stream: Any = Watch().stream
        with (
            self._understood("watch", resource, path),
            closing(stream(asked, timeout_seconds=seconds, **options)) as events,
        ):
            try:
                for event in events:
                    yield dict(event)
            except (TypeError, LookupError, AttributeError) as error:  # lines that are no event
                raise ValueError("no event") from error

    def every(self, resource: str, path: str, *parts: str, **options: Any) -> list[Json]:
        return self.listed(resource, path, *parts, **options)[0]

    def listed(
        self, resource: str, path: str, *parts: str, view: Callable[[Json], Any] | None = None, **options: Any
    ) -> tuple[list[Any], str]:
        """Return every object of a list, and the version to watch it from (empty: none was given). *view* is applied
        page by page, so that no more than a page is held of what it leaves out. No ``resourceVersion`` is sent: the
        API server then answers with what is true now (quorum), not from a cache."""
        objects: list[Any] = []
        version, cursor = "", dict[str, str]()
        while True:
            page = self.ask("list", resource, path, *parts, limit=PAGE, **cursor, **options)
            if not isinstance(page.get("items"), list):
                raise TryLater(f"Kubernetes' answer to list {resource} is not understood: no items", code="malformed")
            objects += entries(page, "items") if view is None else map(view, entries(page, "items"))
            metadata = section(page, "metadata")
            version = version or text(metadata, "resourceVersion")
            token = text(metadata, "continue")
            if not token:
                return objects, version
            if token == cursor.get("_continue"):  # the same page for ever
                raise TryLater(f"Kubernetes' answer to list {resource} never ends", code="malformed")
            cursor = {"_continue": token}

    def _send(
        self,
        verb: str,
        path: str,
        parts: Sequence[Any],
        options: Mapping[str, Any],
        timeouts: tuple[float, float] | float,
        content: str | None = None,
    ) -> Any:
        """Return urllib3's response, unread. Raises ApiException for a status other than 2xx."""
        names = re.findall(r"{(\w+)}", path)
        body = parts[len(names)] if len(parts) > len(names) else None
        method, usual = METHODS.get(verb, ("GET", ""))
        headers = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": content or usual})
        request = self._client.param_serialize(
            method=method,
            resource_path=path,
            path_params=dict(zip(names, parts, strict=False)),
            query_params=[(_camel(name), value) for name, value in options.items() if value is not None],
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        answer: Any = self._client.call_api(*request, _request_timeout=timeouts)
        if not 200 <= answer.status <= 299:
            answer.read()
            raise ApiException.from_response(http_resp=answer, body=None, data=None)
        return answer.response

    @contextmanager
    def _understood(self, verb: str, resource: str, path: str) -> Iterator[None]:
        try:
            yield
        except ApiException as error:
            refusal = self._refusal(error, verb, resource)
            if isinstance(refusal, TryLater) and _reads(verb, resource):
                # Other groups may be served by a program of their own, or not yet.
                self._pause.begin(refusal, ReadPause.EVERYTHING if path.startswith(CORE) else resource)
            raise refusal from error
        except (HTTPError, OSError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(
                f"request to Kubernetes at {self.url} failed ({verb} {resource}): {phrase}", code=code
            ) from error
        except (ValueError, RecursionError) as error:  # no JSON, or brackets without end
            detail = f"Kubernetes at {self.url} returned invalid JSON ({verb} {resource})"
            raise TryLater(detail, code="malformed") from error

    def _blotted(self, answer: bytes) -> bytes:
        """*answer* without the credentials that were sent: a gateway puts the headers that it got into its errors.
        They are asked for each time, because a service account's token changes while the program runs."""
        for sent in self._client.configuration.api_key.values():
            for secret in dict.fromkeys((str(sent), str(sent).rpartition(" ")[2])):
                if len(secret) >= HIDE_FROM:
                    answer = answer.replace(secret.encode(), b"***")
        return answer

    def _refusal(self, error: ApiException, verb: str, resource: str) -> TryLater | WontWork:
        status = error.status or 0
        explanation = self._blotted(_explanation(error).encode()).decode()
        excerpt = explanation[:WORDS]
        detail = f"Kubernetes API: {verb} {resource} failed: {status} {excerpt}".rstrip()
        delay = retry_after(error.headers, self._clock.now())
        if status == 401:
            remedy = "put a valid token or certificate into KUBECONFIG, or mount the service account's token"
            return WontWork(f"{detail}: {remedy}", code="http_401")
        if status == 403:
            return MissingRightError(detail, verb, resource) if _DENIED_BY_RBAC.match(explanation) else _denied(detail)
        if status == 409:
            return TryLater(detail, code=CONFLICT, delay=delay)
        if status in (0, 408, 410, 429) or status >= 500:
            return TryLater(detail, code=f"http_{status}" if status else "unreachable", delay=delay)
        return WontWork(detail, code=f"http_{status}")


def _denied(detail: str) -> WontWork:
    """What no right changes: a webhook's answer, a quota, a namespace that is being deleted."""
    return WontWork(detail, code="denied")


# A webhook, a quota and a namespace that is being deleted answer 403 too, in words of their own.
_DENIED_BY_RBAC = re.compile(
    r'(?!.*denied (?:the )?request)(?:.*\bcannot [a-z]+ (?:resource|path) "|.*\bUser "[^"]*" cannot [a-z]+\b)'
)


def _reads(verb: str, resource: str) -> bool:
    return verb in READS or resource == REVIEW


def _explanation(error: ApiException) -> str:
    try:
        body = json.loads(error.body or "")
    except (ValueError, TypeError):
        return harmless(str(error.reason or ""))
    body = body if isinstance(body, dict) else {}
    causes = [cause.get("message") for cause in entries(section(body, "details"), "causes")]
    messages = [harmless(" ".join(text.split())) for text in (body.get("message"), *causes) if isinstance(text, str)]
    return "; ".join(messages) if messages else harmless(str(error.reason or ""))


def section(raw: Json, name: str) -> Json:
    """Return the object under *name*, empty when it is absent or null."""
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def entries(raw: Json, name: str) -> list[Json]:
    """Return the list of objects under *name*, empty when it is absent or null."""
    value = raw.get(name)
    return [e for e in value if isinstance(e, dict)] if isinstance(value, list) else []


def text(raw: Json, name: str) -> str:
    """Return what is under *name* as text, empty when it is absent or null."""
    return str(raw.get(name) or "")


def words(raw: Json, name: str) -> dict[str, str]:
    """Return the string map under *name* (labels, annotations, a node selector)."""
    return {str(k): str(v) for k, v in section(raw, name).items()}


def key_of(raw: Json) -> str:
    """Return ``namespace/name``."""
    metadata = section(raw, "metadata")
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"


def condition(status: Json, *kinds: str, holds: str = "True") -> Json:
    """Return the first condition of an object's *status* that is of one of *kinds* and *holds*, empty without one."""
    conditions = entries(status, "conditions")
    return next((c for c in conditions if c.get("type") in kinds and c.get("status") == holds), {})


def controller_of(metadata: Json) -> Json:
    """Return the ownerReference of the object's controller, empty when it has none."""
    return next((o for o in entries(metadata, "ownerReferences") if o.get("controller") is True), {})


def versioned(raw: Json) -> dict[str, str]:
    """Return the metadata that makes a change of *raw* a conflict once it is not as it was read any more."""
    version = text(section(raw, "metadata"), "resourceVersion")
    return {"resourceVersion": version} if version else {}


def _camel(option: str) -> str:
    """``_continue`` is ``continue``, ``label_selector`` is ``labelSelector``."""
    first, *words = option.strip("_").split("_")
    return first + "".join(word.capitalize() for word in words)


class ClusterPart:
    """What every part of `KubernetesCluster` uses."""

    _wire: ClusterWire
