"""Whatever Alertmanager, Civo, Kubernetes, Prometheus or the file say: an answer or the errors that are promised, and
nothing else.

Every document here was right and was changed in some places, or some bytes of it were. `make laws` tries fifty times as
many.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.kubernetes.pods import READERS, VOLCANO_ANNOTATIONS
from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.adapters.monitoring.prometheus import PrometheusTelemetry
from receiver.config import ConfigError, load_text
from receiver.ports import GANG_ANNOTATION, TryLater, WontWork, alert_payload
from tests.adapters.civo.answers import CLUSTER, KEY, POOL, an_instance
from tests.adapters.civo.answers import a_pool as a_civo_pool
from tests.adapters.kubernetes.custom_objects import (
    KUEUE,
    VOLCANO_GROUPS,
    VOLCANO_QUEUES,
    a_group,
    a_queue,
    a_workload,
    of_gpus,
)
from tests.adapters.kubernetes.group_objects import (
    JOB_SETS,
    LWS,
    POD_GROUPS,
    WORKER_SETS,
    a_job_set,
    a_pod_group,
    a_replicated_job,
    a_worker_set,
    gang_of,
    in_job_set,
    in_pod_group,
    in_worker_set,
)
from tests.adapters.kubernetes.kubernetes_objects import a_cluster_at, a_list, a_node, a_pod
from tests.fuzz.mutations import ODD_TEXTS, garbled, mutated
from tests.web.builders import a_payload

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
EXAMPLE = Path(__file__).parents[2] / "docs" / "configuration.md"
CIVO = {
    "id": CLUSTER,
    "required_pools": [{"id": POOL, "size": "an.g1.l40s.kube.x1", "count": 2}],
    "pools": [a_civo_pool(an_instance(1), an_instance(2, created_at=None))],
}
INSTANCES = {"items": [an_instance(1), an_instance(2)]}
CHARGES = [
    {"code": "an.g1.l40s.kube.x1", "label": "k3s-demo", "from": "2026-11-20T10:00:00Z", "to": None, "num_hours": 2},
    {"code": "volume", "label": "x", "num_hours": "1.5", "size_gb": 20, "nodes": 1},
]
A_POD = {
    "metadata": {
        "name": "train-0",
        "namespace": "ml",
        "uid": "u1",
        "creationTimestamp": "2026-11-20T10:00:00Z",
        "labels": {"team": "vision"},
        "annotations": {"gpu-autoscaler.io/gang": "g", "gpu-autoscaler.io/keep-until": "2026-11-21T10:00:00Z"},
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "u2", "controller": True}],
    },
    "spec": {
        "nodeName": "gpu-1",
        "priority": 7,
        "nodeSelector": {"gpu": "on-demand"},
        "containers": [{"resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "500m"}}}],
        "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 30}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
    },
    "status": {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}],
    },
}
FIRING = [
    {
        "fingerprint": "f",
        "labels": {"alertname": "GpuPodsPending", "action": "scale_up", "component": "gpu-autoscaler"},
        "annotations": {"summary": "s"},
        "startsAt": "2026-11-20T10:00:00Z",
        "status": {"state": "suppressed", "silencedBy": ["s1"], "inhibitedBy": []},
    }
]
SILENCES = [
    {
        "id": "s1",
        "status": {"state": "active"},
        "matchers": [{"name": "pool", "value": "l40s", "isRegex": True, "isEqual": True}],
        "startsAt": "2026-11-20T10:00:00Z",
        "endsAt": "2026-11-20T18:00:00Z",
        "createdBy": "ada",
        "comment": "c",
    }
]
VECTOR = {
    "status": "success",
    "data": {"resultType": "vector", "result": [{"metric": {"pool": "a", "exported_pod": "p"}, "value": [1.5, "0.7"]}]},
}
MANY = (settings.default or settings()).max_examples // 3  # a third of what is usual, also where the usual is many
quick = settings(max_examples=MANY, suppress_health_check=[HealthCheck.too_slow], deadline=None)


class Answers(requests.Session):
    """A session that answers *bodies*, one after the other and the last for ever, whatever is asked."""

    def __init__(self, *bodies: bytes, status: int = 200) -> None:
        super().__init__()
        self._bodies, self._status = list(bodies), status

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        """Answer without a wire."""
        response = requests.Response()
        response.status_code, response.request, response.url = self._status, request, str(request.url)
        response._content = self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]
        return response


def said(document: Any) -> bytes:
    """*document* as JSON; what UTF-8 cannot say is escaped."""
    return json.dumps(document).encode()


def either(document: Any) -> st.SearchStrategy[bytes]:
    """*document* changed as a value or as bytes."""
    return mutated(document).map(said) | garbled(said(document))


def civo(*bodies: bytes, status: int = 200) -> CivoCloud:
    """Civo's adapter on these answers."""
    return CivoCloud("http://civo.test", KEY, "LON1", CLUSTER, session=Answers(*bodies, status=status))


def refused_in_words(ask: Callable[[], Any]) -> Any:
    """Return what *ask* says, None when it refuses as promised."""
    with suppress(TryLater, WontWork):
        return ask()
    return None


@quick
@given(either(CIVO), either(INSTANCES))
def test_a_cluster_that_is_odd_is_pools_or_a_refusal(cluster: bytes, instances: bytes) -> None:
    for pool in (refused_in_words(civo(cluster, instances).look) or {}).values():
        assert 0 <= pool.required < 2**31
        assert all(i.id and (i.created_at is None or i.created_at.tzinfo) for i in pool.instances)
        "".join([pool.id, pool.size, *(text for i in pool.instances for text in (i.id, i.hostname, i.status))]).encode()


@quick
@given(either(CHARGES))
def test_charges_that_are_odd_are_charges_or_a_refusal(charges: bytes) -> None:
    found = refused_in_words(lambda: civo(charges).charges(NOW - timedelta(days=3), NOW))
    assert found is None or all(c.hours is None or c.hours >= 0 for c in found.records)


@quick
@given(either({"code": "x", "reason": "r", "details": "d", "status": 500}), st.sampled_from([302, 401, 403, 429, 503]))
def test_a_refusal_of_any_form_is_a_refusal(body: bytes, status: int) -> None:
    with pytest.raises((TryLater, WontWork)) as refused:
        civo(body, status=status).look()
    assert len(str(refused.value)) < 1200


@quick
@given(either(FIRING), either(SILENCES))
def test_alertmanagers_that_are_odd_say_something_or_nothing(firing: bytes, silences: bytes) -> None:
    alarms = AlertmanagerAlarms(["http://alerts.test"], session=Answers(firing, silences))
    refused_in_words(alarms.look)


@quick
@given(either(VECTOR))
def test_a_prometheus_that_is_odd_says_something_or_nothing(answer: bytes) -> None:
    telemetry = PrometheusTelemetry("http://prometheus.test")
    telemetry._prometheus._session = Answers(answer)
    refused_in_words(telemetry.look)


class Api:
    """An API server that answers what it was told, without a wire."""

    status, reason = 200, ""

    def __init__(self) -> None:
        self.nodes = self.pods = self.data = b""
        self.custom: dict[str, bytes] = {}  # lists of custom resources, by the end of their paths
        self.response = self

    def call_api(self, *request: Any, **_: Any) -> "Api":
        """Answer one request."""
        path = urlsplit(str(request[1])).path
        known = self.nodes if path.endswith("/nodes") else self.pods
        self.data = known if path.startswith("/api/") else self.custom.get(path, said(a_list()))
        return self

    def read(self, *_: Any, **__: Any) -> bytes:
        """The body of the answer."""
        return self.data


@cache
def a_cluster(*, queues: bool = False) -> tuple[KubernetesCluster, Api]:
    """A cluster's adapter, and what answers it; one that reads *queues* or does not."""
    api, cluster = Api(), a_cluster_at("http://127.0.0.1:1", kueue_queued=queues, volcano_podgroups=queues)
    cluster._wire._client.call_api = api.call_api
    return cluster, api


@quick
@given(either(a_list(a_node())), either(a_list(A_POD)))
def test_a_cluster_whose_objects_are_odd_says_something_or_nothing(nodes: bytes, pods: bytes) -> None:
    cluster, api = a_cluster()
    api.nodes, api.pods = nodes, pods
    refused_in_words(cluster.look)


ANNOTATIONS = st.dictionaries(st.sampled_from([*READERS, GANG_ANNOTATION, *VOLCANO_ANNOTATIONS]), ODD_TEXTS)
EXPRESSIONS = st.fixed_dictionaries(
    {"key": ODD_TEXTS, "operator": st.sampled_from(["In", "Gt"]), "values": st.lists(ODD_TEXTS, max_size=2)}
)


@quick
@given(ANNOTATIONS, ODD_TEXTS, EXPRESSIONS, st.sampled_from(["1", "9223372036854775807", "1e18", "12Ei"]))
def test_what_kubernetes_lets_whoever_writes_pods_say_hides_nobody_elses_pods(
    annotations: dict[str, str], name: str, expression: dict[str, Any], gpus: str
) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    odd = a_pod(
        "odd",
        annotations=annotations,
        ownerReferences=[{"apiVersion": "x/v1", "kind": name or "x", "name": name, "uid": name, "controller": True}],
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        containers=[{"resources": {"requests": {"nvidia.com/gpu": gpus}}}],
    )
    cluster, api = a_cluster()
    api.nodes, api.pods = said(a_list(a_node())), said(a_list(odd, a_pod()))
    found = {pod.key: pod for pod in cluster.look().pods}
    assert found.keys() == {"ml/odd", "ml/train-0"}
    assert len(found["ml/odd"].owner) < 600
    assert len(found["ml/odd"].gang or "") < 600


@quick
@given(mutated(a_workload("odd")), mutated(a_group("odd", minResources=of_gpus(2))))
def test_an_odd_object_in_a_queue_hides_nobody_elses(workload: Any, group: Any) -> None:
    cluster, api = a_cluster(queues=True)
    api.nodes, api.pods = said(a_list(a_node())), said(a_list())
    api.custom = {
        KUEUE: said(a_list(workload, a_workload("w"))),
        VOLCANO_GROUPS: said(a_list(group, a_group("pg", minResources=of_gpus(2)))),
        VOLCANO_QUEUES: said(a_list(a_queue())),
    }
    assert {"ml/w", "ml/pg"} <= {pod.gang for pod in cluster.look().pods}


AFTER_HEAD = [{"name": "head", "status": "Ready"}]


@quick
@given(
    mutated(a_pod_group(gang_of(2))),
    mutated(a_job_set(a_replicated_job("head"), a_replicated_job("workers", 2, after=AFTER_HEAD), status=[{}])),
    mutated(a_worker_set(3)),
    st.one_of(ODD_TEXTS, st.just("999999999")),
)
def test_an_odd_object_behind_a_gang_hides_no_pod(group: Any, job_set: Any, worker_set: Any, size: str) -> None:
    cluster, api = a_cluster()
    leader = in_worker_set(size=3, annotations={f"{LWS}size": size})
    pods = [in_pod_group("p-0"), in_job_set("h-0", "head"), leader, in_worker_set(size=3, group=1)]
    api.nodes, api.pods = said(a_list(a_node())), said(a_list(*pods))
    api.custom = {
        POD_GROUPS.format("v1beta1"): said(a_list(group)),
        JOB_SETS: said(a_list(job_set)),
        WORKER_SETS: said(a_list(worker_set)),
    }
    found = {pod.key for pod in cluster.look().pods}
    assert found >= {"ml/p-0", "ml/h-0", "ml/llama-0", "ml/llama-1"}
    assert len(found) < 1_100


@quick
@given(either(a_payload()))
def test_a_payload_that_is_odd_is_a_delivery_that_can_be_kept_or_bad(body: bytes) -> None:
    with suppress(alert_payload.BadPayload):
        delivery = alert_payload.parse(body, received_at=NOW, pools=("a",))
        said_by = [delivery.receiver, delivery.group_key, *delivery.warnings]
        said_by += [text for a in delivery.alerts for text in (*a.labels.values(), *a.annotations.values())]
        "".join(said_by).encode()  # no database refuses it
        assert "\x00" not in "".join(said_by)
        assert all(NOW - timedelta(days=401) < a.starts_at <= NOW + timedelta(minutes=5) for a in delivery.alerts)


def _example() -> bytes:
    text = EXAMPLE.read_text(encoding="utf-8")
    return text.split("```yaml\n", 1)[1].split("```", 1)[0].encode()


@quick
@given(garbled(_example()))
def test_a_file_that_is_odd_is_a_configuration_or_a_list_of_mistakes(content: bytes) -> None:
    with suppress(ConfigError):
        load_text(content.decode("utf-8", "replace"))
