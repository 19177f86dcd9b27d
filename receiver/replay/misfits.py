"""Jobs of a trace that no pool could ever run, however many nodes it had."""

from collections.abc import Iterable, Sequence

from receiver.core.model.policy import Pool
from receiver.ports.past import Trouble
from receiver.replay.world.config import Job
from receiver.replay.world.matching import selects, untolerated

REMEDY = "give a pool larger or more nodes, or leave it out with --skip-misfits"


def misfits(jobs: Iterable[Job], pools: Sequence[Pool]) -> dict[str, Trouble]:
    """Return, by job id, why a job fits no pool: a pod that is larger than any node, that none lets in, or a gang that
    is larger than each of the pools may be.
    """
    known: dict[object, tuple[str, str] | None] = {}
    found: dict[str, Trouble] = {}
    for job in jobs:
        least = (job.gang_min or job.pods) if job.gang else 1
        asked = (job.resource, job.gpus_per_pod, least, tuple(job.node_selector.items()), job.affinity, job.tolerations)
        if asked not in known:
            known[asked] = _why(job, least, pools)
        why = known[asked]
        if why is not None:
            name, problem = why
            found[job.id] = Trouble(where=f"job {job.id}", field=name, problem=problem, remedy=REMEDY)
    return found


def _why(job: Job, least: int, pools: Sequence[Pool]) -> tuple[str, str] | None:
    """Return the field that is in the way and the problem, None where the job fits."""
    big = [p for p in pools if p.resources.get(job.resource, 0) >= job.gpus_per_pod]
    if not big:
        largest = max((p.resources.get(job.resource, 0) for p in pools), default=0)
        return "gpus_per_pod", f"a pod asks for {job.gpus_per_pod} {job.resource}, the largest node offers {largest}"
    chosen = [p for p in big if selects(p.offered_labels, job.node_selector, job.affinity)]
    if not chosen:
        wanted = ", ".join(f"{k}={v}" for k, v in sorted(job.node_selector.items())) or "its node affinity"
        return "node_selector", f"no pool whose nodes are large enough carries {wanted}"
    let_in = [p for p in chosen if untolerated(p.taints, job.tolerations) is None]
    if not let_in:
        taint = untolerated(chosen[0].taints, job.tolerations)
        named = f"{taint.key}={taint.value}:{taint.effect}" if taint else ""
        return "tolerations", f"it does not tolerate {named} of pool {chosen[0].name}"
    # The product puts a gang into one pool as a whole.
    room = max(p.max_nodes * (p.resources[job.resource] // job.gpus_per_pod) for p in let_in)
    if room < least:
        pods = f"{least} pods of {job.gpus_per_pod} {job.resource}"
        return "pods", f"it needs {pods} at once, and no pool holds more than {room} of them"
    return None
