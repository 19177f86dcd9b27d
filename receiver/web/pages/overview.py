"""GET /: what needs attention first, then every pool with its numbers, and why they are what they are."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from flask import Blueprint, render_template, url_for

from receiver.core.explain.explain import State
from receiver.core.model.model import Source
from receiver.core.model.policy import Policy
from receiver.core.model.text import some, span
from receiver.core.notices.concerns import source_guide, titled
from receiver.core.notices.grouping import Seal
from receiver.core.notices.wording import capital, sentence
from receiver.reports.picture import OpenAction, Picture, PoolDocument, SourceDocument, WaitingPod, kept_picture
from receiver.web.api.documents import DecisionDocument, mode_of, waiting_document
from receiver.web.health import alive
from receiver.web.pages.attention import Scene, concerns, headline, parted
from receiver.web.pages.pictures import budget_bar
from receiver.web.pages.show import ago
from receiver.web.parts import WebParts

REFRESH_SECONDS = 15
LATEST_DECISIONS = 20
MISFITS = 20
ROWS = 20  # of waiting pods; the API has all that are kept


def scene_of(parts: WebParts) -> Scene:
    """Return what the last step saw, how the loop does, and what waits to be told."""
    found, at = kept_picture(parts.store)
    health = parts.heartbeat()
    return Scene(
        found=found,
        at=at,
        now=parts.clock.now(),
        health=health,
        beating=alive(health),
        policy=parts.policy,
        undelivered=parts.store.undelivered(),
    )


def page_of(scene: Scene, parts: WebParts) -> dict[str, Any]:
    """Return what every live page shows in its head, and the picture."""
    return {
        "now": scene.now,
        "refresh": REFRESH_SECONDS,
        "picture": scene.found,
        "found_at": scene.at,
        "mode": scene.found.mode or parts.mode,
        "health": scene.health,
        "guide": parts.guide,
        "answer": answers(parts),
    }


def answers(parts: WebParts) -> Callable[[str], str | None]:
    """Return what gives the address where an open question is answered; it is for an operator's eyes alone."""
    seal = Seal(parts.operator_token) if parts.operator_token else None
    return lambda question: url_for("answers.ask", signed=seal.sign(question)) if seal else None


def add_overview(routes: Blueprint, parts: WebParts) -> None:
    """Add GET / to *routes*."""

    @routes.get("/")
    def status() -> str:
        """Show the picture of the last step and what needs attention in it."""
        scene = scene_of(parts)
        page, now = page_of(scene, parts), scene.now
        found: Picture = page["picture"]
        wrong = concerns(scene)
        first, rest = parted(wrong)
        misfits = found.misfits
        return render_template(
            "status.html",
            **page,
            headline=headline(scene, wrong),
            concerns=first,
            more_concerns=rest,
            doing=list(under_way(found.pools, now)),
            configured=parts.policy.pools,
            names={p.id: p.name for p in parts.policy.pools},
            bar=budget_bar(found.budget) if found.budget else None,
            waiting=waiting_rows(found, parts),
            misfits=misfits[:MISFITS],
            more_misfits=len(misfits) - MISFITS,
            down=[titled(s.source) for s in found.sources if s.down],
            decisions=[DecisionDocument.of_stored(d, parts) for d in parts.store.decisions(limit=LATEST_DECISIONS)],
        )


def waiting_rows(found: Picture, parts: WebParts) -> list[tuple[WaitingPod, int]]:
    """Return the page's rows, each with its number of pods: pods of one owner and one fate share a row, which has the
    first one's words and the GPUs of all. Those that no pool fits have their own list."""
    rows: dict[tuple[str | None, ...], tuple[WaitingPod, int]] = {}
    for pod in found.waiting:
        if pod.state == State.FITS_NOWHERE:
            continue
        key = (pod.namespace, pod.owner or pod.name, pod.state, pod.pool, pod.rule, pod.node)
        if key in rows:
            first, pods = rows[key]
            rows[key] = (first.model_copy(update={"gpus": first.gpus + pod.gpus}), pods + 1)
        elif len(rows) < ROWS:
            rows[key] = (waiting_document(pod, parts, mode_of(found, parts)), 1)
    return list(rows.values())


def under_way(pools: Iterable[PoolDocument], now: datetime) -> Iterable[dict[str, Any]]:
    """Yield each change that is being made: the pool, what, since when, and what it waits for."""
    for pool in pools:
        if pool.open_action is not None:
            waits_for = _waits_for(pool, pool.open_action, now)
            yield {"pool": pool.pool, "name": pool.name, "action": pool.open_action, "waits_for": waits_for}


def _waits_for(pool: PoolDocument, action: OpenAction, now: datetime) -> str:
    if action.victims:
        stages = sorted({victim.stage for victim in action.victims if victim.stage})
        return f"{some(len(action.victims), 'node')} to go" + (f" ({', '.join(stages)})" if stages else "")
    return usable_in(pool, now)


def usable_in(pool: PoolDocument | None, now: datetime) -> str:
    """Return when the nodes on their way are likely to be usable, in words; empty where none is, or it is not known."""
    if pool is None or pool.awaited_since is None or pool.ready_in_seconds is None:
        return ""
    usual = pool.ready_in_seconds
    left = usual - (now - pool.awaited_since).total_seconds()
    if left <= 0:
        return f"usable GPUs since {ago(pool.awaited_since, now).removesuffix(' ago')}, usually {span(usual)}"
    return f"usable GPUs in about {max(1, round(left / 60))} min"


STATES = {
    "starting": "starting: no step has begun yet",
    "leading": "leading: this process runs the steps and writes to Civo and Kubernetes",
    "waiting": "standby: another process leads; this one answers webhooks and serves pages",
    "stopped": "stopped",
}
WATCHES = {
    "off": "off: waiting pods are found by alerts and at each tick",
    "waiting": "not here: the process that leads watches",
    "up": "up: a waiting pod starts a step at once",
    "down": "down: waiting pods are found by alerts and at each tick meanwhile; the log says why",
}


def add_sources_page(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /sources to *routes*."""

    @routes.get("/sources")
    def sources() -> str:
        """Show the health of each source, of the loop and of the outbox."""
        scene = scene_of(parts)
        page = page_of(scene, parts)
        rows = _rows(page["picture"], scene.policy)
        silent = [row["title"] for row in rows if row["down"]]
        return render_template(
            "sources.html",
            **page,
            rows=rows,
            headline=_headline(scene, silent),
            beating=scene.beating,
            state=STATES.get(scene.health.state, scene.health.state),
            watch=WATCHES[parts.watch()],
            counts=parts.store.counts(),
            undelivered=scene.undelivered,
            messages_to=parts.messages_to,
        )


def _headline(scene: Scene, silent: list[str]) -> str:
    if scene.at is None:
        return "No data yet."
    if silent:
        return f"Silent: {', '.join(silent)}."
    return "Every configured source answers."


def _rows(found: Picture, policy: Policy) -> list[Mapping[str, Any]]:
    """Those that are silent first."""
    return sorted((_row(source, policy) for source in found.sources), key=lambda row: not row["down"])


def _row(source: SourceDocument, policy: Policy) -> Mapping[str, Any]:
    known = source_guide(Source(source.source), policy) if source.source in set(Source) else None
    said = (known.stops, known.goes_on) if known else ()
    without = " ".join(sentence(capital(part)) for part in said if part)
    if source.source == Source.ALERTMANAGER and not source.configured:
        without = "Not required; silences are not seen."
    entry = dict(source)
    return {**entry, "title": titled(source.source), "about": known, "stops": without, "down": source.down}
