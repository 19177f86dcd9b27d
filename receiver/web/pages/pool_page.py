"""GET /pools/{pool}: one pool now, its nodes over time, and everything that happened in it in one order."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, render_template, request

from receiver.core.model.policy import Pool
from receiver.ports import StoredDecision
from receiver.reports.picture import PoolDocument
from receiver.web.api.documents import DecisionDocument
from receiver.web.api.request_parts import pool_called
from receiver.web.errors import Problem
from receiver.web.pages.attention import concerns
from receiver.web.pages.lanes import lanes, legend
from receiver.web.pages.overview import page_of, scene_of, usable_in
from receiver.web.pages.sparkline import LASTS, sparklines
from receiver.web.pages.timeline import SHOWN, timeline
from receiver.web.parts import WebParts

SPANS = {"6h": timedelta(hours=6), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
USUAL = "24h"
READ = 150  # decisions, actions and messages of one pool that are read at most
NODES = 60


def add_pool_page(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /pools/{pool} to *routes*."""

    @routes.get("/pools/<name>")
    def pool(name: str) -> str:
        """Show one pool, by its id or its name."""
        wanted, asked = pool_called(parts, name), span_asked()
        scene = scene_of(parts)
        now, since = scene.now, scene.now - SPANS[asked]
        page = page_of(scene, parts)
        entry: PoolDocument | None = page["picture"].pool(wanted.id)
        sampled = parts.store.samples(min(since, now - LASTS), now, pool=wanted.id)
        decisions = parts.store.decisions(pool=wanted.id, limit=READ)
        happened, cut = _happened(parts, wanted, since, now, decisions)
        lives = [life for life in parts.store.node_lives(since) if life.pool == wanted.id]
        nodes = entry.nodes if entry else ()
        return render_template(
            "pool.html",
            **page,
            pool=wanted,
            entry=entry,
            concerns=[c for c in concerns(scene) if any(pool_id == wanted.id for pool_id, _ in c.pools)],
            spark=sparklines([(s.pool, s.at, s.utilization) for s in sampled], now).get(wanted.id),
            usable_in=usable_in(entry, now),
            latest=DecisionDocument.of_stored(decisions[0], parts) if decisions else None,
            nodes=nodes[:NODES],
            more_nodes=len(nodes) - NODES,
            spans=list(SPANS),
            asked=asked,
            since=since,
            lanes=lanes(lives, parts.store.turns(wanted.id, since, now), sampled, since, now),
            legend=legend(),
            events=happened[:SHOWN],
            more_events=len(happened) - SHOWN,
            cut=cut,
        )


def span_asked() -> str:
    """Return the query's *span*; Problem 400 unless it is one that is offered."""
    asked = request.args.get("span", USUAL)
    if asked not in SPANS:
        raise Problem(400, "nodes are not shown over this span", f"use one of: {', '.join(SPANS)}", field="span")
    return asked


def _happened(
    parts: WebParts, pool: Pool, since: datetime, now: datetime, decisions: Sequence[StoredDecision]
) -> tuple[list[Any], bool]:
    """What happened, newest first, and whether there is more of it than was read."""
    actions = parts.store.actions(pool=pool.id, limit=READ)
    messages = parts.store.messages(since, now, pool=pool.id, limit=READ)
    found = timeline(
        pool,
        since,
        arrivals=parts.store.arrivals(since, now),
        decisions=decisions,
        actions=actions,
        messages=messages,
        overrides=parts.store.overrides_between(since, now),
    )
    oldest = [d.decision.at for d in decisions[READ - 1 :]] + [a.action.opened_at for a in actions[READ - 1 :]]
    return found, any(at > since for at in oldest) or len(messages) == READ
