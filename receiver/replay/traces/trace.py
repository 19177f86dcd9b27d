"""What every trace becomes, whatever it was written in, and how one that cannot be replayed says why."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal
from receiver.core.model.pods import Toleration
from receiver.ports.past import Trouble
from receiver.replay.world.config import Job
from collections.abc import Iterable, Sequence
from receiver.core.model.policy import Pool
from receiver.ports.past import Trouble
from receiver.replay.world.config import Job
from receiver.replay.world.scheduler import selects, untolerated

SHOWN = 100
KEPT = 10_000  # of a file in which every line is wrong, no more troubles than this are held in memory
NOTHING: Mapping[str, str] = {}  # shared: a trace of a million jobs would otherwise hold a million empty ones
# A trace knows no taints. Not every taint is tolerated: a cordon is one too, and so is a node that is not ready.
TOLERATES_GPU_TAINTS = tuple(Toleration(key=key, operator="Exists") for key in ("gpu", "nvidia.com/gpu"))

Format = Literal["csv", "kubernetes"]
FORMATS: tuple[Format, ...] = ("csv", "kubernetes")
REMEDY = "give a pool larger or more nodes, or leave it out with --skip-misfits"


class BadTrace(Exception):
    """A trace that cannot be replayed as it stands; *troubles* names every line or object that is wrong.

    *more* counts further ones by field, which are not kept one by one.
    """

    def __init__(self, troubles: Iterable[Trouble], more: Mapping[str, int] | None = None) -> None:
        self.troubles = tuple(troubles)
        self.more = dict(more or {})
        super().__init__("\n".join(told(self.troubles, self.more)))


def told(troubles: Sequence[Trouble], more: Mapping[str, int] | None = None, shown: int = SHOWN) -> list[str]:
    """Return a line for each of the first *shown* troubles, and one that counts the others by field."""
    others = Counter(t.field for t in troubles[shown:]) + Counter(more or {})
    lines = [str(t) for t in troubles[:shown]]
    if others:
        lines.append(f"and {others.total()} more: {', '.join(f'{n} of {name}' for name, n in others.most_common())}")
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReading:
    """How a trace is read.

    *start* is the moment from which a CSV trace counts its seconds. *format* None recognises it by its content.
    *made_at* is when an export of Kubernetes was made (None: when its file was written). With *skip_bad* lines and
    objects that are wrong are left out and reported, else the trace is refused. *gangs* ``together`` takes pods that one owner created together for a gang,
    ``declared`` only those that say so, or whose owner's kind does. Without *placement* node selectors, affinities
    and tolerations of the pods do not count: they may run on every pool.

    The others are what a trace does not say: *namespace*, *node_selector* and *tolerations* of its jobs, the
    *gpu_util* (ratio 0-1) of their GPUs; *team_label* is the pod label by which the product knows a team.
    """

    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    format: Format | None = None
    made_at: datetime | None = None
    skip_bad: bool = False
    gangs: Literal["declared", "together"] = "declared"
    placement: bool = True
    namespace: str = "replay"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = TOLERATES_GPU_TAINTS
    gpu_util: float = 0.9
    team_label: str = "team"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in order of submission; the replay begins at *start*.

    *source* is how people call it (a file's name, a URL), *format* what it was written in. *left_out* are lines and
    objects that were wrong, *uncounted* says by kind how many rightly are no jobs, *notes* are sentences about how
    far the rest can be trusted.
    """

    source: str
    format: str
    start: datetime
    jobs: Sequence[Job] = field(repr=False)
    left_out: Sequence[Trouble] = ()
    uncounted: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def report(self) -> list[str]:
        """What a person should read before the figures, one sentence a line."""
        counted = [f"not counted, {kind}: {number}" for kind, number in self.uncounted.items()]
        return [*told(self.left_out), *counted, *self.notes]


class Findings:
    """Collects what is said about a trace while it is read. `wrong` keeps the first *kept* troubles one by one."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._more: Counter[str] = Counter()
        self.troubles: list[Trouble] = []
        self.uncounted: Counter[str] = Counter()
        self.notes: list[str] = []

    def wrong(self, where: str, name: str, problem: str, remedy: str) -> None:
        """Note that field *name* at *where* cannot be taken."""
        self.take(Trouble(where=where, field=name, problem=problem, remedy=remedy))

    def take(self, trouble: Trouble) -> None:
        """Note *trouble*."""
        if len(self.troubles) < self._kept:
            self.troubles.append(trouble)
        else:
            self._more[trouble.field] += 1

    def trace(self, source: str, form: str, jobs: Iterable[Job], reading: TraceReading, start: datetime | None) -> Trace:
        """Return the trace of *jobs*, beginning at *start*, or at the full hour before its first job.

        Raises BadTrace where something is wrong and *reading* does not skip it, and where no job is left.
        """
        if self.troubles and not reading.skip_bad:
            raise BadTrace(self.troubles, self._more)
        ordered = sorted(jobs, key=_submitted)
        if not ordered:
            kinds = [f"{kind}: {number}" for kind, number in self.uncounted.items()]
            if self.troubles:
                kinds.append(f"wrong: {len(self.troubles) + self._more.total()}")
            problem = f"none held GPUs ({', '.join(kinds)})" if kinds else "there are none"
            nothing = Trouble(where="trace", field="jobs", problem=problem, remedy=MORE)
            raise BadTrace([*self.troubles, nothing], self._more)
        if self._more:
            self.notes.append(told((), self._more)[0])
        return Trace(
            source=source,
            format=form,
            start=start if start is not None else full_hour(ordered[0].submit_at),
            jobs=ordered,
            left_out=tuple(self.troubles),
            uncounted=dict(self.uncounted),
            notes=tuple(self.notes),
        )


MORE = "export a longer time, or another cluster"


def full_hour(at: datetime) -> datetime:
    """Return the full hour in which *at* is."""
    return at.replace(minute=0, second=0, microsecond=0)


def _submitted(job: Job) -> datetime:
    return job.submit_at


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
