"""Calls of a cluster's API by path, JSON in and out, with the credentials of a kubeconfig."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import config

from conformance.plan import NAMESPACE

JSON = dict[str, Any]
TIMEOUT = urllib3.Timeout(connect=5, read=30)
PATCHES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
PAGE = 500


class ApiRefused(Exception):
    """The API server refused a call; *status* is HTTP's."""

    def __init__(self, method: str, path: str, status: int, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status


class Api:
    """One API server. Calls raise ApiRefused, or urllib3's HTTPError where it does not answer."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client: Any = config.new_client_from_config(str(kubeconfig))
        self._pool: urllib3.PoolManager = self._client.rest_client.pool_manager
        self.host: str = self._client.configuration.host.rstrip("/")

    def credentials(self) -> dict[str, str]:
        """Return the headers that authenticate a call; empty where a client certificate does."""
        settings = self._client.configuration.auth_settings()
        return {s["key"]: s["value"] for s in settings.values() if s["in"] == "header" and s["value"]}

    def anonymous_pool(self) -> urllib3.PoolManager:
        """Return connections that trust the API server and present no client certificate."""
        settings = self._client.configuration
        checks = "CERT_REQUIRED" if settings.verify_ssl else "CERT_NONE"
        return urllib3.PoolManager(maxsize=32, ca_certs=settings.ssl_ca_cert, cert_reqs=checks)

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: Any) -> JSON:
        """Send one call and return what it answers."""
        asked = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": kind, **self.credentials()}
        sent = None if body is None else json.dumps(body)
        answer = self._pool.request(method, asked, body=sent, headers=headers, timeout=TIMEOUT, retries=False)
        try:
            found = json.loads(answer.data or b"{}")
        except ValueError:
            found = {"message": answer.data.decode("utf-8", "replace")}
        if answer.status >= 300:
            raise ApiRefused(method, path, answer.status, str(found.get("message", "")))
        return dict(found)

    def get(self, path: str, **query: Any) -> JSON:
        """Return an object or one page of a list."""
        return self.call("GET", path, **query)

    def items(self, path: str, **query: Any) -> list[JSON]:
        """Return every object of a list."""
        found: list[JSON] = []
        while True:
            page = self.get(path, limit=PAGE, **query)
            found += page.get("items") or ()
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return found
            query = {**query, "continue": more}

    def post(self, path: str, body: Mapping[str, Any]) -> JSON:
        """Create an object."""
        return self.call("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any], kind: str = "merge") -> JSON:
        """Patch an object."""
        return self.call("PATCH", path, body, PATCHES[kind])

    def delete(self, path: str, *, at_once: bool = False) -> bool:
        """Delete an object; False where it is gone already. *at_once* waits for no kubelet."""
        options = {"propagationPolicy": "Background", **({"gracePeriodSeconds": 0} if at_once else {})}
        return gone_is_fine(lambda: self.call("DELETE", path, options))

    def may(self, verb: str, group: str, resource: str, namespace: str = "") -> bool:
        """True if the API server says that the caller has this right (a SelfSubjectAccessReview)."""
        name, _, part = resource.partition("/")
        asked = {"verb": verb, "group": group, "resource": name, "subresource": part, "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {k: v for k, v in asked.items() if v}},
        }
        answer = self.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        return bool((answer.get("status") or {}).get("allowed"))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def part(obj: Mapping[str, Any], name: str) -> JSON:
    """Return ``status``, ``spec`` or the like of an object; empty where it has none yet: a real API server creates an
    object first, and its kubelet or controller writes the status in another call."""
    return dict(obj.get(name) or {})


def gone_is_fine(call: Callable[[], object]) -> bool:
    """Make a call; False where its object is not there."""
    try:
        call()
    except ApiRefused as refused:
        if refused.status != 404:
            raise
        return False
    return True


def kubeconfig_for(host: str, token: str) -> JSON:
    """Return the content of a kubeconfig for a client with a bearer *token*, at home in the scenarios' namespace."""
    context = {"cluster": "conformance", "user": "conformance", "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "conformance",
        "clusters": [{"name": "conformance", "cluster": {"server": host}}],
        "users": [{"name": "conformance", "user": {"token": token}}],
        "contexts": [{"name": "conformance", "context": context}],
    }
