"""Civo's cluster object as values: tolerant of what may be absent, loud about what must not be.

Shapes are those of civogo ``kubernetes.go`` and ``pool.go``. Messages name what is missing and never quote
the answer: it carries passwords, tokens and the cluster's kubeconfig.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from receiver.adapters.http.timestamps import moment
from receiver.core.model.text import harmless
from receiver.ports import CloudPool, Instance, TryLater

DIGITS = 6  # of a count; no pool has a million nodes, and databases do not take every number


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """How many nodes of which size a pool should have."""

    count: int
    size: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One instance as far as an answer tells."""

    id: str
    hostname: str
    status: str
    created_at: datetime | None

    @property
    def complete(self) -> bool:
        return bool(self.id) and self.created_at is not None


def required_pools(cluster: object) -> Mapping[str, Required]:
    """Return what each pool should have, by pool id. Raises TryLater if *cluster* does not tell.

    A pool at zero nodes stands only here, so an answer without ``required_pools`` says nothing at all:
    taken for "no pools" it would make every node look gone.
    """
    records = _fields(cluster, "the cluster").get("required_pools")
    if not isinstance(records, list) or not records:
        raise _unreadable("required_pools")
    wanted: dict[str, Required] = {}
    for record in records:
        fields = _fields(record, "an entry of required_pools")
        pool = _word(fields, "id")
        if not pool:
            raise _unreadable("the id of a required pool")
        wanted[pool] = Required(count=_count(fields, pool), size=_word(fields, "size"))
    return wanted


def cloud_pools(cluster: object, listing: Callable[[], object], now: datetime) -> Mapping[str, CloudPool]:
    """Merge what is required with what exists, by pool id.

    *listing* fetches the cluster's bare instance list; it is asked only where the pools leave out an id or
    ``created_at``. Raises TryLater if an instance stays without one of the two: its cost would be unknown.
    Only one that is still being built may lack ``created_at``: it is counted from *now*, which is within a
    step of the truth, and the ledger keeps the first time it saw.
    """
    wanted = required_pools(cluster)
    found: dict[str, list[_Found]] = {}
    sizes: dict[str, str] = {}
    for record in _list(_fields(cluster, "the cluster"), "pools"):
        fields = _fields(record, "an entry of pools")
        pool = _word(fields, "id")
        if not pool:
            raise _unreadable("the id of a pool")
        found[pool] = _instances(fields)
        sizes[pool] = _word(fields, "size")
    if not all(i.complete for instances in found.values() for i in instances):
        known = _known(listing())
        found = {pool: [_filled(i, known) for i in instances] for pool, instances in found.items()}
    return {
        pool: CloudPool(
            id=pool,
            required=wanted[pool].count if pool in wanted else 0,
            size=(wanted[pool].size if pool in wanted else "") or sizes.get(pool, ""),
            instances=tuple(_instance(i, pool, now) for i in found.get(pool, ())),
        )
        for pool in (*wanted, *(p for p in found if p not in wanted))
    }


def _instances(pool: Mapping[str, object]) -> list[_Found]:
    """Return the instances of one pool; a name in ``instance_names`` without an entry is one we know by name only."""
    found = [_found(_fields(record, "an instance")) for record in _list(pool, "instances")]
    named = {i.hostname for i in found}
    told = (harmless(n) for n in _list(pool, "instance_names") if isinstance(n, str))
    names = (name for name in told if name and name not in named)
    return [*found, *(_Found(id="", hostname=name, status="", created_at=None) for name in names)]


def _found(fields: Mapping[str, object]) -> _Found:
    return _Found(
        id=_word(fields, "id"),
        hostname=_word(fields, "hostname") or _word(fields, "name"),
        status=_word(fields, "status").upper(),
        created_at=moment(fields.get("created_at")),
    )


def _known(answer: object) -> Sequence[_Found]:
    records = answer.get("items") if isinstance(answer, dict) else answer
    if not isinstance(records, list):
        raise _unreadable("the list of instances")
    return [_found(_fields(record, "an instance")) for record in records]


def _filled(instance: _Found, known: Sequence[_Found]) -> _Found:
    """Return *instance* with what *known* adds, matched by exact id, or by exact host name if it has no id."""
    if instance.complete:
        return instance
    for other in known:
        same = other.id == instance.id if instance.id else other.hostname == instance.hostname != ""
        if same:
            return replace(
                instance,
                id=other.id,
                hostname=instance.hostname or other.hostname,
                status=instance.status or other.status,
                created_at=instance.created_at or other.created_at,
            )
    return instance


def _instance(found: _Found, pool: str, now: datetime) -> Instance:
    if not found.id:
        raise _unreadable(f"the id of instance {found.hostname or '(unnamed)'} in pool {pool}")
    created_at = found.created_at or (now if found.status.startswith("BUILD") else None)
    if created_at is None:
        raise _unreadable(f"created_at of instance {found.id} in pool {pool}")
    return Instance(id=found.id, hostname=found.hostname, status=found.status, created_at=created_at)


def _count(fields: Mapping[str, object], pool: str) -> int:
    """Return the count; absent means zero (Go drops zeros), numbers may come as text."""
    value = fields.get("count", 0)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**DIGITS:
        raise _unreadable(f"the count of pool {pool}")
    return value


def _fields(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _unreadable(what)
    return value


def _list(fields: Mapping[str, object], name: str) -> Sequence[object]:
    value = fields.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _unreadable(name)
    return value


def _word(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return harmless(value.strip()) if isinstance(value, str) else ""  # no database takes half a surrogate


def _unreadable(what: str) -> TryLater:
    return TryLater(f"Civo's answer is not understood: {what} is missing or malformed", code="malformed")
