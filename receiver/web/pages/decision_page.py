"""/decisions/{id}: one decision as it was made, from what was stored with it."""

import json
from collections.abc import Iterator
from typing import Any

from flask import Blueprint, render_template

from receiver.core.explain.rules import RULES
from receiver.web.api.documents import DecisionDocument, explained
from receiver.web.api.routes import decision_number, no_such_decision
from receiver.web.parts import WebParts

QUIET = "allows"


def add_decisions(routes: Blueprint, parts: WebParts) -> None:
    """Add the page to *routes*."""

    @routes.get("/decisions/<number>")
    def decision(number: str) -> str:
        """Show one decision: what would change it, every rule in order, what was known, what followed."""
        stored = parts.store.decision(decision_number(number))
        if stored is None:
            raise no_such_decision()
        document = explained(stored, parts)
        known, pool = document.evidence, parts.policy.pool(document.pool)
        return render_template(
            "decision.html",
            now=parts.clock.now(),
            mode=parts.mode,  # of the server now; the decision has its own
            decision=document,
            pool_now=pool.name if pool else None,  # one that left the configuration has no page
            steps=list(steps(document, parts.docs_url)),
            known=known,
            evidence=json.dumps(known, indent=2, ensure_ascii=False),
        )


def steps(decision: DecisionDocument, docs_url: str | None) -> Iterator[dict[str, Any]]:
    """Yield every reason with the target *before* it, what its rule *means* and its *guide*, the address of the whole
    explanation (None without *docs_url*). One that had nothing left to judge was not *asked*."""
    target = decision.from_count
    for reason in decision.reasons:
        rule = RULES.get(reason.rule)  # None for one that this version does not have any more
        yield {
            **dict(reason),
            "before": target,
            "means": rule.meaning if rule else "",
            "guide": f"{docs_url}/guardrails.md#{reason.rule}" if docs_url and rule else None,
            "asked": reason.verdict != QUIET or target != decision.from_count,
        }
        target = reason.target
