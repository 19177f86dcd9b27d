"""Civo's answers as tests need them: valid defaults with secrets inside, say only what matters."""

from collections.abc import Mapping
from typing import Any

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import Calls

KEY = "key-that-must-stay-secret"
PASSWORD = "password-that-must-stay-secret"
TOKEN = "token-that-must-stay-secret"
KUBECONFIG = "kubeconfig-that-must-stay-secret"
SECRETS = (KEY, PASSWORD, TOKEN, KUBECONFIG)
CLUSTER = "c1u57e40-0000-4000-8000-000000000001"
POOL = "90010000-0000-4000-8000-000000000001"
CLUSTER_PATH = f"/v2/kubernetes/clusters/{CLUSTER}"
POOL_PATH = f"{CLUSTER_PATH}/pools/{POOL}"
SIZE = "an.g1.l40s.kube.x1"


def a_cloud(url: str, *, key: str = KEY, read_timeout: float = 60) -> CivoCloud:
    """Return the adapter under test, pointed at *url*."""
    return CivoCloud(url, key, "LON1", CLUSTER, calls=Calls(timeouts=(1.0, read_timeout)))


def an_instance(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return an instance as Civo lists it inside a pool."""
    fields = {
        "id": f"1n57a4ce-0000-4000-8000-{number:012d}",
        "hostname": f"k3s-demo-1a2b-3c4d5e-node-pool-9f00-{number:05d}",
        "size": SIZE,
        "status": "ACTIVE",
        "created_at": "2026-11-20T10:00:00Z",
        "initial_password": PASSWORD,
        "civostatsd_token": TOKEN,
    }
    return {k: v for k, v in {**fields, **changes}.items() if v is not None}


def a_pool(*instances: Mapping[str, Any], pool: str = POOL, **changes: Any) -> dict[str, Any]:
    """Return an entry of ``pools[]``."""
    names = [i["hostname"] for i in instances if "hostname" in i]
    return {
        "id": pool,
        "count": len(instances),
        "size": SIZE,
        "instance_names": names,
        "instances": list(instances),
        **changes,
    }


def a_cluster(required: Mapping[str, int] | None = None, pools: tuple[Mapping[str, Any], ...] = ()) -> dict[str, Any]:
    """Return the cluster object; *required* are the counts of ``required_pools`` by pool id."""
    wanted = {POOL: 0} if required is None else required
    return {
        "id": CLUSTER,
        "name": "demo",
        "status": "ACTIVE",
        "kubeconfig": KUBECONFIG,
        "required_pools": [{"id": p, "size": SIZE, "count": n} for p, n in wanted.items()],
        "pools": list(pools),
    }
