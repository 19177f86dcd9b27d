"""POST and DELETE /api/v1/budget: an allowance for the current month, set by who holds the operator's token."""

from typing import Any

import structlog
from flask import Blueprint, Response, jsonify, request

from receiver.core.model.policy import BudgetChange
from receiver.core.money.budget import title_of
from receiver.core.money.cost import amount
from receiver.core.notices.budget_notices import changed
from receiver.web.api.body import read_body
from receiver.web.api.budget_request import budget_asked, reset_asked
from receiver.web.api.documents import moment
from receiver.web.auth.tokens import require_operator
from receiver.web.parts import WebParts

LARGEST_BODY = 16 * 1024

log = structlog.get_logger(__name__)


def add_budget_changes(routes: Blueprint, parts: WebParts) -> None:
    """Add the routes to *routes*."""

    def keep(change: BudgetChange) -> Response:
        """Keep and tell it in one transaction; the step that this wakes acts upon it."""
        shown = parts.pool_name(change.name) if change.name else ""
        parts.store.change_budget(change, changed(change, title_of(change.scope, shown)))
        parts.wake()
        log.info("budget changed", scope=change.scope.value, name=change.name, usd=str(change.monthly_usd))
        return jsonify(document(change, shown))

    @routes.post("/budget")
    def set_budget() -> Response:
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        return keep(budget_asked(read_body(request, LARGEST_BODY), parts.policy, parts.clock.now()))

    @routes.delete("/budget")
    def reset_budget() -> Response:
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        return keep(reset_asked(request.args, parts.policy, parts.clock.now()))


def document(change: BudgetChange, shown: str) -> dict[str, Any]:
    """Return what was set; *shown* is what people call the pool or team."""
    return {
        "scope": change.scope.value,
        "name": shown,
        "month": change.month,
        "monthly_usd": None if change.monthly_usd is None else amount(change.monthly_usd),
        "who": change.who,
        "why": change.why,
        "at": moment(change.at),
    }
