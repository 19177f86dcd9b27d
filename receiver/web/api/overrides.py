"""/api/v1/overrides: temporary overrides of policy, checked field by field. Writing takes the operator's token."""

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import structlog
from flask import Blueprint, Response, jsonify, make_response, request

from receiver.config.document import parse
from receiver.config.values import LongerThanZero, Wrong, did_you_mean, nearest
from receiver.core.model.overrides import EVERY_POOL, SIZES, Override, OverrideKind
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import lasting
from receiver.core.notices.people_notices import was_ended, was_set
from receiver.ports import StoredOverride
from receiver.reports.picture import Picture, kept_picture
from receiver.web.api.documents import LONGEST_TEXT, OverrideDocument, as_list
from receiver.web.api.request_parts import MAX_LIMIT, limit_asked, pool_asked, read_object
from receiver.web.auth.tokens import require_operator
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

EXAMPLE = '{"kind": "pause", "for": "2h", "who": "", "why": ""}'
UNNAMED = "an operator"

log = structlog.get_logger(__name__)


def add_overrides(routes: Blueprint, parts: WebParts) -> None:
    """Add the routes to *routes*."""

    @routes.get("/overrides")
    def overrides() -> Response:
        """List those that are not over, the newest first; with ``ended=true`` those that are, behind them."""
        pool, limit, now = pool_asked(parts), limit_asked(), parts.clock.now()
        with_ended = request.args.get("ended", "false")
        if with_ended not in ("true", "false"):
            raise Problem(400, "ended is neither true nor false", "write true, or leave it out", field="ended")
        found = [s for s in parts.store.overrides(limit=MAX_LIMIT) if pool is None or s.override.concerns(pool)]
        over = [s for s in found if s.ended_at is not None or s.override.until <= now]
        going_on = [s for s in found if s not in over]
        listed = [*going_on, *(over if with_ended == "true" else [])]
        return jsonify(as_list(OverrideDocument.of_stored(s, parts, now) for s in listed[:limit]))

    @routes.post("/overrides")
    def set_one() -> Response:
        """Set one: stored with its message in one transaction; this wakes the step that acts on it."""
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        now = parts.clock.now()
        override, problems = override_of(read_object(request, FIELDS, EXAMPLE), parts.policy, now)
        if override is None:
            raise problems[0]
        keep_override(override, parts)
        response = make_response(
            jsonify(OverrideDocument.of_stored(StoredOverride(override=override), parts, now).document()), 201
        )
        response.headers["Location"] = f"/api/v1/overrides/{override.id}"
        return response

    @routes.get("/overrides/<number>")
    def one(number: str) -> Response:
        stored = _kept(parts, number)
        return jsonify(OverrideDocument.of_stored(stored, parts, parts.clock.now()).document())

    @routes.delete("/overrides/<number>")
    def end_one(number: str) -> Response:
        """End one before its time; the query's ``who`` is told as the one who did."""
        require_operator(request.headers.get("Authorization"), parts.operator_token)
        ended = end_override(number, request.args.get("who", ""), parts)
        return jsonify(OverrideDocument.of_stored(ended, parts, parts.clock.now()).document())


def keep_override(override: Override, parts: WebParts) -> None:
    """Store *override* and its message in one transaction, and wake the loop. Raises TryLater."""
    idle = _idle(kept_picture(parts.store)[0], override.pool)
    parts.store.set_override(override, was_set(override, parts.policy, idle))
    parts.wake()
    log.info("override set", override=override.id, said=str(override))


def _idle(found: Picture, pool: str | None) -> tuple[str, ...]:
    """The names of the idle nodes of *pool* (an id), of every pool for None."""
    pools = [each for each in found.pools if pool in (None, each.pool)]
    return tuple(str(n.name) for each in pools for n in each.nodes if n.idle_since is not None)


def end_override(number: str, who: str, parts: WebParts) -> StoredOverride:
    """End the override with the id *number*, send a message that names *who*, wake the loop, and return it.

    Raises TryLater, and Problem 404 for one that is not there or not in force.
    """
    now, stored = parts.clock.now(), _kept(parts, number)
    by = one_line(who)[:100] or UNNAMED
    notice = was_ended(stored.override, by, parts.policy)
    if stored.ended_at is not None or not parts.store.end_override(number, now, by, notice):
        raise Problem(404, "this override has ended already", "see /api/v1/overrides for those in force", field="id")
    parts.wake()
    log.info("override ended", override=number, by=by)
    return StoredOverride(override=stored.override, ended_at=now, ended_by=by)


def _kept(parts: WebParts, number: str) -> StoredOverride:
    stored = parts.store.override(number)
    if stored is None:
        raise Problem(404, "no override has this id", "see /api/v1/overrides for those in force", field="id")
    return stored


FIELDS = ("kind", "pool", "nodes", "for", "until", "who", "why")
T = TypeVar("T")
MOMENT = "such as 2026-11-21T18:00:00Z"


def override_of(
    said: Mapping[str, Any], policy: Policy, now: datetime, once: str = ""
) -> tuple[Override | None, list[Problem]]:
    """Return the override that *said* asks for, or None and what is wrong with each field.

    Its id ends with *once*, else with something new.
    """
    problems: list[Problem] = []

    def checked(check: Callable[[], T]) -> T | None:
        try:
            return check()
        except Problem as problem:
            problems.append(problem)
            return None

    kind = checked(lambda: _kind(said.get("kind")))
    pool = checked(lambda: _pool(said.get("pool"), policy))
    # How many nodes may be said depends on kind and pool: nothing is told of them while those are wrong.
    nodes = checked(lambda: _nodes(said, kind, pool, policy)) if kind is not None and not problems else None
    until = checked(lambda: _until(said, policy, now))
    who = checked(lambda: words_asked(said, "who", "say who sets it, such as alice"))
    why = checked(lambda: words_asked(said, "why", "say why in one sentence"))
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


def _kind(said: Any) -> OverrideKind:
    kinds = [kind.value for kind in OverrideKind]
    if said is None:
        raise Problem(400, "kind is missing", f"say one of: {', '.join(kinds)}", field="kind")
    if said not in kinds:
        raise Problem(400, "there is no such kind", did_you_mean(str(said), kinds), field="kind")
    return OverrideKind(said)


def _pool(said: Any, policy: Policy) -> Pool | None:
    if said in (None, EVERY_POOL):
        return None
    found = policy.pool(said) if isinstance(said, str) else None
    if found is not None:
        return found
    names = [p.name for p in policy.pools]
    close = nearest(str(said), [*names, EVERY_POOL])
    listed = f"use one of: {', '.join(names)}, or {EVERY_POOL} for every pool"
    raise Problem(
        400, "no pool has this id or name", f"did you mean {close}? {listed}" if close else listed, field="pool"
    )


def _nodes(said: Mapping[str, Any], kind: OverrideKind, pool: Pool | None, policy: Policy) -> int | None:
    nodes = said.get("nodes")
    if kind not in SIZES:
        if nodes is not None:
            raise Problem(400, f"a {kind} has no nodes", "leave nodes out", field="nodes")
        return None
    if nodes is None:
        raise Problem(400, f"nodes is missing: a {kind} says how many", "give a whole number", field="nodes")
    if isinstance(nodes, bool) or not isinstance(nodes, int):
        raise Problem(400, "nodes is no whole number", "give a number such as 4, without quotes", field="nodes")
    if nodes < 0:
        raise Problem(400, "nodes is negative", "give 0 or more", field="nodes")
    most = pool.max_nodes if pool else max(p.max_nodes for p in policy.pools)
    if nodes > most:
        whose = f"max_nodes of {pool.name}" if pool else "max_nodes of every pool"
        remedy = f"give at most {most}; nothing but the configuration goes beyond max_nodes"
        raise Problem(400, f"nodes is above {whose} ({most})", remedy, field="nodes")
    return nodes


def _until(said: Mapping[str, Any], policy: Policy, now: datetime) -> datetime:
    length, end = said.get("for"), said.get("until")
    longest = policy.longest_override
    if (length is None) is (end is None):
        problem = "until is missing" if end is None else "until and for are both given"
        raise Problem(400, problem, f"give either until ({MOMENT}) or for (such as 2h)", field="until")
    field = "until" if length is None else "for"
    until = _moment(end) if length is None else _after(length, now)
    if until <= now:
        raise Problem(
            400, f"{field} is not ahead: it is {now:%Y-%m-%dT%H:%M:%SZ} now", "give a later time", field=field
        )
    if until > now + longest:
        latest = f"give at most {lasting(longest)}, until {now + longest:%Y-%m-%dT%H:%M:%SZ}"
        remedy = f"{latest}, or raise overrides.longest in the configuration"
        raise Problem(400, f"{field} is more than {lasting(longest)} ahead", remedy, field=field)
    return until


def _moment(said: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(said) if isinstance(said, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Problem(400, "until is no time with a zone", f"write it as RFC 3339 does, {MOMENT}", field="until")


def _after(said: Any, now: datetime) -> datetime:
    if not isinstance(said, str):
        raise Problem(400, "for is no text", "write a duration with its unit, such as 90m or 2h", field="for")
    if not said.strip():
        raise Problem(400, "for is missing", "write a duration with its unit, such as 90m or 2h", field="for")
    try:
        length: timedelta = parse(LongerThanZero, said)
    except Wrong as wrong:
        raise Problem(400, f"for: {wrong.problem}", wrong.remedy, field="for") from wrong
    return now + length


def words_asked(said: Mapping[str, Any], field: str, remedy: str) -> str:
    """Return the text in *field* of *said* on one line; Problem 400 with *remedy* when there is none."""
    text = said.get(field)
    if text is None or (isinstance(text, str) and not text.strip()):
        raise Problem(400, f"{field} is missing", remedy, field=field)
    if not isinstance(text, str):
        raise Problem(400, f"{field} is no text", remedy, field=field)
    plain = one_line(text)
    if len(plain) > LONGEST_TEXT:
        raise Problem(400, f"{field} is longer than {LONGEST_TEXT} characters", "say it shorter", field=field)
    return plain


def one_line(text: str) -> str:
    """Return *text* on one line, without what cannot be printed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
