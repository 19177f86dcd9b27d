"""A request's query and body, read up to a limit and checked; a refusal says what is accepted."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from flask import Request, request

from receiver.config.values import did_you_mean
from receiver.core.explain.rules import RULES
from receiver.core.model.policy import Pool
from receiver.ports import DecisionFilter, DecisionKind
from receiver.web.api.documents import LONGEST_TEXT
from receiver.web.auth.tokens import OPERATOR, require_bearer
from receiver.web.errors import REMEDIES, Problem
from receiver.web.operation import TEXT
from receiver.web.parts import WebParts

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
MAX_ROW = 2**63 - 1  # the largest row number that SQLite and PostgreSQL can hold
LARGEST_FORM = LARGEST_BODY = 16 * 1024  # bytes
MOST_FIELDS = 20
# What `pool_asked` and `limit_asked` read, for the OpenAPI document.
POOL_QUERY = ("pool", {**TEXT, "description": "a pool's name or id"})
LIMIT_QUERY = ("limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT})
Word = TypeVar("Word", bound=StrEnum)


class Last(StrEnum):
    """A time up to now."""

    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"


SPANS = {Last.HOUR: timedelta(hours=1), Last.DAY: timedelta(days=1), Last.WEEK: timedelta(days=7)}


def invalid(field: str, error: str, remedy: str) -> Problem:
    """Return the 400 for *field* of a request."""
    return Problem(400, error, remedy, field=field)


def require_operator(parts: WebParts) -> None:
    """Raise Unauthorized unless the request holds the operator's token."""
    token = parts.tokens().operator
    require_bearer(request.headers.get("Authorization"), (token,) if token else (), OPERATOR)


def limit_asked() -> int:
    """Return the query's *limit*; Problem 400 unless it is a whole number from 1 to 500."""
    text = request.args.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= number <= MAX_LIMIT:
        remedy = f"give a whole number from 1 to {MAX_LIMIT}, or leave it out for {DEFAULT_LIMIT}"
        raise invalid("limit", "limit is not a number that can be used", remedy)
    return number


def pool_called(parts: WebParts, name_or_id: str) -> Pool:
    """Return the pool of that id or name; Problem 404 that names the known ones."""
    pool = parts.policy.pool(name_or_id)
    if pool is None:
        pools = [{"name": p.name, "pool": p.id} for p in parts.policy.pools]
        remedy = "use one of: " + ", ".join(p.name for p in parts.policy.pools) if pools else "configure a pool"
        raise Problem(404, "no pool has this id or name", remedy, field="pool", known=pools)
    return pool


def pool_asked(parts: WebParts) -> str | None:
    """Return the id of the query's *pool*, or None when none is asked for."""
    name = request.args.get("pool")
    return pool_called(parts, name).id if name is not None else None


def decisions_asked(parts: WebParts, query: Mapping[str, str]) -> DecisionFilter:
    """Return which decisions a query asks for by its parts. Problem 400 or 404 for a part that is not valid.

    *last* counts back from now, and *from* and *until* without an offset are UTC. All of them hold at once."""
    last = choice_asked(query, "last", Last) if "last" in query else None
    starts = [parts.clock.now() - SPANS[last]] if last is not None else []
    starts += [_moment(query, "from")] if "from" in query else []
    if "rule" in query and query["rule"] not in RULES:
        raise invalid("rule", "unknown rule", did_you_mean(query["rule"], tuple(RULES)))
    before = query.get("before", "1")
    if not (before.isascii() and before.isdigit()):
        raise invalid("before", "before is not the number of a decision", "take it from the oldest one you have")
    return DecisionFilter(
        pool=pool_called(parts, query["pool"]).id if "pool" in query else None,
        rule=query.get("rule"),
        kind=choice_asked(query, "kind", DecisionKind) if "kind" in query else None,
        since=max(starts, default=None),
        until=_moment(query, "until") if "until" in query else None,
        before=min(int(before[:20]), MAX_ROW) if "before" in query else None,
    )


def _moment(query: Mapping[str, str], field: str) -> datetime:
    try:
        at = datetime.fromisoformat(query[field])
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid(field, f"{field} is not a time", "give one such as 2026-03-10T14:30, which is UTC") from None


def choice_asked(fields: Mapping[str, Any], field: str, kinds: type[Word]) -> Word:
    """Return the word of *kinds* in *field* of *fields*; Problem 400 for any other."""
    choices, word = [kind.value for kind in kinds], fields.get(field)
    if word is None:
        raise invalid(field, f"{field} is missing", f"use one of: {', '.join(choices)}")
    if word not in choices:
        raise invalid(field, f"unknown {field}", did_you_mean(str(word), choices))
    return kinds(word)


def words_asked(fields: Mapping[str, Any], field: str, remedy: str) -> str:
    """Return the text in *field* of *fields* on one line; Problem 400 with *remedy* when there is none."""
    text = fields.get(field)
    if text is None or (isinstance(text, str) and not text.strip()):
        raise invalid(field, f"{field} is missing", remedy)
    if not isinstance(text, str):
        raise invalid(field, f"{field} is not text", remedy)
    plain = one_line(text)
    if len(plain) > LONGEST_TEXT:
        raise invalid(field, f"{field} is longer than {LONGEST_TEXT} characters", "shorten it")
    return plain


def one_line(text: str) -> str:
    """Return *text* on one line, without what cannot be printed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def read_form(incoming: Request, limit: int = LARGEST_FORM) -> dict[str, str]:
    """Return the fields of a page's form, of one name the first; Problem 413 or 400 for what no page sends."""
    body = read_body(incoming, limit, "shorten the text").decode("utf-8", "replace")
    try:
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
    except ValueError:
        raise Problem(400, "the form has more fields than any page sends", "open the page and send its form") from None
    return dict(reversed(pairs))


def read_object(incoming: Request, fields: Sequence[str], example: str) -> Mapping[str, Any]:
    """Return the JSON object of the body, with Decimals; Problem 400 for anything but *fields*, 413 if too large."""
    try:
        body = json.loads(read_body(incoming, LARGEST_BODY), parse_float=Decimal)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Problem(400, "the body is not a JSON object", f"send one such as {example}")
    for field in body:
        if field not in fields:
            raise invalid(field, "unknown field", did_you_mean(field, fields))
    return body


def read_body(incoming: Request, limit: int, remedy: str = REMEDIES[413]) -> bytes:
    """Return the body, chunked or not; Problem 413 for one over *limit* bytes, read one byte past it at most."""
    too_large = Problem(413, f"the body is larger than {limit} bytes", remedy, limit_bytes=limit)
    if incoming.content_length is not None and incoming.content_length > limit:
        raise too_large
    read = bytearray()
    while part := incoming.stream.read(limit + 1 - len(read)):
        read += part
        if len(read) > limit:
            raise too_large
    return bytes(read)
