"""What people change: overrides, and the allowance of this month.

Each is stored with its message in one transaction, and wakes the step that acts on it.
"""

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import structlog
from flask import Blueprint, Response, jsonify, make_response, request

from receiver.config.typed import EXAMPLE as LENGTH
from receiver.config.typed import end_of
from receiver.config.values import LabelValue, Money, Wrong, did_you_mean, nearest, parse
from receiver.core.model.overrides import (
    EVERY_POOL,
    SIZES,
    Override,
    OverrideKind,
)
from receiver.core.model.policy import BudgetChange, Policy, Pool, Scope
from receiver.core.model.text import dollars, lasting
from receiver.core.money.budget import BudgetStage, month_of, title_of
from receiver.core.notices.money_notices import Stops, budget_changed, stops
from receiver.core.notices.people_notices import was_ended, was_set
from receiver.ports import StoredOverride
from receiver.reports.picture import kept_picture
from receiver.web.api.documents import BudgetChangeDocument, OverrideDocument, mode_of
from receiver.web.api.request_parts import (
    MAX_LIMIT,
    choice_asked,
    invalid,
    limit_asked,
    one_line,
    pool_asked,
    read_object,
    require_operator,
    words_asked,
)
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

UNNAMED = "an operator"
IN_FORCE = "`gpu-autoscaler override list` lists those in force"
FIELDS = ("kind", "pool", "nodes", "for", "until", "who", "why")
EXAMPLE = '{"kind": "pause", "for": "2h", "who": "", "why": ""}'
MOMENT = "such as 2026-11-21T18:00:00Z"
T = TypeVar("T")

log = structlog.get_logger(__name__)


def add_overrides(routes: Blueprint, parts: WebParts) -> None:
    """Add the routes of overrides to *routes*."""

    def answer(stored: StoredOverride, status: int = 200) -> Response:
        return make_response(jsonify(OverrideDocument.of_stored(stored, parts, parts.clock.now())), status)

    @routes.get("/overrides")
    def overrides() -> Response:
        """List those that are not over, the newest first; with ``ended=true`` those that are, behind them."""
        pool, limit, now = pool_asked(parts), limit_asked(), parts.clock.now()
        with_ended = request.args.get("ended", "false")
        if with_ended not in ("true", "false"):
            raise invalid("ended", "ended is neither true nor false", "write true, or leave it out")
        stored_overrides = [
            s for s in parts.store.overrides(limit=MAX_LIMIT) if pool is None or s.override.concerns(pool)
        ]
        ended = [s for s in stored_overrides if s.ended_at is not None or s.override.until <= now]
        listed = [s for s in stored_overrides if s not in ended] + (ended if with_ended == "true" else [])
        return jsonify([OverrideDocument.of_stored(s, parts, now) for s in listed[:limit]])

    @routes.post("/overrides")
    def set_one() -> Response:
        require_operator(parts)
        body = read_object(request, FIELDS, EXAMPLE)
        override, problems = override_of(body, parts.policy, parts.clock.now())
        if override is None:
            raise problems[0]
        keep_override(override, parts)
        response = answer(StoredOverride(override=override), 201)
        response.headers["Location"] = f"/api/v1/overrides/{override.id}"
        return response

    @routes.get("/overrides/<override_id>")
    def one(override_id: str) -> Response:
        return answer(_kept_override(parts, override_id))

    @routes.delete("/overrides/<override_id>")
    def end_one(override_id: str) -> Response:
        require_operator(parts)
        return answer(end_override(override_id, request.args.get("who", ""), parts))


def keep_override(override: Override, parts: WebParts) -> None:
    """Store *override* and its message in one transaction, and wake the loop. Raises TryLater."""
    pools = [pool for pool in kept_picture(parts.store)[0].pools if override.concerns(pool.pool)]
    idle = tuple(str(node.name) for pool in pools for node in pool.nodes if node.idle_since is not None)
    parts.store.set_override(override, was_set(override, parts.policy, idle))
    parts.wake()
    log.info("override set", override=override.id, said=str(override))


def end_override(override_id: str, who: str, parts: WebParts) -> StoredOverride:
    """End an override with a message that names *who*. Raises TryLater, and Problem 404 unless it is in force."""
    now, stored = parts.clock.now(), _kept_override(parts, override_id)
    by = one_line(who)[:100] or UNNAMED
    notice = was_ended(stored.override, by, parts.policy)
    if stored.ended_at is not None or not parts.store.end_override(override_id, now, by, notice):
        raise Problem(404, "this override has ended already", IN_FORCE, field="id")
    parts.wake()
    log.info("override ended", override=override_id, by=by)
    return StoredOverride(override=stored.override, ended_at=now, ended_by=by)


def _kept_override(parts: WebParts, override_id: str) -> StoredOverride:
    stored = parts.store.override(override_id)
    if stored is None:
        raise Problem(404, "no override has this id", IN_FORCE, field="id")
    return stored


def override_of(
    fields: Mapping[str, Any], policy: Policy, now: datetime, once: str = ""
) -> tuple[Override | None, list[Problem]]:
    """Return the override that *fields* ask for, its id ending with *once* if given; or None and what is wrong."""
    problems: list[Problem] = []

    def checked(check: Callable[[], T]) -> T | None:
        try:
            return check()
        except Problem as problem:
            problems.append(problem)
            return None

    kind = checked(lambda: choice_asked(fields, "kind", OverrideKind))
    pool = checked(lambda: _pool(fields.get("pool"), policy))
    # How many nodes may be said depends on kind and pool: nothing is told of them while those are wrong.
    nodes = checked(lambda: _nodes(fields, kind, pool, policy)) if kind is not None and not problems else None
    until = checked(lambda: _until(fields, policy, now))
    who = checked(lambda: words_asked(fields, "who", "give the name of the person, such as alice"))
    why = checked(lambda: words_asked(fields, "why", "give the reason in one sentence"))
    if problems or kind is None or until is None or who is None or why is None:
        return None, problems
    override = Override(
        id=f"{kind}-{pool.name if pool else EVERY_POOL}-{once or secrets.token_hex(4)}",
        kind=kind,
        pool=pool.id if pool else None,
        nodes=nodes,
        who=who,
        why=why,
        at=now,
        until=until,
    )
    return override, []


def _pool(name: object, policy: Policy) -> Pool | None:
    if name in (None, EVERY_POOL):
        return None
    pool = policy.pool(name) if isinstance(name, str) else None
    if pool is not None:
        return pool
    names = [p.name for p in policy.pools]
    close = nearest(str(name), [*names, EVERY_POOL])
    listed = f"use one of: {', '.join(names)}, or {EVERY_POOL} for every pool"
    raise invalid("pool", "no pool has this id or name", f"did you mean {close}? {listed}" if close else listed)


def _nodes(fields: Mapping[str, Any], kind: OverrideKind, pool: Pool | None, policy: Policy) -> int | None:
    nodes = fields.get("nodes")
    if kind not in SIZES:
        if nodes is not None:
            raise invalid("nodes", f"nodes does not apply to a {kind}", "leave it empty")
        return None
    if nodes is None:
        raise invalid("nodes", f"nodes is missing: a {kind} needs a number", "give a whole number")
    if isinstance(nodes, bool) or not isinstance(nodes, int):
        raise invalid("nodes", "nodes is not a whole number", "give a number such as 4, without quotes")
    if nodes < 0:
        raise invalid("nodes", "nodes is negative", "give 0 or more")
    most = pool.max_nodes if pool else max(p.max_nodes for p in policy.pools)
    if nodes > most:
        limit_name = f"max_nodes of {pool.name}" if pool else "max_nodes of every pool"
        remedy = f"give at most {most}, or raise max_nodes in the configuration"
        raise invalid("nodes", f"nodes is above {limit_name} ({most})", remedy)
    return nodes


def _until(fields: Mapping[str, Any], policy: Policy, now: datetime) -> datetime:
    length, end = fields.get("for"), fields.get("until")
    longest = policy.longest_override
    if (length is None) is (end is None):
        problem = "until is missing" if end is None else "until and for are both given"
        raise invalid("until", problem, f"give either until ({MOMENT}) or for (such as 2h)")
    field = "until" if length is None else "for"
    until = _moment(end) if length is None else _end(length, policy, now)
    if until <= now:
        raise invalid(field, f"{field} is in the past: it is {now:%Y-%m-%dT%H:%M:%SZ} now", "give a later time")
    if until > now + longest:
        latest = f"give at most {lasting(longest)}, until {now + longest:%Y-%m-%dT%H:%M:%SZ}"
        remedy = f"{latest}, or raise overrides.longest in the configuration"
        raise invalid(field, f"{field} is more than {lasting(longest)} ahead", remedy)
    return until


def _moment(text: object) -> datetime:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise invalid("until", "until is not a time with a time zone", f"write it as RFC 3339 does, {MOMENT}")


def _end(length: object, policy: Policy, now: datetime) -> datetime:
    if not isinstance(length, str) or not length.strip():
        raise invalid("for", "for is missing" if isinstance(length, str) else "for is not text", LENGTH)
    try:
        return end_of(length, now, policy.timezone)
    except Wrong as wrong:
        raise invalid("for", f"for: {wrong.problem}", wrong.remedy) from wrong


# --- the allowance of a month


def add_budget_changes(routes: Blueprint, parts: WebParts) -> None:
    """Add the routes that change an allowance to *routes*."""

    @routes.post("/budget")
    def set_budget() -> Response:
        require_operator(parts)
        example = '{"scope": "cluster", "monthly_usd": "6000", "who": "", "why": ""}'
        body = read_object(request, ("scope", "name", "monthly_usd", "who", "why", "confirm"), example)
        confirmed = body.get("confirm", False)
        if not isinstance(confirmed, bool):
            raise invalid("confirm", "confirm is neither true nor false", "write true or false, without quotes")
        return jsonify(change_budget(body, amount_of(body.get("monthly_usd")), parts, confirmed=confirmed))

    @routes.delete("/budget")
    def reset_budget() -> Response:
        require_operator(parts)
        confirmed = request.args.get("confirm", "false")
        if confirmed not in ("true", "false"):
            raise invalid("confirm", "confirm is neither true nor false", "write true, or leave it out")
        return jsonify(change_budget(request.args, None, parts, confirmed=confirmed == "true"))


def change_budget(
    fields: Mapping[str, Any], usd: Decimal | None, parts: WebParts, *, confirmed: bool
) -> BudgetChangeDocument:
    """Set this month's allowance of the budget that *fields* name to *usd*, or to the configured one (None). Raises
    Problem for a mistake, and for one that stops growth unless that is *confirmed*; TryLater."""
    change = _budget_change(fields, usd, parts.policy, parts.clock.now())
    display_name = parts.pool_name(change.name) if change.name else ""
    monthly = _configured(change, parts.policy) if usd is None else usd
    stopped = None if monthly is None else _stopped(change, display_name, monthly, parts)
    if stopped is not None and not confirmed:
        amount = "This" if usd is not None or monthly is None else f"The configured {dollars(monthly)}"
        raise Problem(409, f"{amount} is {stopped}", 'add --yes, in JSON "confirm": true', field="confirm")
    parts.store.change_budget(change, budget_changed(change, title_of(change.scope, display_name), stopped))
    parts.wake()
    log.info("budget changed", scope=change.scope.value, name=change.name, usd=str(change.monthly_usd))
    return BudgetChangeDocument.of(change, name=display_name)


def _configured(change: BudgetChange, policy: Policy) -> Decimal | None:
    """Return the configured allowance of the budget that *change* resets, None without one."""
    budget, pool = policy.budget, policy.pool(change.name)
    if budget is None:
        return None
    return {
        Scope.ACCOUNT: budget.account_usd,
        Scope.CLUSTER: budget.monthly_usd,
        Scope.POOL: pool.budget_usd if pool is not None else None,
        Scope.TEAM: budget.teams.get(change.name),
    }[change.scope]


def _stopped(change: BudgetChange, display_name: str, monthly: Decimal, parts: WebParts) -> Stops | None:
    """Return what *monthly* USD would stop by the spend that the last step saw. *display_name* is what people see."""
    picture, _ = kept_picture(parts.store)
    budgets = [
        b for b in picture.budgets if (b.scope, b.name) == (change.scope, display_name) and b.month == change.month
    ]
    if not budgets or budgets[0].spent_usd is None or parts.policy.budget is None:
        return None
    before = BudgetStage(budgets[0].stage) if budgets[0].stage is not None else None
    closes = mode_of(picture, parts) == "act"
    return stops(change.scope, monthly, budgets[0].spent_usd, before, parts.policy.budget, closes=closes)


def amount_of(amount: object) -> Decimal:
    """Return the USD that *amount* says. Raises Problem."""
    if amount is None:
        raise invalid("monthly_usd", "monthly_usd is missing", "give an amount of USD such as 1250.50")
    if isinstance(amount, bool) or not isinstance(amount, str | int | Decimal):
        raise invalid("monthly_usd", "monthly_usd is not an amount of USD", "write digits and a point")
    try:
        return Decimal(parse(Money, str(amount)))
    except Wrong as wrong:
        raise invalid("monthly_usd", f"monthly_usd: {wrong.problem}", wrong.remedy) from wrong


def _budget_change(fields: Mapping[str, Any], usd: Decimal | None, policy: Policy, now: datetime) -> BudgetChange:
    if policy.budget is None:
        raise invalid("scope", "no budget is configured", "add budget.monthly_usd to the configuration")
    scope = choice_asked(fields, "scope", Scope)
    return BudgetChange(
        scope=scope,
        name=_budget_name(fields.get("name"), scope, policy),
        month=month_of(now, policy.budget.timezone).name,
        monthly_usd=usd,
        who=words_asked(fields, "who", "give the name of the person, such as alice"),
        why=words_asked(fields, "why", "give the reason in one sentence"),
        at=now,
    )


def _budget_name(name: object, scope: Scope, policy: Policy) -> str:
    """The pool's id or the team; empty where the scope says it all."""
    if scope in (Scope.ACCOUNT, Scope.CLUSTER):
        if name not in (None, ""):
            raise invalid("name", f"there is one {scope} only", "leave name out")
        return ""
    if not isinstance(name, str) or not name:
        raise invalid("name", f"name is missing: which {scope}?", f"give the name of the {scope}")
    if scope is Scope.TEAM:
        try:
            return str(parse(LabelValue, name))
        except Wrong as wrong:
            raise invalid("name", f"name: {wrong.problem}", wrong.remedy) from wrong
    pool = policy.pool(name)
    if pool is None:
        remedy = did_you_mean(name, [p.name for p in policy.pools])
        raise invalid("name", "no pool has this id or name", remedy)
    return pool.id
