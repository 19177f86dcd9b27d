"""Civo's responses as values: pools and instances, sizes, charges.

Fields may be absent, and numbers may come as text. Shapes are those of civogo (``kubernetes.go``, ``pool.go``,
``charge.go``) and of responses seen live. Errors name what is missing and never quote a response, which may carry
passwords, tokens and a kubeconfig. They are TryLater with the code ``malformed``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from receiver.adapters.http.sessions import moment
from receiver.core.model.charges import Charge
from receiver.core.model.resources import CPU, GIB, MEMORY, MIB, STORAGE
from receiver.core.model.text import harmless
from receiver.ports import Charges, CloudPool, Instance, TryLater

DIGITS = 6  # of a count; no pool has a million nodes, and databases do not take every number
SIZE_UNITS = {"cpu_cores": (CPU, 1000), "ram_mb": (MEMORY, MIB), "disk_gb": (STORAGE, GIB)}
MOST_OF_SIZE = 10**7  # a larger number of cores, MB or GB is no machine's
MOST_CHARGED = Decimal(10_000_000)  # hours of a thousand years, GB of ten petabytes, nodes
LEAST_CHARGED = Decimal("0.000001")  # less counts as zero


# --- pools and instances


@dataclass(frozen=True, slots=True)
class Required:
    """How many nodes of which size a pool should have."""

    count: int
    size: str


class _Found(NamedTuple):
    """One instance as far as a response describes it."""

    id: str
    hostname: str
    status: str
    created_at: datetime | None

    @property
    def complete(self) -> bool:
        return bool(self.id) and self.created_at is not None


def required_pools(cluster: object) -> Mapping[str, Required]:
    """Return what each pool should have, by pool id.

    A pool at zero nodes is listed only here. Reading a response without ``required_pools`` as "no pools" would make
    every node look gone, so that is an error.
    """
    found = _by_id(cluster, "required_pools")
    if not found:
        raise malformed("required_pools")
    return {pool: Required(_count(fields, pool), _word(fields, "size")) for pool, fields in found.items()}


def cloud_pools(cluster: object, listing: Callable[[], object], now: datetime) -> Mapping[str, CloudPool]:
    """Merge the required counts with the existing instances, by pool id.

    *listing* fetches the cluster's bare instance list and is called only if the pools omit an id or ``created_at``.
    An instance that still lacks one of the two is an error: its cost would be unknown. The exception is one still
    being built without ``created_at``: it counts from *now*, within a step of the truth, and the ledger keeps the
    first time it saw.
    """
    wanted, existing = required_pools(cluster), _by_id(cluster, "pools")
    found = {pool: _instances(fields) for pool, fields in existing.items()}
    if not all(i.complete for instances in found.values() for i in instances):
        known = _known(listing())
        found = {pool: [_filled(i, known) for i in instances] for pool, instances in found.items()}
    nothing = Required(0, "")
    return {
        pool: CloudPool(
            id=pool,
            required=wanted.get(pool, nothing).count,
            size=wanted.get(pool, nothing).size or _word(existing.get(pool, {}), "size"),
            instances=tuple(_instance(i, pool, now) for i in found.get(pool, ())),
        )
        for pool in {**wanted, **found}
    }


def _by_id(cluster: object, name: str) -> dict[str, Mapping[str, object]]:
    """Return the pools that *cluster* lists under *name*, by id."""
    found: dict[str, Mapping[str, object]] = {}
    for record in _list(_fields(cluster, "the cluster"), name):
        fields = _fields(record, f"an entry of {name}")
        pool = _word(fields, "id")
        if not pool:
            raise malformed(f"the id of a pool in {name}")
        found[pool] = fields
    return found


def _instances(pool: Mapping[str, object]) -> list[_Found]:
    """Return the instances of one pool; for a name in ``instance_names`` without an entry only the name is known."""
    found = [_found(_fields(record, "an instance")) for record in _list(pool, "instances")]
    named = {i.hostname for i in found}
    names = (harmless(n) for n in _list(pool, "instance_names") if isinstance(n, str))
    return [*found, *(_found({"hostname": name}) for name in names if name and name not in named)]


def _found(fields: Mapping[str, object]) -> _Found:
    return _Found(
        id=_word(fields, "id"),
        hostname=_word(fields, "hostname") or _word(fields, "name"),
        status=_word(fields, "status").upper(),
        created_at=moment(fields.get("created_at")),
    )


def _known(response: object) -> Sequence[_Found]:
    records = response.get("items") if isinstance(response, dict) else response
    if not isinstance(records, list):
        raise malformed("the list of instances")
    return [_found(_fields(record, "an instance")) for record in records]


def _filled(instance: _Found, known: Sequence[_Found]) -> _Found:
    """Return *instance* with what *known* adds, matched by exact id, or by exact host name if it has no id."""
    if instance.complete:
        return instance
    for other in known:
        same = other.id == instance.id if instance.id else other.hostname == instance.hostname != ""
        if same:
            return _Found(
                id=other.id,
                hostname=instance.hostname or other.hostname,
                status=instance.status or other.status,
                created_at=instance.created_at or other.created_at,
            )
    return instance


def _instance(found: _Found, pool: str, now: datetime) -> Instance:
    if not found.id:
        raise malformed(f"the id of instance {found.hostname or '(unnamed)'} in pool {pool}")
    created_at = found.created_at or (now if found.status.startswith("BUILD") else None)
    if created_at is None:
        raise malformed(f"created_at of instance {found.id} in pool {pool}")
    return Instance(id=found.id, hostname=found.hostname, status=found.status, created_at=created_at)


def _count(fields: Mapping[str, object], pool: str) -> int:
    """Return the count; absent means zero (Go drops zeros)."""
    value = fields.get("count", 0)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**DIGITS:
        raise malformed(f"the count of pool {pool}")
    return value


# --- sizes


def machines_of(response: object) -> Mapping[str, Mapping[str, int]]:
    """Return CPU, memory and disk of each size's machine (`receiver.core.model.resources`), by the size's name."""
    if not isinstance(response, list):
        raise malformed("the list of sizes")
    records = (record for record in response if isinstance(record, dict) and isinstance(record.get("name"), str))
    found = {record["name"]: _machine(record) for record in records}
    return {name: machine for name, machine in found.items() if machine}


def _machine(record: Mapping[str, object]) -> dict[str, int]:
    read = {resource: (whole(record.get(name)), unit) for name, (resource, unit) in SIZE_UNITS.items()}
    return {r: n * unit for r, (n, unit) in read.items() if n is not None and 0 < n <= MOST_OF_SIZE}


def whole(value: object) -> int | None:
    """Return a number, which may come as text (seen in other clients' decoders), or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return None


# --- charges


def charges_of(response: object) -> Charges:
    """Return the records of *response*, a bare list. A record that cannot be read is reported, never dropped."""
    if not isinstance(response, list):
        raise malformed("the list of charges")
    read = [(number, _charge(record)) for number, record in enumerate(response, start=1)]
    return Charges(
        records=tuple(charge for _, charge in read if isinstance(charge, Charge)),
        unreadable=tuple(f"record {number}: {wrong}" for number, wrong in read if isinstance(wrong, str)),
    )


def _charge(record: object) -> Charge | str:
    """One record, or what is wrong with it: ``num_hours`` may be a fraction, ``to`` null, times have an offset."""
    if not isinstance(record, dict):
        return "it is not an object"
    code, label = _word(record, "code"), _word(record, "label")
    about = f"(label {label or 'missing'})"
    if not code:
        return f"it has no code {about}"
    hours = _amount(record.get("num_hours"))
    frm, to = moment(record.get("from")), moment(record.get("to"))
    if frm is not None and to is not None and to < frm:
        frm = to = None
    if hours is None and frm is None:
        return f"{code} has neither hours nor a start {about}"
    if record.get("to") is not None and to is None and hours is None:
        return f"{code} has neither hours nor an end {about}"
    nodes = _amount(record.get("nodes"))
    if record.get("nodes") is not None and nodes is None:
        return f"{code} has an impossible number of nodes {about}"
    number = record.get("id")
    return Charge(
        code=code,
        label=label,
        id=str(number) if isinstance(number, int) and not isinstance(number, bool) else _word(record, "id") or None,
        frm=frm,
        to=to,
        hours=hours,
        nodes=int(nodes) if nodes is not None and nodes >= 1 else 1,
        size_gb=_amount(record.get("size_gb")),
        product=_word(record, "product_id") or None,
    )


def _amount(value: object) -> Decimal | None:
    """Return a number from 0 to `MOST_CHARGED`, which may come as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    if not number.is_finite() or not 0 <= number <= MOST_CHARGED:
        return None
    return number if number >= LEAST_CHARGED else Decimal(0)


# --- fields


def _fields(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise malformed(what)
    return value


def _list(fields: Mapping[str, object], name: str) -> Sequence[object]:
    value = fields.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise malformed(name)
    return value


def _word(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return harmless(value.strip()) if isinstance(value, str) else ""  # no database takes half a surrogate


def malformed(what: str) -> TryLater:
    """Return the error for a response in which *what* cannot be read."""
    return TryLater(f"cannot read Civo's response: {what} is missing or malformed", code="malformed")
