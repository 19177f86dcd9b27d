"""Jobs: the pods they are made of, and when they are done."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from receiver.replay.world.config import GANG_ANNOTATION, Job, PodSpec
from receiver.replay.world.objects import FinishedJob, WorldPod

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
NAME_LABEL = "batch.kubernetes.io/job-name"


@dataclass(slots=True)
class _Course:
    job: Job
    submitted_at: datetime
    running: set[str] = field(default_factory=set)  # indexes that have run at least once
    done: set[str] = field(default_factory=set)
    started_at: datetime | None = None
    restarts: int = 0
    losses: int = 0  # moments at which it lost pods
    lost_at: datetime | None = None


class JobRuns:
    """Follows jobs from submission to their last pod's success. *backoff_limit* is how often one may lose pods before
    it is given up (those lost at one moment count once); None: as often as it likes."""

    def __init__(self, backoff_limit: int | None = None) -> None:
        self._backoff_limit = backoff_limit
        self._courses: dict[str, _Course] = {}
        self._cancelled: set[str] = set()
        self.finished: list[FinishedJob] = []
        self.failed: dict[str, datetime] = {}  # given up, and when

    def pods_of(self, job: Job, now: datetime) -> Iterable[PodSpec]:
        """Begin to follow *job* and return what its pods are. Raises ValueError for an id that is in use."""
        if job.id in self._courses:
            raise ValueError(f"job {job.id!r} was submitted before")
        self._courses[job.id] = _Course(job, now)
        labels = {**job.labels, NAME_LABEL: job.id}
        if job.team:
            labels.setdefault("team", job.team)
        annotations = dict(job.annotations)
        if job.gang:
            annotations.setdefault(GANG_ANNOTATION, job.id)
        for index in range(job.pods):
            yield PodSpec(
                namespace=job.namespace,
                name=f"{job.id}-{index}",
                requests={job.resource: job.gpus_per_pod} if job.gpus_per_pod else {},
                duration=job.duration,
                labels={**labels, INDEX_LABEL: str(index)},
                annotations=annotations,
                node_selector=job.node_selector,
                affinity=job.affinity,
                preferred=job.preferred,
                tolerations=job.tolerations,
                priority=job.priority,
                priority_class=job.priority_class,
                owner_kind=job.owner_kind,
                owner_name=job.id,
                gang_size=(job.gang_min or job.pods) if job.gang else 0,
                gpu_util=job.gpu_util,
                gpu_memory=job.gpu_memory,
                compute=job.compute,
            )

    def ran(self, pod: WorldPod, now: datetime) -> None:
        """*pod* began to run."""
        course = self._of(pod)
        if course is not None and course.started_at is None:
            course.running.add(pod.labels.get(INDEX_LABEL, pod.name))
            if len(course.running) >= course.job.pods:
                course.started_at = now

    def succeeded(self, pod: WorldPod, now: datetime) -> None:
        """*pod* is done; the job with it when it was the last."""
        course = self._of(pod)
        if course is None:
            return
        course.done.add(pod.labels.get(INDEX_LABEL, pod.name))
        if len(course.done) >= course.job.pods:
            del self._courses[course.job.id]
            self.finished.append(
                FinishedJob(
                    id=course.job.id,
                    submitted_at=course.submitted_at,
                    started_at=course.started_at or now,
                    finished_at=now,
                    gpus=course.job.gpus,
                    team=course.job.team,
                    restarts=course.restarts,
                )
            )

    def comes_back(self, pod: WorldPod, now: datetime) -> bool:
        """Count a lost pod of a job; False when the job was cancelled or is given up, so that no pod replaces it."""
        course = self._of(pod)
        if course is None:
            return pod.owner_kind != "Job" and pod.owner_name not in self._cancelled
        course.restarts += 1
        if course.lost_at != now:
            course.losses, course.lost_at = course.losses + 1, now
        if self._backoff_limit is None or course.losses <= self._backoff_limit:
            return True
        self.cancel(course.job.id)
        self.failed[course.job.id] = now
        return False

    def kind_of(self, job_id: str) -> str:
        """What owns the pods of a job."""
        course = self._courses.get(job_id)
        return course.job.owner_kind if course is not None else "Job"

    def cancel(self, job_id: str) -> None:
        """Stop to follow a job."""
        self._cancelled.add(job_id)
        self._courses.pop(job_id, None)

    def _of(self, pod: WorldPod) -> _Course | None:
        course = self._courses.get(pod.owner_name)
        return course if course is not None and course.job.owner_kind == pod.owner_kind else None
