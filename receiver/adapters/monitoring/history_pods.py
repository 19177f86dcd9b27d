"""Pods put together again from what several spans of history say of them, and where the history has gaps."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from receiver.adapters.monitoring import history_queries as asked
from receiver.adapters.monitoring.history_queries import sanitized
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import POOL_LABEL
from receiver.ports.past import PastPod, Trouble

UNSEEN = timedelta(minutes=3)  # longer without a scrape is a gap: a restart of kube-state-metrics is none
MIG = "nvidia_com_mig_"
RESOURCES = {"nvidia_com_gpu": "nvidia.com/gpu", "nvidia_com_gpu_shared": "nvidia.com/gpu.shared"}

Labels = Mapping[str, str]
Key = tuple[str, str, str]  # namespace, name, uid


@dataclass(slots=True)
class _Seen:
    """What is known of one pod; times are seconds since 1970."""

    requests: dict[str, dict[str, float]] = field(default_factory=dict)  # by app or init
    times: dict[str, float] = field(default_factory=dict)
    held: float | None = None
    owner: str = ""
    team: str = ""
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without any scrape of kube-state-metrics."""

    begin: datetime
    end: datetime

    def __str__(self) -> str:
        hours = (self.end - self.begin).total_seconds() / 3600
        return f"{self.begin:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC ({hours:.1f} h)"


class PodBook:
    """Collects what each answer says of the pods."""

    def __init__(self, team_label: str) -> None:
        self._team_label = team_label
        self._team = sanitized("label", team_label)
        self._pool = sanitized("nodeselector", POOL_LABEL)
        self._pods: dict[Key, _Seen] = {}
        self._above: dict[tuple[str, str], str] = {}
        self._use: dict[tuple[str, str], dict[float, dict[str, float]]] = {}

    def note(self, query: str, labels: Labels, values: Sequence[tuple[float, float]]) -> None:
        """Take one series, (moment, value) by moment, that the *query* of that name gave."""
        values = [(at, value) for at, value in values if math.isfinite(value)]
        if not values or not labels.get("namespace"):
            return
        if query == asked.OWNERS_OF_JOBS:
            job = (labels["namespace"], labels.get("job_name", ""))
            self._above[job] = f"{labels.get('owner_kind', '')}/{labels.get('owner_name', '')}"
        elif query == asked.USE:
            mine = self._use.setdefault((labels["namespace"], labels.get("pod", "")), {})
            for at, value in values:
                mine.setdefault(at, {})[labels.get("of", "")] = value
        else:
            key = (labels["namespace"], labels.get("pod", ""), labels.get("uid", ""))
            self._of_pod(query, self._pods.setdefault(key, _Seen()), labels, max(value for _, value in values))

    def _of_pod(self, query: str, seen: _Seen, labels: Labels, value: float) -> None:
        of = labels.get("of", "")
        match query:
            case asked.REQUESTED:
                mine = seen.requests.setdefault(of, {})
                mine[labels.get("resource", "")] = max(value, mine.get(labels.get("resource", ""), 0))
            case asked.TIMES:
                seen.times[of] = max(value, seen.times.get(of, value))
            case asked.HELD:
                seen.held = max(value, seen.held or value)
            case asked.OWNERS:
                seen.owner = f"{labels.get('owner_kind', '')}/{labels.get('owner_name', '')}"
            case asked.TEAMS:
                seen.team = labels.get(self._team, "")
            case asked.POOLS:
                seen.pool = labels.get(self._pool, "")

    def pods(self, until: datetime, step: timedelta, span: timedelta) -> tuple[list[PastPod], list[Trouble]]:
        """Return the pods that asked for GPUs, and what is wrong with others. What was there until less than a gap
        before *until* still holds its GPUs."""
        found: list[PastPod] = []
        troubles: list[Trouble] = []
        for key in sorted(self._pods):
            seen = self._pods[key]
            if not seen.requests:
                continue
            try:
                found.append(self._pod(key, seen, until, step, span))
            except ValueError as error:
                name, remedy = str(error), "let Prometheus scrape and keep it, or leave the pod out with --skip-bad"
                where = f"Pod {key[0]}/{key[1]}"
                troubles.append(Trouble(where=where, field=name, problem="there is none of it", remedy=remedy))
        return found, troubles

    def _pod(self, key: Key, seen: _Seen, until: datetime, step: timedelta, span: timedelta) -> PastPod:
        """Raises ValueError with the name of a metric that is missing."""
        namespace, name, uid = key
        created = _moment(seen.times.get("created"))
        begun = _moment(seen.times.get("start"))
        if created is None:
            raise ValueError("kube_pod_created")
        ended = _ended(seen, begun, until, step)
        kind, _, owner = seen.owner.partition("/")
        pod = Pod(
            namespace=namespace,
            name=name,
            uid=uid,
            requests=_requests(seen.requests),
            phase=PodPhase.OTHER,
            created_at=created,
            node_selector={POOL_LABEL: seen.pool} if seen.pool else {},
            owner=seen.owner,
            labels={self._team_label: seen.team} if seen.team else {},
            daemon=kind == "DaemonSet",
        )
        return PastPod(
            pod=pod,
            held_from=begun,
            held_until=ended,
            above=self._above.get((namespace, owner), "") if kind == "Job" else "",
            gpu_util=self._mean_use((namespace, name), begun, ended or until, span),
        )

    def _mean_use(self, pod: tuple[str, str], begun: datetime | None, ended: datetime, span: timedelta) -> float | None:
        """Return the mean over the samples of the spans in which the pod held GPUs; namesakes share a span."""
        if begun is None:
            return None
        first, last = begun.timestamp(), (ended + span).timestamp()
        spans = [told for at, told in self._use.get(pod, {}).items() if first <= at <= last]
        mine = [
            told for told in spans if "sum" in told and told.get("count")
        ]  # a sample that is no number spoils the sum
        counted = sum(told["count"] for told in mine)
        return sum(told["sum"] for told in mine) / counted if counted else None


def gaps(scrapes: Iterable[float], since: datetime, until: datetime, step: timedelta) -> list[Gap]:
    """Return where more than `UNSEEN` (or three steps) lies between *scrapes*, seconds since 1970, or at either end."""
    ordered = sorted({since.timestamp(), *(s for s in scrapes if s >= since.timestamp()), until.timestamp()})
    longest = max(UNSEEN, 3 * step).total_seconds()
    return [
        Gap(datetime.fromtimestamp(before, UTC), datetime.fromtimestamp(after, UTC))
        for before, after in pairwise(ordered)
        if after - before > longest
    ]


def lost_sight(pods: Iterable[PastPod], holes: Sequence[Gap], step: timedelta) -> int:
    """Return how many pods were seen for the last time right before one of *holes*."""
    near = max(UNSEEN, 3 * step)
    ends = [p.held_until for p in pods if p.held_until is not None]
    return sum(any(abs(end - hole.begin) <= near and end <= hole.end for hole in holes) for end in ends)


def _ended(seen: _Seen, begun: datetime | None, until: datetime, step: timedelta) -> datetime | None:
    """Return when a pod that began stopped holding its GPUs: its completion where that is of the whole pod, else when
    it was last seen; None while it still did at *until*."""
    if begun is None:
        return None
    completed, held = _moment(seen.times.get("completion")), _moment(seen.held)
    over = seen.times.get("over", 0) >= 1
    if completed is not None and (over or held is None or held <= completed + step):
        return completed
    if over:
        return held or begun
    last = held or begun
    return None if last >= until - max(UNSEEN, 3 * step) else last


def _requests(told: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """Return the larger of what all containers and what the largest init container ask for, by resource."""
    names = sorted({name for mine in told.values() for name in mine})
    return {_resource(name): round(max(mine.get(name, 0) for mine in told.values())) for name in names}


def _resource(name: str) -> str:
    """Return the resource of which kube-state-metrics made *name*: ``nvidia_com_mig_1g_10gb`` is a MIG slice."""
    if name.startswith(MIG):
        return "nvidia.com/mig-" + name.removeprefix(MIG).replace("_", ".")
    return RESOURCES.get(name, name)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
