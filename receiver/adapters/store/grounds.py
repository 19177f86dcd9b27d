"""What the decisions of a step were made from, kept so that another version can make them again.

Facts and policy are two rows, each under the digest of what it says: a policy is there once however often it decided,
and the decisions of a step share their facts. Both are compressed JSON of the values, field by field, as pydantic reads
and writes dataclasses: a field that this version does not know is passed over, one that was not there yet has its
default. What deployments keep secret is in neither: tokens are settings, not policy.
"""

import json
import zlib
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, select

from receiver.adapters.store.database import insert_in
from receiver.adapters.store.prepared import Write
from receiver.adapters.store.schema import decisions, grounds
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.ports import Grounds, GroundsKept, WontWork

FORMAT = 1  # raised when what an older version kept can no longer be read as it is
INSERT = Write(lambda dialect: insert_in(dialect, grounds).on_conflict_do_nothing(), grounds.columns.keys())
LEVEL = 6  # of zlib: a third smaller than 1 for twice its time, and 9 takes three times that for a tenth


@cache
def _facts() -> TypeAdapter[Facts]:
    return TypeAdapter(Facts)  # built once, and not before it is needed: that takes a tenth of a second


@cache
def _policy() -> TypeAdapter[Policy]:
    return TypeAdapter(Policy)


def written(made_from: Grounds) -> Mapping[str, bytes]:
    """Return *made_from* as it is kept, by the column of a decision that names it."""
    return {
        "facts": zlib.compress(_facts().dump_json(made_from.facts), LEVEL),
        "policy": zlib.compress(_policy().dump_json(made_from.policy), LEVEL),
    }


def keep(connection: Connection, bodies: Mapping[str, bytes]) -> dict[str, str]:
    """Keep *bodies* unless they are there; return the columns of a decision that name them."""
    digests = {name: sha256(body).hexdigest() for name, body in bodies.items()}
    rows = [{"digest": digests[name], "format": FORMAT, "body": body} for name, body in bodies.items()]
    INSERT.run(connection, rows)
    return digests


def kept(connection: Connection, number: int) -> GroundsKept | None:
    """Return what decision *number* was made from as it is kept, or None."""
    row = connection.execute(select(decisions.c.facts, decisions.c.policy).where(decisions.c.id == number)).first()
    if row is None:
        return None
    found = {
        kept.digest: kept
        for kept in connection.execute(select(grounds).where(grounds.c.digest.in_([row.facts, row.policy])))
    }
    if row.facts not in found or row.policy not in found:
        return None
    facts, policy = found[row.facts], found[row.policy]
    return GroundsKept(format=max(facts.format, policy.format), facts=said(facts.body), policy=said(policy.body))


def read(found: GroundsKept) -> Grounds:
    """Return the values again. Raises WontWork for what another version kept in a way that this one cannot read."""
    if found.format > FORMAT:
        raise WontWork(
            f"what it was made from was kept by a later version (format {found.format}, this one reads {FORMAT}): "
            "ask with that version",
            code="grounds",
        )
    try:
        return Grounds(
            facts=_facts().validate_json(json.dumps(found.facts)),
            policy=_policy().validate_json(json.dumps(found.policy)),
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise WontWork(
            f"what it was made from cannot be read by this version: {where}: {first['msg']}", code="grounds"
        ) from error


def said(body: bytes) -> dict[str, Any]:
    """Return what *body* holds as JSON-able values."""
    document: dict[str, Any] = json.loads(zlib.decompress(body))
    return document
