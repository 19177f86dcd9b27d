"""GET /sources: who answers, what stops while somebody does not, and how we do ourselves."""

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, render_template

from receiver.core.model.model import Source
from receiver.core.model.policy import Policy
from receiver.core.notices.concerns import source_guide, titled
from receiver.core.notices.wording import capital, sentence
from receiver.reports.picture import Picture, SourceDocument
from receiver.web.pages.attention import Scene
from receiver.web.pages.overview import page_of, scene_of
from receiver.web.parts import WebParts

STATES = {
    "starting": "starting: no step has begun yet",
    "leading": "leading: this process steps, and writes to Civo and Kubernetes",
    "waiting": "waiting: another process leads; webhooks are answered and pages served here too",
    "stopped": "stopped",
}
WATCHES = {
    "off": "off: waiting pods are found by their alerts and at each tick",
    "waiting": "not ours: the process that leads watches",
    "up": "stands: a waiting pod wakes the loop at once",
    "down": "does not stand: waiting pods are found by their alerts and at each tick meanwhile; the log says why",
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
        return "Nothing is known yet."
    if silent:
        return f"Silent: {', '.join(silent)}."
    return "Every source that is configured answers."


def _rows(found: Picture, policy: Policy) -> list[Mapping[str, Any]]:
    """Those that are silent first."""
    return sorted((_row(source, policy) for source in found.sources), key=lambda row: not row["down"])


def _row(source: SourceDocument, policy: Policy) -> Mapping[str, Any]:
    known = source_guide(Source(source.source), policy) if source.source in set(Source) else None
    said = (known.stops, known.goes_on) if known else ()
    without = " ".join(sentence(capital(part)) for part in said if part)
    if source.source == Source.ALERTMANAGER and not source.configured:
        without = "Nothing waits for it; silences are not seen."
    entry = dict(source)
    return {**entry, "title": titled(source.source), "about": known, "stops": without, "down": source.down}
