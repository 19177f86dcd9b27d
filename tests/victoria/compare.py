"""Which expressions of rules, dashboards and receiver mean something else in MetricsQL.

Each is asked of both servers at the same moments of the same worlds, a second after the samples: in a real server no
sample is ever exactly at the edge of a window. Labels must be the same and values agree within a millionth. Names of
metrics are not compared: MetricsQL keeps them where PromQL drops them, and every recording and alert gets its own.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial

from receiver.adapters.monitoring import history, prometheus
from receiver.doctor.telemetry import QUERIES
from tests.rules.files import ALERTS, EVERY_RULE
from tests.victoria.servers import Server
from tests.victoria.worlds import EVERYTHING, Labels, World
from tools.grafana.files import filled, queries
from tools.metric_names import metrics_in, queries_of

MOMENTS = 5
POINTS = 20  # of a panel
HOUR = timedelta(hours=1)

# Differences that may stay, by expression: in worlds with such a word in their names, and why.
TIE = (
    ("disagree", "in two pools", "the name of kube-state-metrics"),
    "topk of equal values: of two sources that disagree either will do",
)
EXPLAINED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "rule namespace_pod:gpu_pending_seconds:max": TIE,
    "rule namespace_pod:workload:relabel": TIE,
    "rule namespace_pod_node:gpu_allocated:sum": TIE,
    "rule node_pool:kube_node_labels:relabel": TIE,
    "rule pool:gpu_autoscaler_pool_info:latest": TIE,
    "rule namespace_pod_gpu:dcgm_holders:relabel": (
        ("a hole in what was seen", "one GPU without a number"),
        "MetricsQL knows no sample that is NaN",
    ),
}

Ask = Callable[[Server], Sequence[tuple[Labels, float]]]
Answer = Mapping[Labels, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One expression with its *name*, of *rule* if it is that one's; *drawn* over time too, as a panel asks."""

    name: str
    expr: str
    rule: str = ""
    drawn: bool = False


@dataclass(slots=True)
class Verdict:
    """How often an expression was asked and yielded something, how often the answers differ, and the first difference.

    *explained* are the differences with a reason in EXPLAINED; the others count in *differs*.
    """

    asked: int = 0
    told: int = 0
    differs: int = 0
    explained: int = 0
    example: str = ""


@cache
def expressions() -> Sequence[Expression]:
    """Return every expression that the product sends or ships, each once."""
    found = [
        *(Expression(name=f"rule {rule.name}", expr=rule.body["expr"], rule=rule.name) for rule in EVERY_RULE),
        *(
            Expression(name=f"annotation of {alert.name}", expr=expr, rule=alert.name)
            for alert in ALERTS
            for text in alert.body["annotations"].values()
            for expr in queries_of(text)
        ),
        *(
            Expression(name=f"panel {q.dashboard}: {q.panel} {q.field}", expr=filled(q.expr), drawn=True)
            for q in queries()
        ),
        *(Expression(name=f"doctor: {name}", expr=expr) for name, expr in QUERIES.items()),
        *(Expression(name=f"receiver: {name}", expr=expr) for name, expr in _of_receiver()),
    ]
    by_expr = {one.expr: one for one in reversed(found)}
    return tuple(reversed(by_expr.values()))


def _of_receiver() -> Iterator[tuple[str, str]]:
    names = ("UTILIZATION", "COVERAGE", "WAITING", "CREATED", "HEARTBEAT", "NODES", "FAILURES", "MISSING", "SAMPLES")
    yield from ((name, getattr(prometheus, name)) for name in names)
    yield from ((f"course {place}", query) for place, query in enumerate(prometheus.course_queries(HOUR)))
    asked = history.queries(HOUR, timedelta(minutes=1), "team")
    yield from ((f"history {name}", query) for name, query in asked.items())


def compare(world: World, servers: tuple[Server, Server], verdicts: Mapping[str, Verdict]) -> None:
    """Ask both *servers* every expression that reads something of *world*, and count in *verdicts*, by name."""
    moments = list(world.samples)
    names = world.names
    chosen = sorted({moments[(len(moments) - 1) * (place + 1) // MOMENTS] for place in range(MOMENTS)})
    start, end = chosen[0] + 1, chosen[-1] + 1
    step = max(60, (end - start) // POINTS)
    for one in expressions():
        if (one.rule not in world.rules and world.name != EVERYTHING) or not _reads(one.expr, names):
            continue
        verdict = verdicts[one.name]
        for moment in chosen:
            _judge(
                one, verdict, f"{world.name} at {moment}", servers, partial(Server.query, expr=one.expr, at=moment + 1)
            )
        if one.drawn:
            drawn = partial(Server.query_range, expr=one.expr, start=start, end=end, step=step)
            _judge(one, verdict, f"{world.name}, drawn", servers, drawn)


def _reads(expr: str, names: Set[str]) -> bool:
    try:
        read = metrics_in(expr, names)
    except ValueError:
        return False  # a pattern of names, and none of them is there
    return not read or "absent(" in expr or not read.isdisjoint(names)


def _judge(
    one: Expression,
    verdict: Verdict,
    where: str,
    servers: tuple[Server, Server],
    ask: Callable[[Server], Sequence[tuple[Labels, float]]],
) -> None:
    ours, theirs = (_answer(server, ask) for server in servers)
    verdict.asked += 1
    verdict.told += bool(ours)
    if difference := differing(ours, theirs):
        words, _ = EXPLAINED.get(one.name, ((), ""))
        if any(word in where for word in words):
            verdict.explained += 1
            return
        verdict.differs += 1
        verdict.example = verdict.example or f"{where}: {difference}"


def _answer(server: Server, ask: Ask) -> Answer | str:
    try:
        found = ask(server)
    except ValueError as error:
        return str(error)
    answer: dict[Labels, list[float]] = {}
    for labels, value in found:
        if not math.isnan(value):  # MetricsQL drops it
            answer.setdefault(labels, []).append(value)
    return {labels: sorted(values) for labels, values in answer.items()}


def differing(ours: Answer | str, theirs: Answer | str) -> str:
    """Return how two answers differ, empty if they do not."""
    if isinstance(ours, str) or isinstance(theirs, str):
        return "" if isinstance(ours, str) and isinstance(theirs, str) else f"error: {ours!s:.300} / {theirs!s:.300}"
    if missing := ours.keys() - theirs.keys():
        return f"missing: {dict(min(missing))} = {ours[min(missing)]}"
    if surplus := theirs.keys() - ours.keys():
        return f"surplus: {dict(min(surplus))} = {theirs[min(surplus)]}"
    for labels, values in ours.items():
        pairs = zip(values, theirs[labels], strict=False)
        if len(values) != len(theirs[labels]) or not all(math.isclose(a, b, rel_tol=1e-6) for a, b in pairs):
            return f"value: {dict(labels)} = {values[:3]} / {theirs[labels][:3]}"
    return ""
