"""How GPU pods ended, from the API server's JSON: they are shown until somebody cleans up."""

from collections.abc import Mapping
from typing import Any

from receiver.adapters.http.timestamps import moment
from receiver.adapters.kubernetes.nodes import entries, key_of, section
from receiver.adapters.kubernetes.pods import controller_of, controller_uid, gpu_requests, terminated
from receiver.core.model.usage import Ended, workload_name

TERMINATED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"  # a field selector knows no "or"


def ended_from(raw: Mapping[str, Any]) -> Ended | None:
    """Return how the GPU pod in *raw* ended, or None for one that lives or has no GPUs."""
    if not terminated(raw) or not gpu_requests(section(raw, "spec")):
        return None
    metadata, status = section(raw, "metadata"), section(raw, "status")
    namespace, _, name = key_of(raw).partition("/")
    states = [section(c, "state") for c in entries(status, "containerStatuses")]
    ends = [moment(section(state, "terminated").get("finishedAt")) for state in states]
    uid = str(metadata.get("uid") or "")
    return Ended(
        uid=uid,
        life=controller_uid(metadata) or uid,
        workload=workload_name(namespace, controller_of(metadata), name),
        succeeded=status.get("phase") == "Succeeded",
        at=max((end for end in ends if end), default=None),
    )
