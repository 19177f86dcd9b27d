"""Civo for the doctor: the cluster's pools with labels and taints, sizes, quota and clock. Sends GET only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import requests

from receiver.adapters.civo.answers import whole
from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import ClockReading, http_date
from receiver.adapters.kubernetes.api import entries, section
from receiver.core.model.policy import Taint
from receiver.ports import Clock, TryLater

COUNTED = ("instance_count", "cpu_core", "ram_mb", "disk_gb")  # resources of the account's quota that a node uses


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAtCivo:
    """A pool at Civo; *labels* and *taints* are None if the answer lacks them."""

    id: str
    size: str
    required: int
    labels: Mapping[str, str] | None = None
    taints: tuple[Taint, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAtCivo:
    """A size: the resources of one node, and whether Civo offers it now."""

    name: str
    cpu_cores: int
    ram_mb: int
    disk_gb: int
    gpus: int
    selectable: bool

    @property
    def takes(self) -> Mapping[str, int]:
        """The use of each of `COUNTED` by one node."""
        return dict(zip(COUNTED, (1, self.cpu_cores, self.ram_mb, self.disk_gb), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountQuota:
    """Limit and usage of the account, for each of `COUNTED` in Civo's answer."""

    limit: Mapping[str, int] = field(default_factory=dict)
    usage: Mapping[str, int] = field(default_factory=dict)


class CivoSurvey(CivoCloud):
    """The account and cluster of `CivoCloud`; *told* is Civo's time after `listen`."""

    told: ClockReading | None = None

    def listen(self, clock: Clock) -> None:
        """Keep the time of each answer together with that of *clock*."""

        def heard(response: requests.Response, *_: object, **__: object) -> None:
            there: datetime | None = http_date(response.headers.get("Date"))
            if there is not None:
                self.told = ClockReading(there=there, here=clock.now(), took=response.elapsed)

        self._session.hooks["response"].append(heard)

    def pools(self) -> dict[str, PoolAtCivo]:
        """Return the pools of the cluster by id. Raises TryLater and WontWork as `CivoCloud.look` does."""
        found = self.look()
        cluster = self._cluster()
        raw = section({"cluster": cluster}, "cluster")
        said: dict[str, dict[str, object]] = {}
        for record in (*entries(raw, "pools"), *entries(raw, "required_pools")):
            known = {key: record[key] for key in ("labels", "taints") if record.get(key) is not None}
            said.setdefault(str(record.get("id")), {}).update(known)
        return {
            pool.id: PoolAtCivo(
                id=pool.id,
                size=pool.size,
                required=pool.required,
                labels=_labels(said.get(pool.id, {})),
                taints=_taints(said.get(pool.id, {})),
            )
            for pool in found.values()
        }

    def sizes(self) -> dict[str, SizeAtCivo]:
        """Return every size that Civo lists, by name. Raises TryLater and WontWork."""
        answer = self._send("GET", "/v2/sizes", "list the sizes")
        if not isinstance(answer, list):
            raise TryLater("malformed answer of Civo: the list of sizes", code="malformed")
        sizes = (_size(record) for record in answer if isinstance(record, dict))
        return {size.name: size for size in sizes if size.name}

    def quota(self) -> AccountQuota:
        """Return limits and usage of the whole account. Raises TryLater and WontWork."""
        answer = self._send("GET", "/v2/quota", "show the quota")
        if not isinstance(answer, dict):
            raise TryLater("malformed answer of Civo: the quota", code="malformed")
        told = {name: (whole(answer.get(f"{name}_limit")), whole(answer.get(f"{name}_usage"))) for name in COUNTED}
        known = {name: (limit, used) for name, (limit, used) in told.items() if limit is not None and used is not None}
        return AccountQuota(
            limit={n: limit for n, (limit, _) in known.items()}, usage={n: u for n, (_, u) in known.items()}
        )


def _labels(said: Mapping[str, object]) -> dict[str, str] | None:
    labels = said.get("labels")
    return {str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else None


def _taints(said: Mapping[str, object]) -> tuple[Taint, ...] | None:
    if not isinstance(said.get("taints"), list):
        return None
    records = entries(said, "taints")
    return tuple(
        Taint(key=str(t.get("key") or ""), value=str(t.get("value") or ""), effect=str(t.get("effect") or ""))
        for t in records
    )


def _size(record: Mapping[str, object]) -> SizeAtCivo:
    cores, ram, disk, gpus = (whole(record.get(k)) or 0 for k in ("cpu_cores", "ram_mb", "disk_gb", "gpu_count"))
    name = record.get("name")
    return SizeAtCivo(
        name=name if isinstance(name, str) else "",
        cpu_cores=cores,
        ram_mb=ram,
        disk_gb=disk,
        gpus=gpus,
        selectable=record.get("selectable") is not False,
    )
