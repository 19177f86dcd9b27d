"""What a request asks for in its query, checked; a refusal says what is taken."""

from flask import request

from receiver.core.model.policy import Pool
from receiver.web.errors import Problem
from receiver.web.parts import WebParts

DEFAULT_LIMIT = 50
MAX_LIMIT = 500


def limit_asked() -> int:
    """Return the query's *limit*; Problem 400 unless it is a whole number from 1 to 500."""
    text = request.args.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= number <= MAX_LIMIT:
        raise Problem(
            400,
            "limit is not a number that can be used",
            f"give a whole number from 1 to {MAX_LIMIT}, or leave it out for {DEFAULT_LIMIT}",
            field="limit",
        )
    return number


def pool_called(parts: WebParts, name_or_id: str) -> Pool:
    """Return the pool of that id or name; Problem 404 that names the known ones."""
    pool = parts.policy.pool(name_or_id)
    if pool is None:
        known = [{"name": p.name, "pool": p.id} for p in parts.policy.pools]
        raise Problem(
            404,
            "no pool has this id or name",
            "use one of: " + ", ".join(p.name for p in parts.policy.pools) if known else "configure a pool",
            field="pool",
            known=known,
        )
    return pool


def pool_asked(parts: WebParts) -> str | None:
    """Return the id of the query's *pool*, or None when none is asked for."""
    asked = request.args.get("pool")
    return pool_called(parts, asked).id if asked is not None else None
