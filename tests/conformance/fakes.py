"""An API server in memory, for what the scenarios create there."""

from decimal import Decimal
from typing import Any

from conformance.kubernetes_api import Api, ApiRefused
from conformance.suite import Ceiling

PODS = "/api/v1/namespaces/ml/pods"
FREE_CEILING = Ceiling(None, Decimal(0))


class FakeApi(Api):
    """An API server that keeps objects by path and merges patches; it schedules nothing."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    def _at(self, path: str) -> dict[str, Any]:
        if path not in self.objects:
            raise ApiRefused("GET", path, 404, "not found")
        return self.objects[path]

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: Any) -> Any:
        match method:
            case "POST":
                if body["kind"] == "TokenRequest":
                    return {"status": {"token": f"token of {path.rpartition('/')[0]}"}}
                self.objects[f"{path}/{body['metadata']['name']}"] = body
            case "PATCH":
                found = self._at(path.removesuffix("/status"))
                for part, content in body.items():
                    found[part] = {**found.get(part, {}), **content}
            case "DELETE":
                self._at(path)
                del self.objects[path]
            case "GET":
                at = str(query.get("fieldSelector", "")).removeprefix("spec.nodeName=")
                pods = [o for p, o in self.objects.items() if "/pods/" in p]
                return {"items": [p for p in pods if at in ("", p["spec"].get("nodeName"))]}
        return {}

    def add_pod(self, name: str, node: str, **annotations: str) -> None:
        self.objects[f"{PODS}/{name}"] = {
            "metadata": {"name": name, "namespace": "ml", "uid": name, "annotations": annotations},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "pause"}]},
            "status": {"phase": "Pending"},
        }

    def phase(self, name: str) -> str:
        return str(self.objects[f"{PODS}/{name}"]["status"]["phase"])
