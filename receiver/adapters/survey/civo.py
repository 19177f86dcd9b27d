"""Civo for the doctor: the cluster's pools with labels and taints, sizes and quota. Sends GET only."""

from collections.abc import Mapping
from dataclasses import dataclass

from receiver.adapters.civo.answers import whole
from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.kubernetes.api import entries, section, words
from receiver.adapters.kubernetes.nodes import taint_from
from receiver.core.model.policy import Taint
from receiver.ports import TryLater

# Resources of the account's quota, and what a size calls them.
COUNTED = {"instance_count": "", "cpu_core": "cpu_cores", "ram_mb": "ram_mb", "disk_gb": "disk_gb"}


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
    """A size: what one node of it takes of each of `COUNTED`, its GPUs, and whether Civo offers it now."""

    takes: Mapping[str, int]
    gpus: int
    selectable: bool


class CivoSurvey(CivoCloud):
    """The account and cluster of `CivoCloud`."""

    def pools(self) -> dict[str, PoolAtCivo]:
        """Return the pools of the cluster by id. Raises TryLater and WontWork as `CivoCloud.look` does."""
        found = self.look()
        raw = section({"cluster": self._cluster()}, "cluster")
        said: dict[str, dict[str, object]] = {}
        for record in (*entries(raw, "pools"), *entries(raw, "required_pools")):
            known = {key: record[key] for key in ("labels", "taints") if record.get(key) is not None}
            said.setdefault(str(record.get("id")), {}).update(known)
        return {
            pool.id: PoolAtCivo(
                id=pool.id,
                size=pool.size,
                required=pool.required,
                labels=words(shown, "labels") if isinstance(shown.get("labels"), dict) else None,
                taints=tuple(map(taint_from, entries(shown, "taints"))) if "taints" in shown else None,
            )
            for pool in found.values()
            for shown in (said.get(pool.id, {}),)
        }

    def sizes(self) -> dict[str, SizeAtCivo]:
        """Return every size that Civo lists, by name. Raises TryLater and WontWork."""
        answer = self._send("GET", "/v2/sizes", "list the sizes")
        if not isinstance(answer, list):
            raise TryLater("malformed answer of Civo: the list of sizes", code="malformed")
        return {
            str(record["name"]): SizeAtCivo(
                takes={name: whole(record.get(word)) or 0 if word else 1 for name, word in COUNTED.items()},
                gpus=whole(record.get("gpu_count")) or 0,
                selectable=record.get("selectable") is not False,
            )
            for record in answer
            if isinstance(record, dict) and record.get("name")
        }

    def free(self) -> dict[str, int]:
        """Return what is left of each of `COUNTED` in the account's quota, as far as Civo tells it.

        Raises TryLater and WontWork.
        """
        answer = self._send("GET", "/v2/quota", "show the quota")
        if not isinstance(answer, dict):
            raise TryLater("malformed answer of Civo: the quota", code="malformed")
        told = {name: (whole(answer.get(f"{name}_limit")), whole(answer.get(f"{name}_usage"))) for name in COUNTED}
        return {name: limit - used for name, (limit, used) in told.items() if limit is not None and used is not None}
