"""Jobs from the pods of a history: which pods are one gang, how long it ran, and which pods do not count."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.pods import Scheduling
from receiver.core.model.text import some
from receiver.core.scaling.demand import IGNORED_NAMESPACES
from receiver.ports import PROTECT_ANNOTATION, SAFE_TO_EVICT_ANNOTATION, Past, PastPod
from receiver.replay.traces.trace import Findings, Trace, TraceReading
from receiver.replay.world.objects import Job

# Controllers whose pods need each other: operators of distributed training, and kinds of groups.
GANG_KINDS = frozenset(
    [
        "PyTorchJob",
        "MPIJob",
        "TFJob",
        "XGBoostJob",
        "PaddleJob",
        "JAXJob",
        "TrainJob",
        "JobSet",
        "LeaderWorkerSet",
        "PodGroup",
    ]
)
TOGETHER = timedelta(seconds=60)  # pods of one owner that were created within it are one start

DAEMONS = "pods of DaemonSets (they follow nodes)"
OPERATOR = "pods of the GPU operator (they check new nodes)"
NEVER = "pods that never ran"
BEFORE = "pods that had ended before the beginning"


def trace_of_pods(past: Past, source: str, form: str, reading: TraceReading) -> Trace:
    """Return the pods of *past* as a trace. Raises BadTrace as `Findings.trace` does."""
    findings = Findings()
    for trouble in past.troubles:
        findings.take(trouble)
    findings.uncounted.update(past.uncounted)
    findings.notes.extend(past.notes)
    ran = [p for p in past.pods if _counts(p, past, findings)]
    if still := sum(p.held_until is None for p in ran):
        findings.notes.append(f"still running: {some(still, 'pod')}, counted with the run time so far")
    if past.since is not None and (early := sum(p.held_from is not None and p.held_from < past.since for p in ran)):
        findings.notes.append(f"running at the beginning: {some(early, 'pod')}, counted as submitted then")
    jobs: list[Job] = []
    id_uses: Counter[str] = Counter()
    for (key, gang), members in _groups(ran, reading).items():
        for start in _starts(members) if gang else [[p] for p in members]:
            job = _job(key if gang else "", start, past, reading, findings)
            if job is not None:
                id_uses[job.id] += 1
                again = id_uses[job.id]
                jobs.append(job if again == 1 else replace(job, id=f"{job.id}~{again}"))
    return findings.trace(source, form, jobs, reading, past.since)


def _counts(past_pod: PastPod, past: Past, findings: Findings) -> bool:
    """Return True for a pod that held GPUs. Others are counted by kind, malformed ones reported."""
    pod, where = past_pod.pod, f"Pod {past_pod.pod.key}"
    if pod.daemon:
        findings.uncounted[DAEMONS] += 1
    elif pod.namespace in IGNORED_NAMESPACES:
        findings.uncounted[OPERATOR] += 1
    elif past_pod.held_from is None:
        findings.uncounted[NEVER] += 1
    elif past_pod.held_until is not None and past_pod.held_until < past_pod.held_from:
        ended, began = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (past_pod.held_until, past_pod.held_from))
        problem = f"it ended {ended}, before it began {began}"
        findings.wrong(
            where,
            "status",
            problem,
            "check the clocks of the nodes, or leave it out with `skip_bad: true` in the file of --timing",
        )
    elif past.since is not None and past_pod.held_until is not None and past_pod.held_until <= past.since:
        findings.uncounted[BEFORE] += 1
    elif len(pod.requests) > 1:
        problem = f"it requests {' and '.join(sorted(pod.requests))} at once"
        findings.wrong(
            where,
            "resources",
            problem,
            "a replay allows one GPU resource per pod: leave it out with `skip_bad: true` in the file of --timing",
        )
    else:
        return True
    return False


def _groups(pods: Iterable[PastPod], reading: TraceReading) -> Mapping[tuple[str, bool], Sequence[PastPod]]:
    """Return the pods by owner or gang, and whether they are a gang."""
    groups: defaultdict[tuple[str, bool], list[PastPod]] = defaultdict(list)
    for past_pod in pods:
        groups[_group(past_pod, reading)].append(past_pod)
    for members in groups.values():
        members.sort(key=lambda p: (p.pod.created_at, p.pod.key))
    return groups


def _group(past_pod: PastPod, reading: TraceReading) -> tuple[str, bool]:
    pod = past_pod.pod
    if pod.gang:
        return pod.gang, True
    for owner in (past_pod.above, pod.owner):
        kind, _, name = owner.partition("/")
        if kind in GANG_KINDS:
            return f"{pod.namespace}/{name}", True
    kind, _, name = pod.owner.partition("/")
    if reading.gangs == "together" and name:
        return f"{pod.namespace}/{name}", True
    return pod.key, False


def _starts(members: Sequence[PastPod]) -> list[list[PastPod]]:
    """Split the pods of a gang into its starts: pods created much later replace lost ones, or are another run."""
    starts: list[list[PastPod]] = []
    for member in members:
        if starts and member.pod.created_at - starts[-1][0].pod.created_at <= TOGETHER:
            starts[-1].append(member)
        else:
            starts.append([member])
    return starts


def _job(key: str, members: Sequence[PastPod], past: Past, reading: TraceReading, findings: Findings) -> Job | None:
    """Return one job of *members*, None where a replay cannot run them. A gang runs from when the last of its pods had
    its GPUs: the others' wait for it is not part of its duration."""
    first = members[0].pod
    if len({tuple(m.pod.requests.items()) for m in members}) > 1:
        requests = ", ".join(sorted({f"{m.pod.gpus} {next(iter(m.pod.requests))}" for m in members}))
        remedy = "a replay needs gangs of equal pods: leave it out with `skip_bad: true` in the file of --timing"
        findings.wrong(f"gang {key}", "resources", f"its pods request different GPUs ({requests})", remedy)
        return None
    started = max(_held_from(m, past) for m in members)
    ended = max(m.held_until or past.until for m in members)
    submitted = first.created_at
    if past.since is not None and min(m.held_from or past.until for m in members) < past.since:
        submitted = past.since
    resource, gpus_per_pod = next(iter(first.requests.items()))
    scheduling = first.scheduling if reading.placement else Scheduling()
    utils = [m.gpu_util for m in members if m.gpu_util is not None]
    kind, _, _ = first.owner.partition("/")
    name = (key or first.key).replace("/", ".")
    return Job(
        id=name,
        submit_at=max(submitted, past.since) if past.since is not None else submitted,
        duration=max(ended - started, timedelta(0)),
        pods=len(members),
        gpus_per_pod=gpus_per_pod,
        namespace=first.namespace,
        team=first.labels.get(reading.team_label, ""),
        gang=len(members) > 1,
        gang_min=first.gang_min if first.gang_min is not None and first.gang_min < len(members) else None,
        owner_kind=kind
        or "Job",  # a pod without a controller would be lost with its node, and the replay would never end
        resource=resource,
        node_selector=scheduling.node_selector,
        affinity=scheduling.affinity,
        preferred=scheduling.preferred,
        tolerations=scheduling.tolerations if reading.placement and past.tolerations_known else reading.tolerations,
        labels=first.labels,
        annotations={
            **({SAFE_TO_EVICT_ANNOTATION: "true"} if first.wishes.evictable else {}),
            **({PROTECT_ANNOTATION: "true"} if first.wishes.protected else {}),
        },
        priority=first.priority,
        priority_class=first.priority_class,
        gpu_util=min(1.0, max(0.0, sum(utils) / len(utils))) if utils else reading.gpu_util,
    )


def _held_from(member: PastPod, past: Past) -> datetime:
    started = member.held_from if member.held_from is not None else past.until
    return started if past.since is None else max(started, past.since)
