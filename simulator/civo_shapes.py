"""Clusters, pools, instances, quota and charges as Civo's API shows them, secrets and oddities included.

Shapes follow the official client (civogo ``kubernetes.go``, ``pool.go``, ``quota.go``, ``charge.go``).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from receiver.core.model.policy import Taint
from receiver.replay.world.objects import VM, CivoPool, WorldCharge
from simulator.kubernetes_objects import address_of, stamp, uid_of
from simulator.live import Live
from simulator.world import World

JSON = dict[str, Any]
# Recognizable stand-ins for what must never reach a log.
SHOWN_PASSWORD = "SECRET-initial-password"  # noqa: S105 (fake)
SHOWN_STATSD = "SECRET-civostatsd-token"
SHOWN_KUBECONFIG = "apiVersion: v1\nkind: Config\nusers: [{name: demo, user: {token: SECRET-kubeconfig-token}}]\n"
ENDLESS = 1_000_000
OTHER_QUOTAS: Mapping[str, tuple[int, int]] = {
    "disk_volume_count": (64, 2),
    "disk_snapshot_count": (48, 0),
    "public_ip_address": (16, 1),
    "subnet_count": (10, 1),
    "network_count": (10, 1),
    "security_group": (16, 1),
    "security_group_rule": (160, 5),
    "port_count": (32, 2),
    "loadbalancer_count": (16, 1),
    "objectstore_gb": (1000, 0),
    "database_count": (4, 0),
    "database_snapshot_count": (20, 0),
    "database_cpu_core": (120, 0),
    "database_ram_mb": (65536, 0),
    "database_disk_gb": (800, 0),
}


def cluster_json(live: Live, world: World) -> JSON:
    """Return the cluster: a pool at zero is in ``required_pools`` only."""
    config = world.config
    existing = [p for p in world.pools.values() if p.instances or p.required]
    settled = all(len(p.instances) == p.required for p in world.pools.values())
    first = next(iter(world.pools.values()), None)
    address = address_of(config.cluster_id, "74.220")
    return {
        "id": config.cluster_id,
        "name": config.cluster_name,
        "generated_name": config.cluster_name,
        "version": "2",
        "status": world.cluster_status,
        "ready": True,
        "cluster_type": "k3s",
        "num_target_nodes": world.shown_count(first.id) if first else 0,
        "target_nodes_size": first.size if first else "",
        "built_at": stamp(live.started_at),
        "kubeconfig": SHOWN_KUBECONFIG,
        "kubernetes_version": "1.32.5-k3s1",
        "api_endpoint": f"https://{address}:6443",
        "master_ip": address,
        "dns_entry": f"{config.cluster_id}.k8s.civo.com",
        "network_id": uid_of(config.cluster_id, "network"),
        "namespace": f"cust-default-{config.cluster_id[:8]}",
        "firewall_id": uid_of(config.cluster_id, "firewall"),
        "region": config.region.lower(),
        "tags": [],
        "created_at": stamp(live.started_at),
        "cni_plugin": "flannel",
        "ccm_installed": "true",
        "volume_type": "",
        "instances": [instance for p in existing for instance in instances_json(live, p)],
        "pools": [{**pool_json(p, count=len(p.instances)), "instances": instances_json(live, p)} for p in existing],
        "required_pools": [
            _lacking(live, p, _required(p, world.shown_count(p.id)), "count") for p in world.pools.values()
        ],
        "installed_applications": [],
        "conditions": [
            _condition("ControlPlaneReady", True, live.started_at),
            _condition("WorkerNodesReady", settled, world.now),
            _condition("ClusterVersionSync", True, live.started_at),
        ],
    }


def _condition(kind: str, holds: bool, since: datetime) -> JSON:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "synced": holds,
        "last_transition_time": stamp(since),
        "reason": kind if holds else "Scaling",
        "message": "",
    }


def _required(pool: CivoPool, count: int) -> JSON:
    return {
        "id": pool.id,
        "size": pool.size,
        "count": count,
        "labels": dict(pool.labels),
        "annotations": {},
        "taints": [taint_json(t) for t in pool.taints],
        "public_ip_node_pool": False,
    }


def pool_json(pool: CivoPool, *, count: int) -> JSON:
    """Return a pool with *count*, which may be what is asked for or what exists; empty labels are left out."""
    return {
        "id": pool.id,
        "count": count,
        "size": pool.size,
        "instance_names": [vm.hostname for vm in pool.instances],
        "instances": [instance_json(vm) for vm in pool.instances],
        "public_ip_node_pool": False,
        **({"labels": dict(pool.labels)} if pool.labels else {}),
        **({"taints": [taint_json(t) for t in pool.taints]} if pool.taints else {}),
    }


def taint_json(taint: Taint) -> JSON:
    """Return a pool's taint."""
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def instance_json(vm: VM) -> JSON:
    """Return an instance, with the secrets that Civo shows in it."""
    return {
        "id": vm.id,
        "name": vm.hostname,
        "hostname": vm.hostname,
        "account_id": uid_of("account"),
        "size": vm.size,
        "firewall_id": uid_of("firewall"),
        "source_type": "diskimage",
        "source_id": "1.32.5-k3s1",
        "network_id": uid_of("network"),
        "initial_user": "root",
        "initial_password": SHOWN_PASSWORD,
        "ssh_key": "",
        "tags": ["k3s"],
        "script": "",
        "status": vm.status,
        "civostatsd_token": SHOWN_STATSD,
        "public_ip": address_of(vm.id, "74.220"),
        "private_ip": address_of(vm.hostname, "192.168"),
        "namespace_id": "",
        "notes": "",
        "reverse_dns": "",
        "cpu_cores": vm.spec.cpu_cores,
        "ram_mb": vm.spec.ram_mb,
        "disk_gb": vm.spec.disk_gb,
        "created_at": stamp(vm.created_at),
    }


def instances_json(live: Live, pool: CivoPool) -> list[JSON]:
    """Return the instances of a pool as the cluster and the bare list show them: less than there is, while a fault says
    so."""
    return [_lacking(live, pool, instance_json(vm), "id", "hostname", "status", "created_at") for vm in pool.instances]


def _lacking(live: Live, pool: CivoPool, record: JSON, *fields: str) -> JSON:
    partial = {name: value for name, value in live.partial.get(pool.id, {}).items() if name in fields}
    shown = {name: value for name, value in {**record, **partial}.items() if name not in partial or value is not None}
    if "hostname" in partial:
        shown.pop("name", None)
    return shown


def quota_json(world: World) -> JSON:
    """Return limits and usage. There is no GPU in it."""
    usage = world.quota_usage
    shown: JSON = {
        "id": uid_of("quota"),
        "default_user_id": uid_of("user"),
        "default_user_email_address": "owner@example.com",
    }
    for name, used in usage.items():
        shown[f"{name}_limit"] = world.config.quota.get(name, ENDLESS)
        shown[f"{name}_usage"] = used
    for name, (limit, used) in OTHER_QUOTAS.items():
        shown[f"{name}_limit"] = limit
        shown[f"{name}_usage"] = used
    return shown


def charge_json(charge: WorldCharge, region: str) -> JSON:
    """Return a charge: hours and no money; ``to`` is null while the node runs."""
    whole = charge.num_hours.is_integer()
    return {
        "id": charge.id,
        "code": charge.code,
        "label": charge.label,
        "from": stamp(charge.frm),
        "to": stamp(charge.to) if charge.to else None,
        "num_hours": int(charge.num_hours) if whole else charge.num_hours,
        "nodes": 1,
        "size": charge.size,
        "size_gb": None,
        "unit": "hour",
        "product_id": charge.instance,
        "region": region.lower(),
    }


def region_json(code: str) -> JSON:
    """Return the region's row."""
    kinds = ("iaas", "kubernetes", "object_store", "loadbalancer", "gpu", "dbaas", "volume", "public_ip_node_pools")
    return {
        "code": code.lower(),
        "name": code.upper(),
        "type": "civostack",
        "out_of_capacity": False,
        "country": "uk",
        "country_name": "United Kingdom",
        "default": True,
        "features": {**dict.fromkeys(kinds, True), "paas": False},
    }
