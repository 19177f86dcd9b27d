"""GPU pods of the past, rebuilt from Prometheus' samples of kube-state-metrics and dcgm-exporter.

Reads page by page, each page some spans of an hour. What no scrape saw is not there: a pod that came and went between
two scrapes, and one that ran in a gap and was deleted in it. A pod whose object is still there after its end is known
to the second, one that was deleted while it ran to the scrape.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from receiver.adapters.monitoring.prometheus import PrometheusReader
from receiver.core.model.pods import Pod, PodPhase, Scheduling
from receiver.core.model.policy import POOL_LABEL
from receiver.ports import Past, PastPod, Trouble, TryLater, WontWork

STATE = 'job="kube-state-metrics"'
GPUS = 'resource=~"nvidia_com_(gpu|gpu_shared|mig_.+)"'
BY = "namespace, pod, uid"
OVER = f'kube_pod_status_phase{{{STATE}, phase=~"Succeeded|Failed"}}'
REQUESTS = f"kube_pod_container_resource_requests{{{STATE}, {GPUS}}}"
INITIAL = f"kube_pod_init_container_resource_requests{{{STATE}, {GPUS}}}"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
NVML = "DCGM_FI_DEV_GPU_UTIL"
SCRAPED = f"max(timestamp(up{{{STATE}}}) * (up{{{STATE}}} == 1))"


class Ask(StrEnum):
    REQUESTED = "requested"
    TIMES = "times"
    HELD = "held"
    OWNERS = "owners"
    OWNERS_OF_JOBS = "owners of Jobs"
    TEAMS = "teams"
    POOLS = "pools"
    USE = "use"


def sanitized(prefix: str, key: str) -> str:
    """Return the name of the Kubernetes label *key* in kube-state-metrics."""
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in key)
    snake = "".join(f"_{c}" if c.isupper() and i and name[i - 1].islower() else c for i, c in enumerate(name))
    return f"{prefix}_{snake.lower()}"


def queries(span: timedelta, step: timedelta, team_label: str) -> Mapping[str, str]:
    """Return the queries by name. *span* is the range of each, *step* the resolution of the last moment at which a pod
    existed."""
    over, steps = f"[{_seconds(span)}s]", f"[{_seconds(span)}s:{_seconds(step)}s]"
    ours = f"and on ({BY}) (max_over_time({REQUESTS}{over}) or max_over_time({INITIAL}{over}))"
    team, pool = sanitized("label", team_label), sanitized("nodeselector", POOL_LABEL)

    def latest(series: str, by: str = BY) -> str:
        return f"max by ({by}) (max_over_time({series}{over}))"

    def named(of: str, series: str) -> str:
        return f'label_replace({latest(series)}, "of", "{of}", "", "")'

    def use(of: str) -> str:
        either = f"{of}_over_time({ENGINE}{over}) or {of}_over_time({NVML}{over}){' / 100' if of == 'sum' else ''}"
        return f'label_replace({_by_pod(either)}, "of", "{of}", "", "")'

    # accepted by a kubelet and not ended: a pod holds its GPUs from the pull of its image to its end
    started = f"timestamp(kube_pod_start_time{{{STATE}}}) and on ({BY}) ({REQUESTS} or {INITIAL})"
    alive = f"{started} unless on ({BY}) {OVER} == 1"
    apps = f"sum by ({BY}, resource) ({latest(REQUESTS, f'{BY}, container, resource')})"
    inits = latest(INITIAL, f"{BY}, resource")
    moments = (
        named("created", f"kube_pod_created{{{STATE}}}"),
        named("start", f"kube_pod_start_time{{{STATE}}}"),
        named("completion", f"kube_pod_completion_time{{{STATE}}}"),
        named("over", OVER),
    )
    controllers = f'{{{STATE}, owner_is_controller="true"}}'
    return {
        Ask.REQUESTED: f'label_replace({apps}, "of", "app", "", "") or label_replace({inits}, "of", "init", "", "")',
        Ask.TIMES: f"({' or '.join(moments)}) {ours}",
        Ask.HELD: f"max by ({BY}) (max_over_time(({alive}){steps}))",
        Ask.OWNERS: f"{latest(f'kube_pod_owner{controllers}', f'{BY}, owner_kind, owner_name')} {ours}",
        Ask.OWNERS_OF_JOBS: latest(f"kube_job_owner{controllers}", "namespace, job_name, owner_kind, owner_name"),
        Ask.TEAMS: latest(f'kube_pod_labels{{{STATE}, {team}!=""}}', f"{BY}, {team}") + f" {ours}",
        Ask.POOLS: latest(f'kube_pod_nodeselectors{{{STATE}, {pool}!=""}}', f"{BY}, {pool}") + f" {ours}",
        Ask.USE: f"{use('sum')} or {use('count')}",
    }


def _by_pod(series: str) -> str:
    """Sum *series* of the exporter over the GPUs of the pods that hold them; their names are in exported_pod or pod."""
    named = f'label_replace({series}, "namespace", "$1", "exported_namespace", "(.+)")'
    return f'sum by (namespace, pod) (label_replace({named}, "pod", "$1", "exported_pod", "(.+)"))'


def _seconds(length: timedelta) -> int:
    return max(1, round(length.total_seconds()))


UNSEEN = timedelta(minutes=3)  # longer without a scrape is a gap; a restart of kube-state-metrics is shorter
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
    def __init__(self, team_label: str) -> None:
        self._team_label = team_label
        self._team = sanitized("label", team_label)
        self._pool = sanitized("nodeselector", POOL_LABEL)
        self._pods: dict[Key, _Seen] = {}
        self._above: dict[tuple[str, str], str] = {}
        self._use: dict[tuple[str, str], dict[float, dict[str, float]]] = {}

    def note(self, query: str, labels: Labels, values: Sequence[tuple[float, float]]) -> None:
        values = [(at, value) for at, value in values if math.isfinite(value)]
        if not values or not labels.get("namespace"):
            return
        if query == Ask.OWNERS_OF_JOBS:
            job = (labels["namespace"], labels.get("job_name", ""))
            self._above[job] = f"{labels.get('owner_kind', '')}/{labels.get('owner_name', '')}"
        elif query == Ask.USE:
            mine = self._use.setdefault((labels["namespace"], labels.get("pod", "")), {})
            for at, value in values:
                mine.setdefault(at, {})[labels.get("of", "")] = value
        else:
            key = (labels["namespace"], labels.get("pod", ""), labels.get("uid", ""))
            self._of_pod(query, self._pods.setdefault(key, _Seen()), labels, max(value for _, value in values))

    def _of_pod(self, query: str, seen: _Seen, labels: Labels, value: float) -> None:
        of = labels.get("of", "")
        match query:
            case Ask.REQUESTED:
                mine = seen.requests.setdefault(of, {})
                mine[labels.get("resource", "")] = max(value, mine.get(labels.get("resource", ""), 0))
            case Ask.TIMES:
                seen.times[of] = max(value, seen.times.get(of, value))
            case Ask.HELD:
                seen.held = max(value, seen.held or value)
            case Ask.OWNERS:
                seen.owner = f"{labels.get('owner_kind', '')}/{labels.get('owner_name', '')}"
            case Ask.TEAMS:
                seen.team = labels.get(self._team, "")
            case Ask.POOLS:
                seen.pool = labels.get(self._pool, "")

    def pods(self, until: datetime, step: timedelta, span: timedelta) -> tuple[list[PastPod], list[Trouble]]:
        """Return the pods that requested GPUs, and the problems of others. A pod seen less than a gap before *until*
        still holds its GPUs."""
        past_pods: list[PastPod] = []
        troubles: list[Trouble] = []
        for key in sorted(self._pods):
            seen = self._pods[key]
            if not seen.requests:
                continue
            try:
                past_pods.append(self._pod(key, seen, until, step, span))
            except ValueError as error:
                skip = "`skip_bad: true` in the file of --timing"
                remedy = f"let Prometheus scrape and keep it, or leave the pod out with {skip}"
                where, name = f"Pod {key[0]}/{key[1]}", str(error)
                troubles.append(Trouble(where=where, field=name, problem="there is none of it", remedy=remedy))
        return past_pods, troubles

    def _pod(self, key: Key, seen: _Seen, until: datetime, step: timedelta, span: timedelta) -> PastPod:
        """Raises ValueError with the name of a metric that is missing."""
        namespace, name, uid = key
        created, start = _moment(seen.times.get("created")), _moment(seen.times.get("start"))
        if created is None:
            raise ValueError("kube_pod_created")
        ended = _ended(seen, start, until, step)
        kind, _, owner = seen.owner.partition("/")
        pod = Pod(
            namespace=namespace,
            name=name,
            uid=uid,
            requests=_requests(seen.requests),
            phase=PodPhase.OTHER,
            created_at=created,
            scheduling=Scheduling(node_selector={POOL_LABEL: seen.pool} if seen.pool else {}),
            owner=seen.owner,
            labels={self._team_label: seen.team} if seen.team else {},
        )
        return PastPod(
            pod=pod,
            held_from=start,
            held_until=ended,
            above=self._above.get((namespace, owner), "") if kind == "Job" else "",
            gpu_util=self._mean_use((namespace, name), start, ended or until, span),
        )

    def _mean_use(self, pod: tuple[str, str], start: datetime | None, ended: datetime, span: timedelta) -> float | None:
        if start is None:
            return None
        first, last = start.timestamp(), (ended + span).timestamp()
        spans = (use for at, use in self._use.get(pod, {}).items() if first <= at <= last)
        # Of a sample without a number there is no sum; garbage of the exporter makes one that is no ratio.
        mine = [use for use in spans if use.get("count") and 0 <= use.get("sum", -1) <= use["count"]]
        counted = sum(use["count"] for use in mine)
        return sum(use["sum"] for use in mine) / counted if counted else None


def gaps(scrapes: Iterable[float], since: datetime, until: datetime, step: timedelta) -> list[Gap]:
    """Return the gaps above `UNSEEN` (or three steps) between *scrapes*, seconds since 1970, or at either end."""
    ordered = sorted({since.timestamp(), *(s for s in scrapes if s >= since.timestamp()), until.timestamp()})
    longest = max(UNSEEN, 3 * step).total_seconds()
    return [
        Gap(datetime.fromtimestamp(before, UTC), datetime.fromtimestamp(after, UTC))
        for before, after in pairwise(ordered)
        if after - before > longest
    ]


def begin(holes: Sequence[Gap], since: datetime) -> datetime | None:
    """Return when the samples begin where that is after *since*: Prometheus keeps ten days in many clusters."""
    return holes[0].end if holes and holes[0].begin == since else None


def _ended(seen: _Seen, start: datetime | None, until: datetime, step: timedelta) -> datetime | None:
    """Return when a pod released its GPUs: its completion if that is of the whole pod, else when it was last seen; None
    if it still held them at *until*."""
    if start is None:
        return None
    completed, held = _moment(seen.times.get("completion")), _moment(seen.held)
    over = seen.times.get("over", 0) >= 1
    if completed is not None and (over or held is None or held <= completed + step):
        return completed
    if over:
        return held or start
    last = held or start
    return None if last >= until - max(UNSEEN, 3 * step) else last


def _requests(requests: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in sorted({name for mine in requests.values() for name in mine}):
        # nvidia_com_mig_1g_10gb in kube-state-metrics is the MIG slice nvidia.com/mig-1g.10gb
        mig = f"nvidia.com/mig-{name.removeprefix(MIG).replace('_', '.')}"
        resource = mig if name.startswith(MIG) else RESOURCES.get(name, name)
        counts[resource] = round(max(mine.get(name, 0) for mine in requests.values()))
    return counts


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


SPAN = timedelta(hours=1)
SHOWN = 60
PAGE = 24  # spans per query
A_WHILE = timedelta(minutes=30)
SIGHTING = timedelta(seconds=60)  # the resolution of gaps
SCRAPES = f"max(count_over_time(up{{{STATE}}}[{_seconds(A_WHILE)}s]))"  # of kube-state-metrics within that time
SMALLER = (
    "a span of an hour is too much for it: raise its --query.max-samples, or query_timeout in the file of --timing"
)
TOO_LARGE = frozenset({"http_422", "http_503", "timeout"})  # a query for fewer spans may succeed

Progress = Callable[[int, int], None]
Series = Sequence[tuple[Mapping[str, str], list[tuple[float, float]]]]


class PrometheusHistory(PrometheusReader):
    """The history in the Prometheus at *url*; *timeout* is seconds per query."""

    SHAPE = "a range vector"

    def __init__(self, url: str, timeout: float = 60, team_label: str = "team") -> None:
        super().__init__(url, timeout + 5)
        self._timeout, self._team_label = timeout, team_label

    def past(self, since: datetime, until: datetime, step: timedelta, progress: Progress | None = None) -> Past:
        """Return the GPU pods between *since* and *until*, looked for every *step*, best the scrape interval.
        *progress* is told how many pages of how many are read. Raises WontWork where there is no history at all,
        TryLater where Prometheus does not answer."""
        self._asked("vector(1)", until, until, SPAN)  # fails fast: a query that times out is split into halves
        scrapes, every = self._scrapes(since, until)
        if not scrapes:
            raise WontWork(
                f"Prometheus at {self.shown} has no up{{{STATE}}} between {since:%Y-%m-%d %H:%M} and "
                f"{until:%Y-%m-%d %H:%M} UTC: scrape kube-state-metrics under that job, or use a later time",
                code="no_history",
            )
        book = PodBook(self._team_label)
        texts = queries(SPAN, step, self._team_label)
        pages = list(_pages(since, until, SPAN, PAGE))
        for number, (first, last) in enumerate(pages, start=1):
            for name, text in texts.items():
                series = self._range(text, first, last, SPAN)
                for labels, values in series:
                    book.note(name, labels, values)
                if name == Ask.REQUESTED and not series:  # no pod requested a GPU
                    break
            if progress is not None:
                progress(number, len(pages))
        pods, troubles = book.pods(until, step, SPAN)
        holes = gaps(scrapes, since, until, step)
        return Past(
            pods=pods,
            since=since,
            until=until,
            begins=begin(holes, since),
            tolerations_known=False,
            troubles=troubles,
            notes=list(_notes(holes, every, pods, until, step)),
        )

    def _scrapes(self, since: datetime, until: datetime) -> tuple[list[float], float]:
        scrapes: list[float] = []
        for first, last in _pages(since, until, SIGHTING, 24 * 60):
            for _, values in self._range(SCRAPED, first, last, SIGHTING):
                scrapes.extend(value for _, value in values)
        counts = [0.0]
        for first, last in _pages(since, until, SPAN, 24 * 31):
            for _, values in self._range(SCRAPES, first, last, SPAN):
                counts.extend(value for _, value in values)
        return scrapes, A_WHILE.total_seconds() / max(1.0, *counts)

    def _range(self, query: str, first: datetime, last: datetime, step: timedelta) -> Series:
        try:
            return self._asked(query, first, last, step)
        except TryLater as error:
            points = (last - first) // step
            if error.code not in TOO_LARGE:
                raise
            if points < 1:
                raise TryLater(f"{error}; {SMALLER}", code=error.code) from None
        middle = first + step * (points // 2)
        return [*self._range(query, first, middle, step), *self._range(query, middle + step, last, step)]

    def _asked(self, query: str, first: datetime, last: datetime, step: timedelta) -> Series:
        title = repr(query if len(query) <= SHOWN else f"{query[:SHOWN]}...")  # whole ones fill a screen
        every, params = f"{round(step.total_seconds())}s", {"timeout": f"{self._timeout:g}s"}
        result = self._result(title, lambda: self._prometheus.custom_query_range(query, first, last, every, params))
        series: list[tuple[Labels, list[tuple[float, float]]]] = []
        try:
            for record in result:
                labels = {str(k): str(v) for k, v in record["metric"].items()}
                series.append((labels, [(float(at), float(text)) for at, text in record["values"]]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._malformed(title) from None
        return series


def _pages(since: datetime, until: datetime, span: timedelta, most: int) -> Iterator[tuple[datetime, datetime]]:
    """Yield the first and last moment of pages of at most *most* points, *span* apart. Each point covers the span
    before it; the first covers *since*, and the last is *until*."""
    points = max(1, -(-(until - since) // span))
    begin = until - (points - 1) * span
    for index in range(0, points, most):
        yield begin + index * span, begin + min(index + most - 1, points - 1) * span


def _notes(
    holes: Sequence[Gap], every: float, pods: Sequence[PastPod], until: datetime, step: timedelta
) -> Iterator[str]:
    unseen = "pods that came and went between two scrapes are not in it"
    yield f"history until {until:%Y-%m-%d %H:%M} UTC, scraped about every {every:.0f} s: {unseen}"
    for hole in holes:
        yield f"Prometheus has no samples from {hole}: pods that existed only then are missing"
    near, ends = max(UNSEEN, 3 * step), [p.held_until for p in pods if p.held_until is not None]
    unsure = sum(any(abs(end - hole.begin) <= near and end <= hole.end for hole in holes) for end in ends)
    if unsure:
        yield f"{unsure} pods were last seen right before a gap: assumed to have ended then"
    if pods and not any(p.gpu_util is not None for p in pods):
        yield "no utilization of dcgm-exporter carries a pod: every job is taken as busy"
