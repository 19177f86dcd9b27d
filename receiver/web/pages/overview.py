"""GET /: what needs attention first, then every pool with its numbers, and why they are what they are."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from flask import Blueprint, render_template, url_for

from receiver.core.model.text import some, span
from receiver.core.notices.concerns import titled
from receiver.core.notices.links import Seal
from receiver.web.api.documents import decision_document
from receiver.web.api.waiting import waiting_rows
from receiver.web.health import alive
from receiver.web.pages.attention import Scene, concerns, headline, parted
from receiver.web.pages.show import ago, budget_bar, time_of
from receiver.web.pages.sparkline import LASTS, sparklines
from receiver.web.parts import WebParts

REFRESH_SECONDS = 15
LATEST_DECISIONS = 20
MISFITS = 20


def scene_of(parts: WebParts) -> Scene:
    """Return what the last step saw, how the loop does, and what waits to be told."""
    kept = parts.store.snapshot()
    health = parts.heartbeat()
    return Scene(
        found=kept[0] if kept else {},
        at=time_of(kept[1]) if kept else None,
        now=parts.clock.now(),
        health=health,
        beating=alive(health),
        policy=parts.policy,
        undelivered=parts.store.undelivered(),
    )


def page_of(scene: Scene, parts: WebParts) -> dict[str, Any]:
    """Return what every live page shows in its head."""
    return {
        "now": scene.now,
        "refresh": REFRESH_SECONDS,
        "picture": scene.found,
        "found_at": scene.at,
        "mode": scene.found.get("mode") or parts.mode,
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
        found, now = scene.found, scene.now
        wrong = concerns(scene)
        first, rest = parted(wrong)
        misfits = list(found.get("misfits") or ())
        return render_template(
            "status.html",
            **page_of(scene, parts),
            headline=headline(scene, wrong),
            concerns=first,
            more_concerns=rest,
            doing=list(under_way(found.get("pools") or (), now)),
            configured=parts.policy.pools,
            names={p.id: p.name for p in parts.policy.pools},
            sparks=sparklines(parts.store.utilizations(now - LASTS, now), now) if found.get("pools") else {},
            bar=budget_bar(found.get("budget") or {}),
            waiting=waiting_rows(found, parts),
            misfits=misfits[:MISFITS],
            more_misfits=len(misfits) - MISFITS,
            down=[titled(s.get("source")) for s in found.get("sources") or () if is_down(s)],
            decisions=[decision_document(d, parts) for d in parts.store.decisions(limit=LATEST_DECISIONS)],
        )


def is_down(source: Mapping[str, Any]) -> bool:
    """True for a source of the picture that should answer and does not."""
    return not source.get("up") and source.get("configured") is not False


def under_way(pools: Iterable[Mapping[str, Any]], now: datetime) -> Iterable[dict[str, Any]]:
    """Yield each change that is being made: the pool, what, since when, and what it waits for."""
    for pool in pools:
        action = pool.get("open_action")
        if action:
            yield {
                "pool": pool.get("pool"),
                "name": pool.get("name"),
                "action": action,
                "waits_for": _waits_for(pool, action, now),
            }


def _waits_for(pool: Mapping[str, Any], action: Mapping[str, Any], now: datetime) -> str:
    victims = [v for v in action.get("victims") or () if isinstance(v, Mapping)]
    if victims:
        stages = sorted({str(v.get("stage")) for v in victims if v.get("stage")})
        return f"{some(len(victims), 'node')} to go" + (f" ({', '.join(stages)})" if stages else "")
    return usable_in(pool, now)


def usable_in(pool: Mapping[str, Any], now: datetime) -> str:
    """Return when the nodes on their way are likely to be usable, in words; empty where none is, or nobody can tell."""
    since, usual = time_of(pool.get("awaited_since")), pool.get("ready_in_seconds")
    if since is None or not isinstance(usual, int | float):
        return ""
    left = usual - (now - since).total_seconds()
    if left <= 0:
        return f"usable GPUs since {ago(since, now).removesuffix(' ago')}, usually {span(usual)}"
    return f"usable GPUs in about {max(1, round(left / 60))} min"
