"""What a person should know first: each thing that is wrong, held or waited for, as a sentence with its remedy.

It reads the picture of the last step, which an older version may have kept: whatever is missing is left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from receiver.core.explain.rules import RULES
from receiver.core.model.model import Source
from receiver.core.model.policy import Fallback, Policy
from receiver.core.model.text import some, span
from receiver.core.notices.sentences import GUIDES, Cause
from receiver.ports import Told
from receiver.web.health import steps_well
from receiver.web.pages import pool_attention
from receiver.web.pages.pool_attention import Concern, Level, names_of
from receiver.web.pages.show import ago, number, percent, time_of, usd
from receiver.web.parts import LoopHealth

SHOWN = 4  # and every one that is bad, up to MOST
MOST = 8
PLURAL = {"is": "are", "has": "have", "waits": "wait"}
LOUD = {"freeze": "nothing changes", "pause_scale_up": "nothing grows"}
STAGES = {
    "warn": (Level.WARN, "Nothing is held back yet.", "GpuBudgetWarn"),
    "hold": (Level.BAD, "Nothing grows but for passing priority classes; running work goes on.", "GpuBudgetHold"),
    "stop": (Level.BAD, "Nothing grows, and no empty node enters another paid hour.", "GpuBudgetStop"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that is looked at: *found* is the picture, *at* its time (None: no step has finished yet)."""

    found: Mapping[str, Any]
    at: datetime | None
    now: datetime
    health: LoopHealth
    beating: bool
    policy: Policy
    undelivered: Sequence[Told] = ()

    @property
    def stale(self) -> bool:
        """True when the picture is older than a loop that beats would leave it."""
        return self.at is not None and self.now - self.at > self.health.fresh


def concerns(scene: Scene) -> list[Concern]:
    """Return everything that needs attention, the worst first; what several pools have in common is told once."""
    found = [*_ourselves(scene), *_sources(scene), *_rights(scene), *_budgets(scene)]
    for entry in scene.found.get("pools") or ():
        found += pool_attention.of_pool(entry, scene.policy, scene.now)
    found += [*_signals(scene), *_misfits(scene), *_messages(scene)]
    return sorted(_joined(found), key=lambda concern: concern.level.rank)


def headline(scene: Scene, found: Sequence[Concern]) -> str:
    """Return one sentence for a screen reader and a hurried eye. It names no time: it changes only with news."""
    wrong, odd = (sum(concern.level is level for concern in found) for level in (Level.BAD, Level.WARN))
    if scene.at is None:
        return "Nothing is known yet."
    if wrong:
        things = "1 thing is wrong" if wrong == 1 else f"{wrong} things are wrong"
        return f"{things}, {odd} more to look at." if odd else f"{things}."
    if odd:
        return f"{some(odd, 'thing')} to look at."
    return f"All is well with {some(len(scene.found.get('pools') or scene.policy.pools), 'pool')}."


def parted(found: Sequence[Concern]) -> tuple[Sequence[Concern], Sequence[Concern]]:
    """Return those that a person sees at once, and the rest."""
    first = min(MOST, max(SHOWN, sum(concern.level is Level.BAD for concern in found)))
    return found[:first], found[first:]


def _joined(found: Iterable[Concern]) -> list[Concern]:
    """One entry per cause; what differs between its pools is told on their pages."""
    by_cause: dict[tuple[str, str], Concern] = {}
    for concern in found:
        key = (concern.kind, concern.what)
        before = by_cause.get(key)
        if before is None:
            by_cause[key] = concern
        else:
            by_cause[key] = replace(
                before,
                what=_of_several(concern.what),
                pools=(*before.pools, *concern.pools),
                doing=before.doing if before.doing == concern.doing else "",
                until=before.until if before.until == concern.until else "",
                decision=None,
            )
    return list(by_cause.values())


def _of_several(what: str) -> str:
    """*what* with its verb, the first word, in the plural."""
    verb, _, rest = what.partition(" ")
    return f"{PLURAL.get(verb, verb)} {rest}"


def _ourselves(scene: Scene) -> Iterator[Concern]:
    if not scene.beating:
        yield Concern(
            kind="loop",
            level=Level.BAD,
            what="The loop does not beat.",
            doing=f"Its last sign of life was {span(scene.health.beat_age.total_seconds())} ago (state: "
            f"{scene.health.state}). Alerts are kept and nothing is decided until it runs again.",
            until="the next start; /healthz says 503, so that the kubelet restarts it",
            guide="runbooks/GpuAutoscalerDown.md",
        )
    if scene.at is None:
        yield Concern(
            kind="no_step",
            level=Level.WARN,
            what="No step has finished yet.",
            doing=f"Nothing is known about the {some(len(scene.policy.pools), 'configured pool')}; the first step "
            "looks at Civo and the cluster.",
        )
    elif scene.stale:
        yield Concern(
            kind="stale",
            level=Level.BAD,
            what="This picture is old.",
            doing=f"The last finished step was {ago(scene.at, scene.now)}; the numbers below may no longer hold.",
            until="a step that ends without an error",
            guide="runbooks/GpuAutoscalerStepsFail.md",
        )
    if scene.beating and not scene.stale and not steps_well(scene.health) and scene.health.good_age is not None:
        yield Concern(
            kind="steps_fail",
            level=Level.BAD,
            what="Steps fail.",
            doing=f"No step has succeeded for {span(scene.health.good_age.total_seconds())}. Alerts are kept; pools may"
            " neither grow nor shrink.",
            until="a step that ends without an error",
            guide="runbooks/GpuAutoscalerStepsFail.md",
        )


def _sources(scene: Scene) -> Iterator[Concern]:
    for entry in scene.found.get("sources") or ():
        if entry.get("up") or entry.get("configured") is False or not entry.get("source"):
            continue
        since = time_of(entry.get("since"))
        lasts = f"has been silent for {span((scene.now - since).total_seconds())}" if since else "is silent"
        detail = f": {entry['detail']}" if entry.get("detail") else ""
        known = about(entry["source"], scene.policy)
        yield Concern(
            kind=f"source_{entry['source']}",
            level=Level.BAD if known is None or known.removal else Level.WARN,
            what=f"{titled(entry, scene.policy)} {lasts}{detail}.",
            doing=f"{stops(known)} {known.instead}".strip() if known else "",
            until="its answer: every step asks it again",
            guide=known.guide if known else "",
            page="sources",
        )


def _rights(scene: Scene) -> Iterator[Concern]:
    rights = scene.found.get("rights") or {}
    said = str(rights.get("said") or "")
    if not said or rights.get("lacking") == []:
        return
    yield Concern(
        kind="rights",
        level=Level.BAD if rights.get("lacking") else Level.WARN,
        what=f"{said[:1].upper()}{said[1:]}.",
        doing="No pool grows: what is bought could not be removed again."
        if rights.get("holds_growth")
        else "Pools grow all the same.",
        until="a grant; it is asked again every half minute",
        todo=RULES["nodes_may_be_removed"].advice if rights.get("lacking") else "",
        guide=GUIDES[Cause.RIGHTS_MISSING],
    )


def _budgets(scene: Scene) -> Iterator[Concern]:
    given = scene.found.get("budgets") or [scene.found.get("budget")]
    for budget in given:
        if not budget:
            continue
        title = str(budget.get("title") or "budget")
        named = title[:1].upper() + title[1:]
        if budget.get("unknown"):
            yield Concern(
                kind="budget_unknown",
                level=Level.WARN,
                what=f"{named}: what it has spent cannot be told: {budget['unknown']}.",
                doing="What it pays for does not grow.",
                guide="runbooks/GpuSpendUnknown.md",
            )
        elif budget.get("stage") in STAGES:
            level, doing, runbook = STAGES[budget["stage"]]
            spent = (
                f"{usd(budget.get('spent_usd'))} of {usd(budget.get('monthly_usd'))} ({percent(budget.get('ratio'))})"
            )
            yield Concern(
                kind=f"budget_{budget['stage']}",
                level=level,
                what=f"{named} is at its {budget['stage']} line: {spent} spent.",
                doing=doing,
                until="" if level is Level.WARN else "the next month, or a raised budget (gpu-autoscaler budget set)",
                guide=f"runbooks/{runbook}.md",
            )
        if budget.get("unpriced"):
            yield Concern(
                kind="unpriced",
                level=Level.WARN,
                what=f"{named} is told too low: nobody gave a price: {', '.join(budget['unpriced'])}.",
                todo="set price_usd_per_hour of the pool, or a prices_file that has its size, and restart",
            )


def _signals(scene: Scene) -> Iterator[Concern]:
    for signal in scene.found.get("signals") or ():
        effect = LOUD.get(str(signal.get("action")))
        if effect:
            pool = scene.policy.pool(str(signal.get("pool") or ""))
            yield Concern(
                kind="signal",
                level=Level.WARN,
                what=f"{signal.get('alertname')} fires: {effect}{f' in {pool.name}' if pool else ''}.",
                until="the end of the alert",
                guide=f"runbooks/{signal.get('alertname')}.md",
            )


def _misfits(scene: Scene) -> Iterator[Concern]:
    given = scene.found.get("misfits") or ()
    gpus = sum(int(number(misfit.get("gpus")) or 0) for misfit in given)
    if given:
        yield Concern(
            kind="misfit",
            level=Level.WARN,
            what=f"No pool fits {some(gpus, 'waiting GPU')}: {names_of([str(m.get('workload')) for m in given])}.",
            todo="change the pods, or configure a pool that offers what they ask for",
            guide=GUIDES[Cause.MISFIT],
        )


def _messages(scene: Scene) -> Iterator[Concern]:
    failing = [told for told in scene.undelivered if told.attempts]
    if failing:
        yield Concern(
            kind="messages",
            level=Level.WARN,
            what=f"{some(len(failing), 'message')} did not get out: {failing[-1].last_error}.",
            doing="Each is tried again for a while; scaling does not wait for it.",
            guide="runbooks/GpuAutoscalerNoticesStuck.md",
            page="sources",
        )


DOWN = "runbooks/GpuAutoscalerSourceDown.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """One source: its name for people, what it tells, whether growth and removal need it, what goes on without it."""

    title: str
    tells: str
    growth: bool
    removal: bool
    instead: str = ""
    guide: str = DOWN


ABOUT = {
    Source.CIVO: About(
        title="Civo", tells="which nodes there are; it is where pools are changed", growth=True, removal=True
    ),
    Source.KUBERNETES: About(
        title="Kubernetes",
        tells="which pods wait and run, and which nodes are usable",
        growth=False,
        removal=True,
        instead="Waiting pods are counted by kube-state-metrics meanwhile.",
    ),
    Source.PROMETHEUS: About(
        title="Prometheus", tells="utilization, and demand where Kubernetes is silent", growth=True, removal=True
    ),
    Source.DCGM: About(
        title="DCGM",
        tells="whether GPUs are in use",
        growth=False,
        removal=False,
        instead="Busy and idle are told by pods alone.",
        guide="runbooks/GpuTelemetryMissing.md",
    ),
    Source.ALERTMANAGER: About(
        title="Alertmanager",
        tells="which alerts fire, and which pools somebody silenced",
        growth=False,
        removal=True,
        instead="Alerts that were delivered count meanwhile; silences are not seen.",
    ),
    Source.HEARTBEAT: About(
        title="Heartbeat",
        tells="that alerts get from Prometheus through Alertmanager to here",
        growth=False,
        removal=True,
        guide="runbooks/GpuAutoscalerHeartbeat.md",
    ),
    Source.STORE: About(title="Store", tells="everything that a restart needs", growth=True, removal=True),
}


def about(source: Any, policy: Policy) -> About | None:
    """Return what there is to know of *source* (its name in the picture) under *policy*, None of an unknown one."""
    if source not in list(Source):
        return None
    found = ABOUT[Source(source)]
    if found is ABOUT[Source.PROMETHEUS] and policy.fallback is Fallback.KUBERNETES:
        told = "Growth goes on by what Kubernetes says (fallback: kubernetes)."
        return About(title=found.title, tells=found.tells, growth=False, removal=True, instead=told, guide=found.guide)
    return found


def stops(found: About) -> str:
    """Return which changes stop while it is silent, as a sentence."""
    if found.growth and found.removal:
        return "Nothing grows and nothing is removed."
    if found.removal:
        return "Nothing is removed; growth goes on."
    return "Nothing stops."


def titled(entry: Mapping[str, Any], policy: Policy) -> str:
    """Return the name for people of a source of the picture."""
    found = about(entry.get("source"), policy)
    return found.title if found else str(entry.get("source") or "a source")
