"""GET /decisions: those that a filter lets pass. GET /decisions/{id}: one of them, as it was made."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from flask import Blueprint, render_template, request, url_for

from receiver.core.explain.rules import RULES
from receiver.ports import DecisionFilter, DecisionKind
from receiver.web.api.documents import DecisionDocument, explained
from receiver.web.api.episodes import Episode, latest_episodes, state_of
from receiver.web.api.request_parts import Last, decisions_asked
from receiver.web.api.routes import decision_asked
from receiver.web.pages.overview import names_of, scene_of
from receiver.web.pages.show import node_name, with_names
from receiver.web.parts import WebParts

QUIET = "allows"
ROWS = 15  # of the list
FILTERS = ("pool", "kind", "rule", "last", "from", "until")


def add_decisions(routes: Blueprint, parts: WebParts) -> None:
    """Add both pages to *routes*."""

    @routes.get("/decisions")
    def decisions() -> str:
        """List decisions, newest first; *before* the number of one leads to older ones."""
        arguments = {"kind": DecisionKind.NEWS.value, **request.args.to_dict()}  # unless one asks for every result
        query = {name: text for name, text in arguments.items() if text}  # a form sends its empty fields, too
        rows, before = _rows(decisions_asked(parts, query), parts)
        filters: dict[str, Any] = {name: arguments[name] for name in FILTERS if arguments.get(name) or name == "kind"}
        scene = scene_of(parts)
        return render_template(
            "decisions.html",
            now=scene.now,
            mode=parts.mode,
            named=partial(with_names, names=names_of(scene)),
            episodes=[(DecisionDocument.of_stored(episode.latest, parts), episode) for episode in rows],
            asked=filters,
            newest=url_for("pages.decisions", **filters) if "before" in query else None,
            older=None if before is None else url_for("pages.decisions", **filters, before=before),
            pools=[(pool.name, pool.name) for pool in parts.policy.pools],
            kinds=[(kind, "changes, blocks" if kind is DecisionKind.NEWS else kind) for kind in DecisionKind],
            is_first_view=filters == {"kind": DecisionKind.NEWS},
            rules=[(rule, rule) for rule in RULES],
            spans=[(last, f"the last {last[:-1]} {last[-1]}") for last in Last],
        )

    @routes.get("/decisions/<number>")
    def decision(number: str) -> str:
        """Show one decision: what, why, for whom, what would change it and what followed; the evidence is folded."""
        document = explained(decision_asked(parts, number), parts)
        evidence, pool = document.evidence, parts.policy.pool(document.pool)
        names = names_in(document)
        return render_template(
            "decision.html",
            now=parts.clock.now(),
            mode=parts.mode,  # of the server now; the decision has its own
            decision=document,
            pool_now=pool.name if pool else None,  # one that left the configuration has no page
            named=partial(with_names, names=names),
            node_of=lambda instance: node_name(names.get(instance), instance),
            steps=list(steps(document, parts.guide)),
            known=evidence,
            evidence=json.dumps(evidence, indent=2, ensure_ascii=False),
        )


def _rows(only: DecisionFilter, parts: WebParts) -> tuple[Sequence[Episode], int | None]:
    """Return what one page lists, changes and blocks by episode, and before which decision the next page begins."""
    if only.kind is DecisionKind.NEWS:
        rows = latest_episodes(parts, only, ROWS + 1)
    else:
        stored = parts.store.decisions(only, limit=ROWS + 1)
        rows = [Episode([decision], state_of(decision)) for decision in stored]
    return rows[:ROWS], rows[ROWS].latest.id + 1 if len(rows) > ROWS else None


def names_in(decision: DecisionDocument) -> dict[str, str]:
    """Return the names that were stored with *decision*, of its pool and nodes, by id."""
    nodes = decision.evidence.get("nodes")
    node_entries = [n for n in nodes if isinstance(n, Mapping)] if isinstance(nodes, list) else []
    names = {n["instance"]: n["name"] for n in node_entries if n.get("instance") and n.get("name")}
    return {**names, decision.pool: decision.pool_name}


def steps(decision: DecisionDocument, guide: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    """Yield every reason with its *number*, the target *before* it, what its rule *means* and the address of the whole
    explanation, which *guide* gives. A *quiet* one left the target; with nothing left to judge it was not *asked*."""
    target, names = decision.from_count, names_in(decision)
    for number, reason in enumerate(decision.reasons, 1):
        rule = RULES.get(reason.rule)  # None for one that this version does not have any more
        yield {
            **dict(reason),
            "detail": with_names(reason.detail, names),
            "number": number,
            "before": target,
            "means": rule.meaning if rule else "",
            "guide": guide(f"guardrails.md#{reason.rule}") if rule else None,
            "quiet": reason.verdict == QUIET,
            "asked": target != decision.from_count,
        }
        target = reason.target
