"""Gangs that objects declare instead of our annotation: groups of kube-scheduler, JobSets, and groups of a
LeaderWorkerSet, whose workers come with the leader or once it is ready."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from campaigns.faults.scenario import Event
from receiver.replay.world.objects import CLAIMS, PLACED_WHOLE_ANNOTATION, Job, WorldPod
from simulator.world import World

What = dict[str, Any]
LEADER_READY = "LeaderReady"
SETS = ("LeaderWorkerSet", LEADER_READY)
FORMS = ("PodGroup", "Workload", "JobSet", *SETS, LEADER_READY)
LWS, JOB_SET = "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/"
SIZE = f"{LWS}size"
LARGE = (7, 12, 30)  # pods: too many for most pools
WORKERS = "-workers"  # ends the job of a leader's workers


def in_forms(seed: int, events: list[Event]) -> None:
    """In some worlds some gangs of *events* take another form, and a large one comes beside a job; by dice of their
    own."""
    dice = random.Random(f"{seed}/gangs")
    if dice.random() < 0.6:
        return
    jobs = [event for event in events if event.kind == "job"]
    for event in (e for e in jobs if e.what.get("gang")):
        if dice.random() < 0.7:
            event.what["form"] = dice.choice(FORMS)
            if event.what["form"] in SETS:
                event.what.pop("least", None)  # its controller creates all of them
    if jobs and dice.random() < 0.7:
        beside = dice.choice(jobs)
        like = {key: value for key, value in beside.what.items() if key not in ("least", "owner")}
        large = {**like, "id": "large", "gang": True, "pods": dice.choice(LARGE), "form": dice.choice(FORMS)}
        events.append(Event(at=round(beside.at + dice.choice([0, 30, 300]), 1), kind="job", what=large))


def formed(job: Job, what: Mapping[str, Any]) -> Job:
    """Return *job* as *what* has it; of a leader whose workers come later the leader alone."""
    form, name = what.get("form"), job.id
    if form in ("PodGroup", "Workload"):
        return replace(job, group=name if form == "PodGroup" else f"{name}/workers")
    if form == "JobSet":
        labels = {f"{JOB_SET}jobset-name": name, f"{JOB_SET}replicatedjob-name": "workers"}
        return replace(job, labels=labels, annotations={**job.annotations, PLACED_WHOLE_ANNOTATION: name})
    if form in SETS:
        labels = {f"{LWS}name": name, f"{LWS}group-index": "0"}
        annotations = {**job.annotations, SIZE: str(job.pods), PLACED_WHOLE_ANNOTATION: f"{name}-0"}
        pods = 1 if form == LEADER_READY else job.pods
        return replace(job, labels=labels, annotations=annotations, pods=pods)
    return job


def workers_of(leader: Job, what: Mapping[str, Any]) -> Job:
    """Return the workers of *leader*, which must start together with nothing else."""
    return replace(leader, id=f"{leader.id}{WORKERS}", pods=what["pods"] - 1, gang_min=what["pods"])


def object_of(what: Mapping[str, Any], now: datetime) -> tuple[str, What] | None:
    """Return the object behind a gang, and the name of its kind."""
    least = max(what.get("least", 0), what["pods"])
    metadata = {"namespace": "ml", "name": what["id"], "creationTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}"}
    policy = {"gang": {"minCount": least}}
    spec: Mapping[str, tuple[str, What]] = {
        "PodGroup": ("podgroups.scheduling.k8s.io", {"schedulingPolicy": policy}),
        "Workload": ("workloads.scheduling.k8s.io", {"podGroups": [{"name": "workers", "policy": policy}]}),
        "JobSet": (
            "jobsets.jobset.x-k8s.io",
            {"replicatedJobs": [{"name": "workers", "template": {"spec": {"parallelism": least}}}]},
        ),
    }
    found = spec.get(what.get("form", ""))
    return None if found is None else (found[0], {"metadata": metadata, "spec": found[1]})


class Leaders:
    """Leaders whose workers are created when they run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: dict[str, Job] = {}  # workers, by their leader's job

    def expect(self, leader: Job, what: Mapping[str, Any]) -> None:
        self._waiting[leader.id] = workers_of(leader, what)

    def cancel(self, job: str) -> None:
        if self._waiting.pop(job, None) is None:
            self._world.cancel_job(f"{job}{WORKERS}")

    def follow(self) -> None:
        """Create the workers of those that run."""
        running = (
            {p.owner_name for p in self._world.active_pods.values() if p.phase == "Running"} if self._waiting else ()
        )
        for leader in [leader for leader in self._waiting if leader in running]:
            self._world.submit(self._waiting.pop(leader))


def size_of(pod: WorldPod) -> int:
    """How many pods the gang of *pod* must have together."""
    return max(pod.gang_size, int(pod.annotations.get(SIZE, 0)))


def to_come(world: World) -> Iterator[WorldPod]:
    """Yield a stand-in for each worker that does not exist yet: room for it is needed beside its living leader."""
    groups: dict[str, list[WorldPod]] = {}
    for pod in world.active_pods.values():
        if SIZE in pod.annotations and pod.gang is not None:
            groups.setdefault(pod.gang, []).append(pod)
    for pods in groups.values():
        leader = pods[0]  # once placed, it counts the devices that it got
        asks = {r: len(leader.claims) if r == CLAIMS else n for r, n in leader.requests.items()}
        for number in range(size_of(leader) - len(pods)):
            name, uid = f"{leader.name}/worker-{number}", f"{leader.uid}/{number}"
            yield replace(
                leader, name=name, uid=uid, node=None, phase="Pending", requests=asks, claim_names={}, special_claim=""
            )
