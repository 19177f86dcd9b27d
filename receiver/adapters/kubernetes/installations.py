"""How installations in one cluster know of each other: a Lease of each in its own namespace, found by its label.

Promises to write no other Lease, and to keep no pool from scaling: while the Leases cannot be read, an installation
behaves as if it were alone, and says so.
"""

import hashlib
import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kubernetes.config import ConfigException, list_kube_config_contexts
from yaml import YAMLError

from receiver.adapters.http.sessions import Remarks, moment
from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.api import ClusterWire, Json, entries, key_of, section, text, words
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.adapters.kubernetes.reflector import FIELD_MANAGER
from receiver.core.model.installations import InstallationLease, OtherInstallations
from receiver.core.model.policy import Pool, Taint
from receiver.ports import Clock, ClusterFacts, Did, Receipt, TryLater, WontWork

LABEL = "gpu-autoscaler.io/installation"
POOLS = "gpu-autoscaler.io/pools"  # of a Lease: what its pools are; of other objects: the names or ids of pools
RELEASE = "gpu-autoscaler.io/release"
CLUSTER_NAME = "gpu-autoscaler.io/cluster-name"
MOST_BYTES = 200_000  # of the description; all annotations of an object may have 256 KiB together
ASK_AGAIN = timedelta(seconds=10)
FORGOTTEN_AFTER = timedelta(minutes=1)  # a Lease that is gone: an installation that restarts makes another
RENEW_AFTER = timedelta(seconds=30)
SHORTEST = timedelta(minutes=3)
TICKS = 3  # steps that may fail in a row
ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
USUAL_NAMESPACE = "gpu-autoscaler"
# What a controller puts behind the name of its pods: hashes and random parts without vowels, or a number.
_OF_A_POD = re.compile(r"(-[b-df-hj-np-tv-xz24-9]{6,10})?-[b-df-hj-np-tv-xz24-9]{5}$|-\d+$")


def own_key(kubeconfig: str | None, database_url: str) -> str:
    """Return the ``namespace/name`` of the Lease of the installation that keeps its store at *database_url*. It is the
    same after a restart and for every replica, and another one for each store."""
    place = database_url.partition("?")[0]
    scheme, divider, behind = place.partition("://")
    place = f"{scheme}{divider}{behind.rpartition('@')[2]}"  # without a password, which may change
    if scheme.startswith("sqlite"):
        host = socket.gethostname()
        place += f" on {host if kubeconfig else _OF_A_POD.sub('', host)}"
    return f"{_namespace(kubeconfig)}/gpu-autoscaler-{hashlib.sha256(place.encode()).hexdigest()[:10]}"


def _namespace(kubeconfig: str | None) -> str:
    try:
        if not kubeconfig:
            return ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip() or USUAL_NAMESPACE
        _, context = list_kube_config_contexts(config_file=kubeconfig)
        return str(section(context or {}, "context").get("namespace") or USUAL_NAMESPACE)
    except (OSError, ConfigException, YAMLError, ValueError, TypeError, AttributeError, LookupError):
        return USUAL_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """This installation: the *key* of its Lease (``namespace/name``), what it says of itself, and how long the Lease
    *lasts* once it was renewed."""

    key: str
    release: str = ""
    cluster_name: str = ""
    lasts: timedelta = SHORTEST


class Installations:
    """The Leases of the installations in the cluster; *own* is ours, None for a reader that has none."""

    def __init__(self, wire: ClusterWire, clock: Clock, remarks: Remarks, own: Own | None = None) -> None:
        self._wire, self._clock, self._remarks, self._us = wire, clock, remarks, own
        self._own = own.key if own is not None else ""
        self._asked_at: datetime | None = None
        self._known = OtherInstallations(own=self._own)
        self._since: datetime | None = None  # when they were first read
        self._seen_at: dict[str, datetime] = {}
        self._made: tuple[datetime, Json] | None = None

    def add_to(self, facts: ClusterFacts, _living_pods: Sequence[SeenPod]) -> ClusterFacts:
        """Return *facts* with the other installations, where one of our own is known."""
        return replace(facts, others=self.others()) if self._own else facts

    def others(self) -> OtherInstallations:
        """Return the other installations. A look is not repeated for some seconds. Never raises."""
        now = self._clock.now()
        if self._asked_at is not None and timedelta(0) <= now - self._asked_at < ASK_AGAIN:
            return self._known
        self._asked_at = now
        try:
            leases = {each.key: each for each in self.every() if each.key != self._own and each.is_respected(now)}
        except TryLater as error:  # what was read last counts: it ends by itself
            self._remarks.warn("Leases of other installations not read", f"{error}; those read last count")
            if self._since is None:  # nothing was read yet: some other may hold anything, and nothing is refused
                self._known = replace(self._known, installations=(_unknown(now),))
            return self._known
        except WontWork as error:
            self._known = OtherInstallations(own=self._own, unread=str(error))
            self._since = self._since or now
            return self._known
        self._since = self._since or now
        self._seen_at = {key: at for key, at in self._seen_at.items() if timedelta(0) <= now - at < FORGOTTEN_AFTER}
        recent_leases = {each.key: each for each in self._known.installations if each.key in self._seen_at}
        self._seen_at |= dict.fromkeys(leases, now)
        together = {**recent_leases, **leases}
        ordered = tuple(together[key] for key in sorted(together))
        self._known = OtherInstallations(own=self._own, installations=ordered, since=self._since)
        return self._known

    def every(self) -> list[InstallationLease]:
        """Return every installation that has a Lease, ours included. Raises TryLater and WontWork."""
        raws = self._wire.every("leases", api.LEASES, label_selector=f"{LABEL}=true")
        return [each for raw in raws if (each := installation_from(raw)) is not None]

    def make_known(self, pools: Sequence[Pool]) -> Receipt:
        """Renew our Lease, or create it, if that is due or *pools* are other ones. Raises TryLater and WontWork."""
        if self._us is None:
            return Receipt(did=Did.DIFFERS, sentence="this installation has no Lease")
        namespace, _, name = self._own.partition("/")
        now, described = self._clock.now(), _annotations(self._us, pools)
        if self._made is not None and described == self._made[1] and timedelta(0) <= now - self._made[0] < RENEW_AFTER:
            return Receipt(did=Did.ALREADY, sentence=f"Lease {self._own} was renewed a moment ago")
        spec = {
            "holderIdentity": socket.gethostname(),
            "leaseDurationSeconds": int(self._us.lasts.total_seconds()),
            "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        labels = {"app.kubernetes.io/name": "gpu-autoscaler", LABEL: "true"}
        metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": described}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        options = {"field_manager": FIELD_MANAGER, "force": "true"}
        self._wire.ask("patch", "leases", api.LEASE, namespace, name, body, content=api.APPLY, **options)
        self._made = now, described
        return Receipt(did=Did.DONE, sentence=f"renewed Lease {self._own}")


def _unknown(now: datetime) -> InstallationLease:
    """An installation of which nothing is known: it may hold any work, and comes before no other."""
    return InstallationLease(key="unknown", readable=False, renewed_at=now - SHORTEST, lasts=timedelta(0))


def lasting(tick: timedelta) -> timedelta:
    """Return how long a Lease counts after it was renewed by a loop that takes a step each *tick*."""
    return max(SHORTEST, TICKS * tick)


def names_pools(raw: Json, pools: Sequence[str], parameters: Mapping[str, Any] | None = None) -> bool | None:
    """Return whether an object names one of our *pools* (names and ids) in its annotation or in its *parameters*; None
    where it names none at all."""
    annotation = words(section(raw, "metadata"), "annotations").get(POOLS) or str((parameters or {}).get(POOLS) or "")
    named = {name.strip() for name in annotation.split(",")} - {""}
    return bool(named & set(pools)) if named else None


def _annotations(own: Own, pools: Sequence[Pool]) -> dict[str, str]:
    described = json.dumps({"pools": [_as_json(pool) for pool in pools]}, separators=(",", ":"), sort_keys=True)
    if len(described) > MOST_BYTES:
        brief_pools = [{"id": pool.id, "name": pool.name} for pool in pools]
        described = json.dumps({"pools": brief_pools, "partial": True}, separators=(",", ":"))
    return {POOLS: described, RELEASE: own.release, CLUSTER_NAME: own.cluster_name}


def _as_json(pool: Pool) -> dict[str, Any]:
    return {
        "id": pool.id,
        "name": pool.name,
        "size": pool.size,
        "resources": dict(pool.resources),
        "labels": dict(pool.labels),
        "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints],
        "max_nodes": pool.max_nodes,
        "region": pool.region,
    }


def installation_from(raw: Json) -> InstallationLease | None:
    """Return the installation that a Lease *raw* is of, None for one that was never renewed."""
    metadata, spec = section(raw, "metadata"), section(raw, "spec")
    renewed_at, seconds = moment(spec.get("renewTime")), spec.get("leaseDurationSeconds")
    if renewed_at is None:
        return None
    annotations, pools = words(metadata, "annotations"), tuple[Pool, ...]()
    readable = True
    try:
        described = json.loads(annotations.get(POOLS, ""))
        readable = described.get("partial") is not True
        pools = tuple(_pool(each) for each in entries(described, "pools"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        readable = False
    lasts = seconds if isinstance(seconds, int) and 0 < seconds <= 86_400 else int(SHORTEST.total_seconds())
    return InstallationLease(
        key=key_of(raw),
        release=annotations.get(RELEASE, ""),
        cluster_name=annotations.get(CLUSTER_NAME, ""),
        pools=pools,
        readable=readable,
        renewed_at=renewed_at,
        lasts=timedelta(seconds=lasts),
    )


def _pool(raw: Json) -> Pool:
    """Raises ValueError and TypeError where *raw* does not describe a pool."""
    return Pool(
        id=text(raw, "id"),
        name=text(raw, "name") or text(raw, "id"),
        size=text(raw, "size"),
        resources={str(name): int(count) for name, count in section(raw, "resources").items()},
        max_nodes=int(raw.get("max_nodes") or 0),
        labels=words(raw, "labels"),
        taints=tuple(
            Taint(key=text(t, "key"), value=text(t, "value"), effect=text(t, "effect")) for t in entries(raw, "taints")
        ),
        region=text(raw, "region"),
    )
