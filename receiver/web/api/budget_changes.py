"""POST and DELETE /api/v1/budget: an allowance for the current month, checked field by field."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import structlog
from flask import Blueprint, Response, jsonify, request

from receiver.config.document import parse
from receiver.config.values import LabelValue, Money, Wrong, did_you_mean
from receiver.core.model.policy import BudgetChange, Policy, Scope
from receiver.core.money.budget import month_of, title_of
from receiver.core.notices.money_notices import budget_changed
from receiver.web.api.documents import BudgetChangeDocument
from receiver.web.api.overrides import words_asked
from receiver.web.api.request_parts import read_object
from receiver.web.auth.tokens import require_operator
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

EXAMPLE = '{"scope": "cluster", "monthly_usd": "6000", "who": "", "why": ""}'

log = structlog.get_logger(__name__)


def add_budget_changes(routes: Blueprint, parts: WebParts) -> None:
    """Add the routes to *routes*."""

    def keep(change: BudgetChange) -> Response:
        """Keep and tell it in one transaction; the step that this wakes acts upon it."""
        shown = parts.pool_name(change.name) if change.name else ""
        parts.store.change_budget(change, budget_changed(change, title_of(change.scope, shown)))
        parts.wake()
        log.info("budget changed", scope=change.scope.value, name=change.name, usd=str(change.monthly_usd))
        return jsonify(BudgetChangeDocument.of(change, name=shown).document())

    @routes.post("/budget")
    def set_budget() -> Response:
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        return keep(budget_asked(read_object(request, FIELDS, EXAMPLE), parts.policy, parts.clock.now()))

    @routes.delete("/budget")
    def reset_budget() -> Response:
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        return keep(reset_asked(request.args, parts.policy, parts.clock.now()))


FIELDS = ("scope", "name", "monthly_usd", "who", "why")


def budget_asked(said: Mapping[str, Any], policy: Policy, now: datetime) -> BudgetChange:
    """Return the change that a body asks for at *now*; Problem 400 that names the field."""
    if said.get("monthly_usd") is None:
        raise Problem(400, "monthly_usd is missing", "give an amount of USD such as 1250.50", field="monthly_usd")
    return _change(said, _amount(said["monthly_usd"]), policy, now)


def reset_asked(said: Mapping[str, str], policy: Policy, now: datetime) -> BudgetChange:
    """Return the return to the configured allowance that a query asks for at *now*; Problem 400 names the field."""
    return _change(said, None, policy, now)


def _change(said: Mapping[str, Any], usd: Decimal | None, policy: Policy, now: datetime) -> BudgetChange:
    if policy.budget is None:
        raise Problem(400, "no budget is configured", "add budget.monthly_usd to the configuration", field="scope")
    scope = _scope(said.get("scope"))
    return BudgetChange(
        scope=scope,
        name=_name(said.get("name"), scope, policy),
        month=month_of(now, policy.budget.timezone).name,
        monthly_usd=usd,
        who=words_asked(said, "who", "say who sets it, such as alice"),
        why=words_asked(said, "why", "say why in one sentence"),
        at=now,
    )


def _scope(said: Any) -> Scope:
    scopes = [scope.value for scope in Scope]
    if said is None:
        raise Problem(400, "scope is missing", f"say one of: {', '.join(scopes)}", field="scope")
    if said not in scopes:
        raise Problem(400, "there is no such scope", did_you_mean(str(said), scopes), field="scope")
    return Scope(said)


def _name(said: Any, scope: Scope, policy: Policy) -> str:
    """The pool's id or the team; empty where the scope says it all."""
    if scope in (Scope.ACCOUNT, Scope.CLUSTER):
        if said not in (None, ""):
            raise Problem(400, f"there is one {scope} only", "leave name out", field="name")
        return ""
    if not isinstance(said, str) or not said:
        raise Problem(400, f"name is missing: which {scope}?", f"give the name of the {scope}", field="name")
    if scope is Scope.TEAM:
        try:
            return str(parse(LabelValue, said))
        except Wrong as wrong:
            raise Problem(400, f"name: {wrong.problem}", wrong.remedy, field="name") from wrong
    pool = policy.pool(said)
    if pool is None:
        names = [p.name for p in policy.pools]
        raise Problem(400, "no pool has this id or name", did_you_mean(said, names), field="name")
    return pool.id


def _amount(said: Any) -> Decimal:
    if isinstance(said, bool) or not isinstance(said, str | int | Decimal):
        raise Problem(400, "monthly_usd is no amount of USD", "write digits and a point", field="monthly_usd")
    try:
        return Decimal(parse(Money, str(said)))
    except Wrong as wrong:
        raise Problem(400, f"monthly_usd: {wrong.problem}", wrong.remedy, field="monthly_usd") from wrong
