"""What needs a person, from the facts and decisions of one step: `notices_of` makes messages of the concerns found, and
the picture publishes them for the pages."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.explain.rules import binding
from receiver.core.model.model import Facts, Source
from receiver.core.model.policy import Fallback, Policy, Scope
from receiver.core.model.rights import BIND, UNKNOWN_HOLDS_FOR
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import dollars, lasting, percent
from receiver.core.money.budget import BudgetStage, Key
from receiver.core.notices import configuration_notices, wording
from receiver.core.notices.counter_concerns import of_counters
from receiver.core.notices.money_notices import REFUSES, effect_of
from receiver.core.notices.notice import GUIDES, Cause, Concern, Level, Notice, PoolConcerns, Seen
from receiver.core.notices.pod_concerns import lapsed_nominations
from receiver.core.notices.pool_concerns import of_pool
from receiver.core.scaling.wanted import Misfit

SILENT_FOR = timedelta(minutes=2)  # a source that misses one answer is no news
NEWS_FOR = timedelta(minutes=5)  # a return is news for that long
CLEAR = "clear"
DOCTOR = "gpu-autoscaler doctor --only kubernetes"


def concerns(seen: Seen, added: Sequence[PoolConcerns] = ()) -> Iterator[Concern]:
    """Return everything that needs a person in one step, also what capabilities add about each pool, in no order."""
    yield from configuration_notices.concerns_of(seen.file, seen.now)
    yield from _sources(seen)
    yield from _queues(seen)
    yield from of_counters(seen)
    yield from _rights(seen)
    of_pools = [concern for pool in seen.policy.pools for concern in of_pool(pool, seen, added)]
    held = [binding(seen.decisions[c.pool]) for c in of_pools if c.kind == Cause.HELD and c.level is Level.BAD]
    named = [reason.because for reason in held if reason is not None]  # by the problem of a pool
    yield from _budgets(seen, [r.view.key for refusals in named if isinstance(refusals, tuple) for r in refusals])
    for signal in seen.facts.signals:
        if signal.action in LOUD and signal not in named:
            pool = seen.policy.pool(signal.pool) if signal.pool else None
            where = f"GPU pool {pool.name}" if pool else "all GPU pools"
            yield Concern(
                kind="signal",
                level=Level.BAD if signal.action is SignalAction.FREEZE else seen.level("growth_is_not_paused"),
                what=f"alert {signal.alertname} is firing: {LOUD[signal.action]} in {where}",
                since=signal.starts_at,
                doing="this ends when the alert resolves",
                todo="To end it: fix what the alert reports, or silence it by its name:"
                f" amtool silence add alertname={signal.alertname}",
                guide=f"runbooks/{signal.alertname}.md",
            )
    yield from _misfits(seen)
    yield from lapsed_nominations(seen)
    yield from of_pools


def notices_of(concerns: Iterable[Concern], policy: Policy, now: datetime) -> Iterator[Notice]:
    """Yield the messages about those of *concerns* that are worth one."""
    for concern in concerns:
        if not concern.topic:
            continue
        pool = policy.pool(concern.pool)
        where = f"GPU pool {pool.name if pool else concern.pool}: " if concern.pool else ""
        yield Notice(
            cause=concern.kind,
            topic=concern.topic,
            key=concern.key,
            title=concern.title or where + concern.what,
            body=wording.worded(
                f"since {wording.moment(concern.since, now)}" if concern.since is not None else "",
                why=concern.why,
                whose=concern.whose,
                cost=concern.cost,
                after=concern.doing,
                do=concern.todo,
            ),
            severity=concern.severity or concern.level.severity,
            pool=concern.pool or None,
            decision=concern.decision,
            guide="" if concern.guide == GUIDES.get(concern.kind) else concern.guide,
        )


def good_news(facts: Facts) -> Iterator[Notice]:
    """Yield the notices that a source answers again, and that rights are granted again; each once."""
    recoveries: list[tuple[Cause, str, str, datetime]] = []
    for state in facts.sources.values():
        if state.configured and state.since is not None and state.up and facts.at - state.since < NEWS_FOR:
            title = SOURCES[state.source].back
            recoveries.append((Cause.SOURCE_BACK, f"source:{state.source}", title, state.since))
    rights = facts.rights
    if rights is not None and rights.lacking == () and facts.at - rights.since < NEWS_FOR:
        title = "RBAC permissions restored: GPU pools can grow again"
        recoveries.append((Cause.RIGHTS_BACK, "rights", title, rights.since))
    for cause, topic, title, since in recoveries:
        body = wording.worded(f"since {wording.moment(since, facts.at)}", after="changes that waited for it resume")
        yield Notice(cause=cause, topic=topic, key=CLEAR, title=title, body=body, all_clear=True)


NO_CHANGE, NO_REMOVAL = "no GPU pool changes", "no GPU node is removed; growth continues"


@dataclass(frozen=True, slots=True)
class SourceGuide:
    """One source: its *title* and what it *tells*; while it is silent, which changes it *stops* and what *goes_on*
    without it, both as clauses, and the *area* of the doctor that looks at it."""

    title: str
    tells: str
    stops: str = NO_CHANGE
    goes_on: str = ""
    area: str = ""
    guide: str = GUIDES[Cause.SOURCE_SILENT]

    @property
    def silent(self) -> str:
        """That nothing is heard of it: a heartbeat is an alert, which arrives and does not answer."""
        return "The heartbeat alert no longer arrives" if self.title == HEARTBEAT else f"{self.title} does not answer"

    @property
    def back(self) -> str:
        """That it is heard of again."""
        return "The heartbeat alert arrives again" if self.title == HEARTBEAT else f"{self.title} answers again"

    @property
    def level(self) -> Level:
        """BAD for a source without which no pool grows; a late removal costs money alone."""
        return Level.BAD if self.stops == NO_CHANGE else Level.WARN


HEARTBEAT, UTILIZATION = "Heartbeat", "utilization, and demand where Kubernetes is silent"
SOURCES = {
    Source.CIVO: SourceGuide("Civo", "which nodes there are; pools are changed there"),
    Source.KUBERNETES: SourceGuide(
        "Kubernetes",
        "which pods wait and run, and which nodes are usable",
        NO_REMOVAL,
        "waiting pods are counted by kube-state-metrics meanwhile",
    ),
    Source.PROMETHEUS: SourceGuide("Prometheus", UTILIZATION),
    Source.DCGM: SourceGuide(
        "DCGM (GPU telemetry)",
        "whether GPUs are in use",
        "pods alone decide whether a node is busy or idle",
        guide="runbooks/GpuTelemetryMissing.md",
        area="telemetry",
    ),
    Source.ALERTMANAGER: SourceGuide(
        "Alertmanager",
        "which alerts fire, and which pools are silenced",
        NO_REMOVAL,
        "alerts that were delivered count meanwhile; silences are not seen",
    ),
    Source.HEARTBEAT: SourceGuide(
        HEARTBEAT,
        "that alerts reach the autoscaler",
        NO_REMOVAL,
        guide="runbooks/GpuAutoscalerHeartbeat.md",
        area="alertmanager",
    ),
    Source.STORE: SourceGuide("Store", "everything that a restart needs"),
}
WITHOUT_PROMETHEUS = SourceGuide(
    "Prometheus", UTILIZATION, NO_REMOVAL, "Kubernetes alone decides growth (fallback: kubernetes)"
)


COUNT_DEMAND = frozenset({Source.KUBERNETES, Source.PROMETHEUS})  # with neither of them nothing grows


def source_guide(source: Source, policy: Policy, silent: Collection[Source] = ()) -> SourceGuide:
    """Return what there is to know about *source* under *policy*, while *silent* do not answer."""
    without = source is Source.PROMETHEUS and policy.fallback is Fallback.KUBERNETES
    guide = WITHOUT_PROMETHEUS if without else SOURCES[source]
    return replace(guide, stops=NO_CHANGE, goes_on="") if source in COUNT_DEMAND <= set(silent) else guide


def titled(source: str | None) -> str:
    """Return the name for people of a source that the picture calls *source*."""
    return SOURCES[Source(source)].title if source in set(Source) else str(source or "a source")


def _sources(seen: Seen) -> Iterator[Concern]:
    silent = [state.source for state in seen.facts.sources.values() if not state.up]
    waiting = wording.whose(wording.asked_by(seen.facts.waiting, seen.policy))
    for state in seen.facts.sources.values():
        through_prometheus = state.source is Source.DCGM and Source.PROMETHEUS in silent
        if state.up or not state.configured or through_prometheus:
            continue
        guide = source_guide(state.source, seen.policy, silent)
        reportable = state.since is not None and seen.now - state.since >= SILENT_FOR
        priced = ((p.price_usd_per_hour or Decimal(0)) * seen.facts.pool(p.id).required for p in seen.policy.pools)
        yield Concern(
            kind=Cause.SOURCE_SILENT,
            level=guide.level,
            what=f"{guide.silent}: {guide.stops}",
            since=state.since,
            why=state.detail or "no answer",
            whose=waiting if guide.level is Level.BAD else "",
            cost=f"all pools together {dollars(sum(priced, Decimal(0)))} an hour",
            doing="; ".join(part for part in (guide.goes_on, "running nodes stay") if part)
            + f". A message follows when it {'arrives' if state.source is Source.HEARTBEAT else 'answers'} again",
            todo=f"To find out why: gpu-autoscaler doctor --only {guide.area or state.source}",
            guide=guide.guide,
            page="sources",
            topic=f"source:{state.source}" if reportable else "",
            key=f"silent since {state.since.isoformat()}" if state.since is not None else "",
        )


def _queues(seen: Seen) -> Iterator[Concern]:
    """Queues of Kueue or Volcano that are configured to count, and that cannot be read."""
    state = seen.facts.sources.get(Source.KUBERNETES)
    if state is None or not state.up or not state.detail:
        return
    yield Concern(
        kind=Cause.SOURCE_SILENT,
        level=Level.WARN,
        what="A queue cannot be read: no node is bought for work that waits there for quota",
        why=state.detail,
        doing="everything else works as usual: pods that exist get nodes, and idle nodes are removed",
        todo=f"To see what is missing: {DOCTOR}",
        page="sources",
        topic="source:queues",
        key=state.detail.partition(":")[0],  # the error after it changes
    )


def _rights(seen: Seen) -> Iterator[Concern]:
    rights = seen.facts.rights
    if rights is None or rights.lacking == ():
        return
    lacking = ", ".join(rights.lacking) if rights.lacking is not None else "not known"
    key = f"{lacking} since {rights.since.isoformat()}"
    if rights.lacking:
        yield Concern(
            kind=Cause.RIGHTS_MISSING,
            level=Level.BAD,
            what="GPU pools do not grow: RBAC does not allow the autoscaler to remove nodes",
            since=rights.since,
            why=str(rights),
            cost="nodes that run now cost money until they can be removed",
            doing="nothing is bought; running nodes stay. A grant takes effect within a minute, without a restart",
            todo=f"To fix it: {BIND}. To see all that is missing: {DOCTOR}",
            topic="rights",
            key=key,
        )
        return
    waits = f"GPU pools wait for the answer, for at most {lasting(UNKNOWN_HOLDS_FOR)}"
    goes_on = "GPU pools grow anyway; a message follows if a removal is refused"
    waits_for_them = rights.holds_growth(seen.now)
    yield Concern(
        kind=Cause.RIGHTS_MISSING,
        level=seen.level("nodes_may_be_removed"),
        what="Cannot check the RBAC permissions to remove GPU nodes",
        since=rights.since,
        why=rights.detail or "no answer",
        doing=waits if waits_for_them else goes_on,
        todo=f"To see each permission: {DOCTOR}",
        # That Kubernetes is silent is a message of its own.
        topic="rights" if not waits_for_them and seen.facts.up(Source.KUBERNETES) else "",
        key=key,
    )


LOUD = {SignalAction.FREEZE: "no growth and no removals", SignalAction.PAUSE_SCALE_UP: "no growth"}
PAST_A_LINE = (BudgetStage.WARN, BudgetStage.HOLD, BudgetStage.STOP)


def _budgets(seen: Seen, named: Collection[Key]) -> Iterator[Concern]:
    """Budgets past a line, or of unknown spend, but those *named* already; `money_notices` sends a message once per
    line."""
    refusing = seen.refusing()
    for view in (view for view in seen.assignment.budgets.views if view.key not in named):
        level = Level.BAD if view.key in refusing else Level.WARN
        calm = view.stage is BudgetStage.WARN and level is Level.WARN
        doing = "growth continues" if calm else REFUSES if view.stage is BudgetStage.WARN else effect_of(view)
        fault = Level.BAD if view.scope in (Scope.ACCOUNT, Scope.CLUSTER) else level  # nothing grows without it
        if view.unknown:
            yield Concern(
                kind="budget_unknown",
                level=fault,
                what=f"{wording.capital(view.title)}: its spend is unknown",
                why=view.unknown,
                doing="what it pays for does not grow",
                guide="runbooks/GpuSpendUnknown.md",
            )
        elif view.stage in PAST_A_LINE:
            yield Concern(
                kind=f"budget_{view.stage}",
                level=level,
                what=f"{wording.capital(view.title)} is past its {view.stage} line",
                why=f"{dollars(view.spent)} of {dollars(view.monthly)} spent ({percent(view.ratio)})",
                doing=doing,
                todo="" if calm else f"To raise it: {view.setting()}",
                page="" if calm else "budgets",
            )
        if view.unpriced:
            sizes = ", ".join(view.unpriced)
            yield Concern(
                kind="unpriced",
                level=fault,
                what=f"{wording.capital(view.title)}: its spend is too low: nodes of size {sizes} have no price",
                todo="set price_usd_per_hour of the pool, or a prices_file that has its size",
            )


def _misfits(seen: Seen) -> Iterator[Concern]:
    """Work that no pool can ever hold, by owner and reason: a Job of many pods is reported once, at its oldest one."""
    groups: defaultdict[tuple[str, str, str], list[Misfit]] = defaultdict(list)
    for misfit in seen.assignment.misfits:
        pod = misfit.workload.pods[0]
        groups[pod.namespace, pod.owner or pod.name, misfit.why].append(misfit)
    for (namespace, owner, reason), group in groups.items():
        first = min(group, key=lambda m: (m.workload.since, m.workload.key))
        pod = first.workload.pods[0]
        others = f" and {len(group) - 1} more of {pod.owner or namespace}" if len(group) > 1 else ""
        yield Concern(
            kind=Cause.MISFIT,
            what=f"No GPU pool can hold {first.workload.key}{others}",
            why=first.why or first.detail,
            whose=wording.whose(wording.asked_by([p for m in group for p in m.workload.pods], seen.policy)),
            doing="the work waits until the pod is changed or a pool offers this; nothing is bought for it",
            todo=f"To see more: gpu-autoscaler explain pod {pod.key}",
            topic=f"misfit:{namespace}/{owner}:{hashlib.sha256(reason.encode()).hexdigest()[:8]}",
            key=f"{first.workload.since.isoformat()}:{reason}",
        )
