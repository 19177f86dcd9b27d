"""GET /: what needs attention first, then every pool, and why it is as it is. GET /sources: the sources."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from flask import Blueprint, render_template

from receiver.core.explain.explain import State
from receiver.core.model.model import Source, Stage
from receiver.core.model.policy import Policy
from receiver.core.model.text import some, span
from receiver.core.notices.concerns import source_guide, titled
from receiver.core.notices.notice import Level
from receiver.core.notices.wording import capital, sentence
from receiver.ports import DecisionFilter, LoopHealth, StoredNotice
from receiver.reports.picture import ConcernDocument, Picture, PoolDocument, SourceDocument, WaitingPod, kept_picture
from receiver.web.api.documents import DecisionDocument, mode_of, waiting_document
from receiver.web.api.episodes import latest_episodes
from receiver.web.api.summary import SummaryDocument
from receiver.web.pages.show import ago, with_names
from receiver.web.parts import WebParts

PLURAL = {"is": "are", "has": "have", "waits": "wait", "grows": "grow", "does": "do"}
PRONOUNS = {"it": "them", "its": "their"}
OF_A_POOL = re.compile(r"\b(?:it|its)\b")
DIFFERS = "The pages of the pools say for which work, and what to do."
LONGEST = 400  # characters of what another system or a person wrote


class ShownConcern(ConcernDocument):
    """A concern with the *pools* (id and name) that have it, if there are any, before its clause *what*."""

    level: Level = Level.WARN
    pools: tuple[tuple[str, str], ...] = ()


class Scene(NamedTuple):
    """All that is looked at: *found* is the picture, *at* its time (None: no step has finished yet), and *pending* why
    the pools are not known."""

    found: Picture
    at: datetime | None
    now: datetime
    health: LoopHealth
    policy: Policy
    undelivered: Sequence[StoredNotice]
    pending: str = ""


def names_of(scene: Scene) -> dict[str, str]:
    """Return the names of pools and nodes by their ids: what other systems say has ids."""
    nodes = {node.instance: node.name for pool in scene.found.pools for node in pool.nodes if node.instance}
    pools = {pool.id: pool.name for pool in scene.policy.pools}
    return {id_: name for id_, name in {**nodes, **pools}.items() if name}


def scene_of(parts: WebParts) -> Scene:
    """Return what the last step saw, how the loop does, and what waits to be told."""
    picture, at = kept_picture(parts.store)
    undelivered, pending = parts.store.undelivered(), parts.pools_pending()
    return Scene(picture, at, parts.clock.now(), parts.heartbeat(), parts.policy, undelivered, pending)


def concerns(scene: Scene, pool: str | None = None) -> list[ShownConcern]:
    """Return everything that needs attention, or what is about *pool* (an id), the worst first; what several pools
    share is listed once, or once per level: work may wait in one of them. Each request for an approval stands alone."""
    by_cause: dict[tuple[str, str, Level, str | None], ShownConcern] = {}
    for concern in (*_ourselves(scene), *_published(scene)):
        if pool is not None and pool not in (pool_id for pool_id, _ in concern.pools):
            continue
        key = (concern.kind, concern.what, concern.level, concern.question)
        before = by_cause.get(key)
        if before is None:
            by_cause[key] = concern
            continue
        change = {
            "what": _plural(concern.what),
            "pools": (*before.pools, *concern.pools),
            "doing": before.doing if before.doing == concern.doing else DIFFERS,
            "decision": None,
        }
        by_cause[key] = before.model_copy(update=change)
    return sorted(by_cause.values(), key=lambda concern: concern.level.rank)


def _plural(what: str) -> str:
    """Return the clause *what* about a pool as one about several, such as "do not grow: they are at their maximum"."""
    verb, _, predicate = what.partition(" ")
    symptom, colon, cause = predicate.partition(": ")
    subject, _, rest = cause.partition(" ")
    if subject == "it":
        cause = f"they {_plural(rest)}"
    cause = OF_A_POOL.sub(lambda word: PRONOUNS[word[0]], cause)
    return f"{PLURAL.get(verb, verb)} {symptom}{colon}{cause}"


def headline(scene: Scene, shown_concerns: Sequence[ShownConcern]) -> str:
    """Return one sentence for a screen reader and a hurried eye. It names no time: it changes only with news."""
    wrong, odd = (sum(concern.level is level for concern in shown_concerns) for level in (Level.BAD, Level.WARN))
    if scene.at is None:
        return "No data yet."
    if wrong:
        return f"{some(wrong, 'problem')}, {some(odd, 'warning')}." if odd else f"{some(wrong, 'problem')}."
    if odd:
        return f"{some(odd, 'warning')}."
    return f"No problems in {some(len(scene.found.pools or scene.policy.pools), 'pool')}."


def _wrong(kind: str, what: str, doing: str, guide: str, **more: Any) -> ShownConcern:
    return ShownConcern(kind=kind, what=what, doing=doing, guide=guide, **{"level": Level.BAD, **more})


def _ourselves(scene: Scene) -> Iterator[ShownConcern]:
    health = scene.health
    if not health.alive:
        doing = (
            f"It last made progress {span(health.beat_age.total_seconds())} ago (state: {health.state}). Alerts are "
            "stored, but no decisions are made until it runs again."
        )
        yield _wrong("loop", "The loop is not running.", doing, "runbooks/GpuAutoscalerDown.md")
    # Older than a loop that beats would leave it.
    stale = scene.at is not None and scene.now - scene.at > health.fresh
    if scene.pending:
        doing = f"{scene.pending[0].upper()}{scene.pending[1:]}."
        yield _wrong("pools_pending", "The pools are not known yet.", doing, "configuration.md#pools")
    elif scene.at is None:
        pools = some(len(scene.policy.pools), "configured pool")
        doing = f"Nothing is known about the {pools}; the first step looks at Civo and the cluster."
        yield _wrong("no_step", "No step has finished yet.", doing, "", level=Level.WARN)
    elif stale:
        doing = f"The last finished step was {ago(scene.at, scene.now)}; the numbers below may be outdated."
        yield _wrong("stale", "This page shows old data.", doing, "runbooks/GpuAutoscalerStepsFail.md")
    if health.alive and not stale and not health.steps_well and health.good_age is not None:
        lasts = span(health.good_age.total_seconds())
        doing = f"No step has succeeded for {lasts}. Alerts are stored; pools might not grow or shrink."
        yield _wrong("steps_fail", "Steps fail.", doing, "runbooks/GpuAutoscalerStepsFail.md")


def _published(scene: Scene) -> Iterator[ShownConcern]:
    """What the last step found, and messages that fail."""
    names = names_of(scene)
    for concern in scene.found.concerns:
        pool = scene.policy.pool(concern.pool)
        lasts = f"For {span((scene.now - concern.since).total_seconds())}" if concern.since is not None else ""
        cause, doing = (with_names(part, names) for part in (concern.why, concern.doing))
        sentences = (lasts, cause, concern.whose and f"for {concern.whose}", doing)
        yield ShownConcern.of(
            concern,
            what=with_names(concern.what, names),
            level=Level(concern.level) if concern.level in set(Level) else Level.WARN,
            doing=" ".join(sentence(capital(part), LONGEST) for part in sentences if part),
            pools=((pool.id, pool.name),) if pool is not None else (),
        )
    failing = [notice for notice in scene.undelivered if notice.attempts]
    if failing:
        what = f"{some(len(failing), 'message')} could not be delivered: {failing[-1].last_error}."
        doing = "Delivery is retried for a while; scaling does not wait for it."
        guide = "runbooks/GpuAutoscalerNoticesStuck.md"
        yield _wrong("messages", what, doing, guide, level=Level.WARN, page="sources")


REFRESH_SECONDS = 15
LATEST_DECISIONS = 10
MISFITS = 20
ROWS = 20  # of waiting pods; the API has all that are kept
CONCERNS = 4  # that are listed at once, and every one that is bad, up to MOST_CONCERNS
MOST_CONCERNS = 8
UNFOLDED = 2  # of those: they show more than their first line
STATES = {
    "starting": "starting: no step has begun yet",
    "leading": "leading: this process runs the steps and writes to Civo and Kubernetes",
    "waiting": "standby: another process leads; this one answers webhooks and serves pages",
    "stopped": "stopped",
}
WATCHES = {
    "off": "off: waiting pods are found by alerts and at each tick",
    "waiting": "not here: the watch runs in the process that leads",
    "up": "up: a waiting pod starts a step at once",
    "down": "down: meanwhile waiting pods are found by alerts and at each tick; see the log for the reason",
}


def page_of(scene: Scene, parts: WebParts) -> dict[str, Any]:
    """Return what every live page shows; *ways* gives what can be done about a concern, for an operator's eyes
    alone."""

    def ways(concern: ShownConcern) -> list[tuple[str, str]]:
        return [way for addition in parts.added for way in addition.ways(concern, parts)]

    return {
        "now": scene.now,
        "refresh": REFRESH_SECONDS,
        "picture": scene.found,
        "found_at": scene.at,
        "mode": mode_of(scene.found, parts),
        "health": scene.health,
        "named": partial(with_names, names=names_of(scene)),
        "ways": ways,
    }


def add_overview(routes: Blueprint, parts: WebParts) -> None:
    """Add GET / and GET /sources to *routes*."""

    @routes.get("/")
    def status() -> str:
        scene = scene_of(parts)
        picture, shown_concerns = scene.found, concerns(scene)
        first = min(MOST_CONCERNS, max(CONCERNS, sum(concern.level is Level.BAD for concern in shown_concerns)))
        return render_template(
            "status.html",
            **page_of(scene, parts),
            headline=headline(scene, shown_concerns),
            concerns=shown_concerns[:first],
            more_concerns=shown_concerns[first:],
            unfolded=UNFOLDED,
            doing=[(p, progress(p, scene.now)) for p in picture.pools if p.open_action is not None or p.building],
            problems={id_ for c in shown_concerns if c.level is Level.BAD and c.rule for id_, _ in c.pools},
            configured=parts.policy.pools,
            names={p.id: p.name for p in parts.policy.pools},
            sums=SummaryDocument.of_picture(picture, parts),
            pending=_pending(picture.pools),
            waiting=_waiting_rows(picture, parts),
            misfits=picture.misfits[:MISFITS],
            more_misfits=len(picture.misfits) - MISFITS,
            down=[titled(s.source) for s in picture.sources if s.down],
            episodes=[
                (DecisionDocument.of_stored(episode.latest, parts), episode)
                for episode in latest_episodes(parts, DecisionFilter(), LATEST_DECISIONS)
            ],
        )

    @routes.get("/sources")
    def sources() -> str:
        scene = scene_of(parts)
        silent = [source for source in scene.found.sources if source.down]
        summary = (
            f"Silent: {', '.join(titled(s.source) for s in silent)}." if silent else "Every configured source answers."
        )
        return render_template(
            "sources.html",
            **page_of(scene, parts),
            rows=[_row(s, scene.policy) for s in sorted(scene.found.sources, key=lambda source: not source.down)],
            headline="No data yet." if scene.at is None else summary,
            state=STATES.get(scene.health.state, scene.health.state),
            watch=WATCHES[parts.watch()],
            counts=parts.store.counts(),
            undelivered=scene.undelivered,
            messages_to=parts.messages_to,
        )


def _pending(pools: Sequence[PoolDocument]) -> int | None:
    """The pending GPUs that the table of pools shows; None where one is not known."""
    pending_gpus = [pool.pending_gpus for pool in pools if pool.pending_gpus is not None]
    return sum(pending_gpus) if len(pending_gpus) == len(pools) else None


def _waiting_rows(picture: Picture, parts: WebParts) -> list[tuple[WaitingPod, int]]:
    """Return the page's rows, each with its number of pods: pods of one owner and one fate share a row, which has the
    first one's words and the GPUs of all. Those that no pool fits have their own list."""
    rows: dict[tuple[str | None, ...], tuple[WaitingPod, int]] = {}
    for pod in picture.waiting:
        if pod.state == State.FITS_NOWHERE:
            continue
        key = (pod.namespace, pod.owner or pod.name, pod.state, pod.pool, pod.rule, pod.node)
        if key in rows:
            first, pods = rows[key]
            rows[key] = (first.model_copy(update={"gpus": first.gpus + pod.gpus}), pods + 1)
        elif len(rows) < ROWS:
            rows[key] = (waiting_document(pod, picture, parts), 1)
    return list(rows.values())


# What a node on its way does, for one and for several.
ON_THE_WAY = {
    Stage.BUILDING: ("is being built at Civo", "are being built at Civo"),
    Stage.BOOTING: ("boots", "boot"),
    Stage.INSTALLING: ("installs its GPU driver", "install their GPU drivers"),
}


def progress(pool: PoolDocument, now: datetime) -> str:
    """Return what is done in *pool* at the moment, as a sentence about it."""
    action = pool.open_action
    if action is not None and action.victims:
        stages = sorted({victim.stage for victim in action.victims if victim.stage})
        return f"{some(len(action.victims), 'node')} will be removed" + (f" ({', '.join(stages)})" if stages else "")
    counts = Counter(node.stage for node in pool.nodes)
    doing = [f"{some(n, 'node')} {words[n > 1]}" for stage, words in ON_THE_WAY.items() if (n := counts[stage])]
    if not doing and action is not None:
        size = f"{pool.required if action.from_count is None else action.from_count} → {action.to_count}"
        doing = [f"{action.kind} {size} nodes, requested at Civo"]
    elif not doing:
        doing = [f"{some(pool.building or 0, 'node')} requested at Civo"]
    return f"{', '.join(doing)}{usable_in(pool, now)}"


def usable_in(pool: PoolDocument, now: datetime) -> str:
    """Return when the nodes on their way are likely to be usable, behind what they do; empty where none is, or it is
    not known."""
    if pool.awaited_since is None or pool.ready_in_seconds is None:
        return ""
    usual = pool.ready_in_seconds
    seconds_left = usual - (now - pool.awaited_since).total_seconds()
    if seconds_left <= 0:
        return f", for {ago(pool.awaited_since, now).removesuffix(' ago')} so far (usually {span(usual)})"
    return f", usable in about {max(1, round(seconds_left / 60))} min"


def _row(source: SourceDocument, policy: Policy) -> Mapping[str, Any]:
    guide = source_guide(Source(source.source), policy) if source.source in set(Source) else None
    without = ""
    if guide is not None and source.down:  # while it answers, nothing stops
        without = " ".join(sentence(capital(part)) for part in (guide.stops, guide.goes_on) if part)
    if source.source == Source.ALERTMANAGER and not source.configured:
        without = "Optional; without it, silences are not seen."
    return {**dict(source), "title": titled(source.source), "about": guide, "stops": without, "down": source.down}
