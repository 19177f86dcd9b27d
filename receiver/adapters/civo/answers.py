"""Civo's responses as values (pools and instances, sizes, charges), and its refusals as TryLater or WontWork.

Fields may be absent, and numbers may come as text. Shapes are those of civogo (``kubernetes.go``, ``pool.go``,
``charge.go``) and of responses seen live. Errors never quote a response: it may carry passwords and a kubeconfig.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from receiver.adapters.http.sessions import moment
from receiver.core.model.charges import Charge
from receiver.core.model.pods import CPU, GIB, MEMORY, MIB, STORAGE
from receiver.core.model.policy import Taint
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts
from receiver.core.model.text import harmless
from receiver.ports import Charges, CloudPool, Instance, TryLater, WontWork

DOCUMENTED = ("BUILDING", "BUILD_PENDING", "ACTIVE", "DELETING")  # in Civo's clients; another status is only a word
FIRST_YEAR = 2018  # in which Civo began: an earlier time is some language's zero
ABSENT = -1  # a count that is not there: Go drops zeros
DIGITS = 6  # of a count; no pool has a million nodes, and databases do not take every number
SIZE_UNITS = {"cpu_cores": (CPU, 1000), "ram_mb": (MEMORY, MIB), "disk_gb": (STORAGE, GIB)}
MOST_OF_SIZE = 10**7  # a larger number of cores, MB or GB is no machine's
MOST_CHARGED = Decimal(10_000_000)  # hours of a thousand years, GB of ten petabytes, nodes
LEAST_CHARGED = Decimal("0.000001")  # less counts as zero

Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Required:
    """How many nodes of which size a pool should have; *count* is None where the response does not say."""

    count: int | None
    size: str


@dataclass(frozen=True, slots=True)
class PoolRecords:
    """What the response says of one pool beside its required count: its *instances*, as far as they can be read, and
    what *lacks*."""

    size: str = ""
    instances: tuple[Fields, ...] = ()
    lacks: str = ""


def required_pools(cluster: object) -> Mapping[str, Required]:
    """Return what each pool should have, by pool id. A pool at zero nodes is listed only here. Reading a response
    without ``required_pools`` as "no pools" would make every node look gone, so that is an error."""
    pools: dict[str, Required] = {}
    for record in _list(_fields(cluster, "the cluster"), "required_pools"):
        if isinstance(record, dict) and (pool := _word(record, "id")):
            required = Required(_count(record), _word(record, "size"))
            earlier = pools.get(pool, required)
            pools[pool] = required if earlier.count == required.count else Required(None, required.size)
    if not pools:
        raise malformed("required_pools")
    return _without_dropped_zeros(cluster, pools)


def _without_dropped_zeros(cluster: object, pools: Mapping[str, Required]) -> Mapping[str, Required]:
    """Read an absent count as zero only where no instance lives: Go drops zeros, and a pool with instances whose count
    is missing would look as if others had lowered it."""
    if all(required.count != ABSENT for required in pools.values()):
        return pools
    existing = _existing(cluster)

    def count(pool: str) -> int | None:
        records = existing.get(pool, PoolRecords())
        return None if records.lacks or any(_status(r) != "DELETING" for r in records.instances) else 0

    return {
        pool: Required(count(pool), required.size) if required.count == ABSENT else required
        for pool, required in pools.items()
    }


def cloud_pools(cluster: object, listing: Callable[[], object], now: datetime) -> Mapping[str, CloudPool]:
    """Merge the required counts with the existing instances, by pool id. *listing* fetches the cluster's bare
    instance list and is called only if the pools omit an id, ``created_at`` or a documented status.

    What lacks in the response about one pool makes that pool unreadable, and no other. Of the two lists, the pool's is
    believed where it says something that Civo documents. An instance without a usable ``created_at`` has None, except
    one still being built: it counts from *now*, within a step of the truth, and the ledger keeps the first time it saw.
    """
    wanted, existing = required_pools(cluster), _existing(cluster)
    if not all(_is_complete(record) for records in existing.values() for record in records.instances):
        instances = _listed(listing)
        existing = {
            pool: replace(records, instances=tuple(_filled(record, instances) for record in records.instances))
            for pool, records in existing.items()
        }
    owners = Counter(
        number for records in existing.values() for number in {_word(record, "id") for record in records.instances}
    )
    return {
        pool: _pool(pool, wanted.get(pool), existing.get(pool, PoolRecords()), owners, now)
        for pool in {**wanted, **existing}
    }


def _pool(
    pool: str, wanted: Required | None, records: PoolRecords, owners: Mapping[str, int], now: datetime
) -> CloudPool:
    lacks = [records.lacks] if records.lacks else []
    instances: dict[str, Instance] = {}
    for record in records.instances:
        number = _word(record, "id")
        if not number:
            lacks.append(f"the id of instance {_hostname(record) or '(unnamed)'} is missing")
        elif owners[number] > 1:
            lacks.append(f"instance {number} is listed in {owners[number]} pools")
        else:
            instances.setdefault(number, _instance(record, now))
    if wanted is None and any(i.status != "DELETING" for i in instances.values()):
        lacks.append("the pool is missing from required_pools")
    if wanted is not None and wanted.count is None:
        lacks.append("its count in required_pools is missing or malformed")
    return CloudPool(
        id=pool,
        required=(wanted.count or 0) if wanted is not None else 0,
        size=(wanted.size if wanted is not None else "") or records.size,
        instances=tuple(instances.values()),
        unreadable="; ".join(dict.fromkeys(lacks)),
    )


def _existing(cluster: object) -> Mapping[str, PoolRecords]:
    """Return what exists, by pool id."""
    existing: dict[str, PoolRecords] = {}
    unnamed = False
    for record in _list(_fields(cluster, "the cluster"), "pools"):
        pool = _word(record, "id") if isinstance(record, dict) else ""
        if not isinstance(record, dict) or not pool:
            unnamed = True
            continue
        records, before = _records(record), existing.get(pool, PoolRecords())
        together = (*before.instances, *records.instances)
        existing[pool] = replace(records, instances=together, lacks=before.lacks or records.lacks)
    if unnamed:  # it may be any of those that should have nodes and are not among the others
        required = [r for r in _list(_fields(cluster, "the cluster"), "required_pools") if isinstance(r, dict)]
        for pool in (_word(record, "id") for record in required if _count(record) != 0):
            existing.setdefault(pool, PoolRecords(lacks="an entry of pools has no id"))
    return {pool: records for pool, records in existing.items() if pool}


def _records(pool: Fields) -> PoolRecords:
    """Return the instances of one pool; for a name in ``instance_names`` without an entry only the name is known."""
    try:
        listed, names = _list(pool, "instances"), _list(pool, "instance_names")
    except TryLater:
        return PoolRecords(size=_word(pool, "size"), lacks="its list of instances is malformed")
    instances = [record for record in listed if isinstance(record, dict)]
    lacks = "" if len(instances) == len(listed) else "an instance is malformed"
    named = {"", *map(_hostname, instances)}
    instances += [{"hostname": name} for n in names if isinstance(n, str) and (name := harmless(n)) not in named]
    if not instances and pool.get("instances") is None and _count(pool) not in (0, ABSENT):
        lacks = "its list of instances is missing"
    return PoolRecords(size=_word(pool, "size"), instances=tuple(instances), lacks=lacks)


def _listed(listing: Callable[[], object]) -> Sequence[Fields]:
    """Return the bare list of instances; nothing if it cannot be had. It only adds to what is known."""
    try:
        response = listing()
    except (TryLater, WontWork):
        return ()
    listed = response.get("items") if isinstance(response, dict) else response
    return [record for record in listed if isinstance(record, dict)] if isinstance(listed, list) else ()


def _hostname(instance: Fields) -> str:
    return _word(instance, "hostname") or _word(instance, "name")


def _status(instance: Fields) -> str:
    return _word(instance, "status").upper()


def _created_at(instance: Fields) -> datetime | None:
    created_at = moment(instance.get("created_at"))
    return created_at if created_at is not None and created_at.year >= FIRST_YEAR else None


def _is_complete(instance: Fields) -> bool:
    return bool(_word(instance, "id")) and _created_at(instance) is not None and _status(instance) in DOCUMENTED


def _filled(instance: Fields, records: Sequence[Fields]) -> Fields:
    """Return *instance* with what *records* add, matched by exact id, or by exact host name if it has no id."""
    if _is_complete(instance):
        return instance
    number, host = _word(instance, "id"), _hostname(instance)
    for other in records:
        if _word(other, "id") == number if number else _hostname(other) == host != "":
            words = [_status(instance), _status(other)]
            return {
                "id": number or other.get("id"),
                "hostname": host or _hostname(other),
                "status": next((word for word in words if word in DOCUMENTED), words[0] or words[1]),
                "created_at": (instance if _created_at(instance) is not None else other).get("created_at"),
            }
    return instance


def _instance(fields: Fields, now: datetime) -> Instance:
    number, status = _word(fields, "id"), _status(fields)
    created_at = _created_at(fields) or (now if status.startswith("BUILD") else None)
    return Instance(id=number, hostname=_hostname(fields), status=status, created_at=created_at)


def _count(fields: Fields) -> int | None:
    """Return the count, ABSENT, or None where it is malformed."""
    if "count" not in fields:
        return ABSENT
    value = fields["count"]
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= DIGITS:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**DIGITS:
        return None
    return value


def machines_of(response: object) -> Mapping[str, Mapping[str, int]]:
    """Return CPU, memory and disk of each size's machine (`receiver.core.model.pods`), by the size's name."""
    if not isinstance(response, list):
        raise malformed("the list of sizes")
    machines: dict[str, Mapping[str, int]] = {}
    for record in response:
        if isinstance(record, dict) and isinstance(record.get("name"), str):
            read = ((resource, whole(record.get(name)), unit) for name, (resource, unit) in SIZE_UNITS.items())
            machine = {resource: n * unit for resource, n, unit in read if n is not None and 0 < n <= MOST_OF_SIZE}
            if machine:
                machines[record["name"]] = machine
    return machines


def pool_facts_of(cluster: object, sizes: object) -> PoolFacts:
    """Return what the cluster and the list of sizes say of pools. Raises TryLater for responses that are neither."""
    if not isinstance(sizes, list):
        raise malformed("the list of sizes")
    fields, wanted = _fields(cluster, "the cluster"), required_pools(cluster)
    fields_by_pool: dict[str, Fields] = {}
    for record in (*_list(fields, "pools"), *_list(fields, "required_pools")):
        if isinstance(record, dict) and (pool := _word(record, "id")):
            node_fields = {key: record[key] for key in ("labels", "taints") if record.get(key) is not None}
            fields_by_pool[pool] = {**fields_by_pool.get(pool, {}), **node_fields}
    existing = _existing(cluster)
    pools = {
        pool: PoolAtCivo(
            size=(wanted[pool].size if pool in wanted else "") or existing.get(pool, PoolRecords()).size,
            labels=_labels(pool_fields.get("labels")),
            taints=_taints(pool_fields.get("taints")),
        )
        for pool, pool_fields in fields_by_pool.items()
    }
    gpus = {_word(r, "name"): whole(r.get("gpu_count")) for r in sizes if isinstance(r, dict) and _word(r, "name")}
    return PoolFacts(pools=pools, gpus=gpus)


def _labels(value: object) -> Mapping[str, str] | None:
    """Return labels, or None for anything else."""
    if not isinstance(value, dict):
        return None
    return {harmless(key): harmless(label) for key, label in value.items() if isinstance(label, str)}


def _taints(value: object) -> tuple[Taint, ...] | None:
    """Return taints, or None for anything else."""
    if not isinstance(value, list):
        return None
    return tuple(
        Taint(key=_word(taint, "key"), value=_word(taint, "value"), effect=_word(taint, "effect") or "NoSchedule")
        for taint in value
        if isinstance(taint, dict)
    )


def whole(value: object) -> int | None:
    """Return a number, which may come as text (seen in other clients' decoders), or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return None


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
    if number.is_finite() and 0 <= number <= MOST_CHARGED:
        return number if number >= LEAST_CHARGED else Decimal(0)
    return None


def _fields(value: object, what: str) -> Fields:
    if not isinstance(value, dict):
        raise malformed(what)
    return value


def _list(fields: Fields, name: str) -> Sequence[object]:
    value = fields.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise malformed(name)
    return value


def _word(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return harmless(value.strip()) if isinstance(value, str) else ""  # no database takes half a surrogate


def malformed(what: str) -> TryLater:
    return TryLater(f"cannot read Civo's response: {what} is missing or malformed", code="malformed")


# A 403 from Civo is as often "no GPU is free" as "wrong key", so refusals are told apart by their ``code``. Codes are
# those of civogo (``errors.go``) and ``gpu_count_exceeded``, which is seen live and missing there.
REMEDIES: Mapping[str, str] = {
    "quota_limit_reached": "ask Civo to raise the account's quota, or free what uses it up",
    "gpu_count_exceeded": "not enough GPUs of this kind are free in the region; wait, or use another size or region",
    "out_of_capacity": "the region has no capacity left; wait, or use another region",
    "region_unavailable": "check CIVO_REGION",
    "disabled_service": "the service is disabled in this region or for this account; ask Civo",
    "database_kubernetes_cluster_not_found": "check CIVO_CLUSTER_ID and CIVO_REGION",
    "database_kubernetes_cluster_no_pools": "check CIVO_CLUSTER_ID: the cluster has no pools",
    "database_cluster_pool_not_found": "check civo_pool_id in the configuration",
    "database_size_not_found": "check the pool's size",
}
LATER = frozenset(
    {
        "cannot_scale_already_rescaling_cluster",
        "database_cluster_pool_instance_delete_failed",
        "database_cluster_pool_no_sufficient_instances_available",
        "database_sizes_list",
    }
)
LATER_STATUSES = frozenset({408, 409, 423, 425, 429})
GONE = frozenset(
    {
        "database_cluster_pool_instance_not_found",
        "database_instance_not_found",
        "database_kubernetes_node_not_found",
        "database_cluster_pool_not_found",  # a pool whose last instance went is no longer listed
    }
)
LONGEST_EXPLANATION = 300  # characters of Civo's own text that a message may carry


def refusal(status: int, body: object, doing: str, delay: timedelta | None) -> TryLater | WontWork:
    """Return the error that a response of *status* >= 300 to the request to do *doing* stands for. Of *body*, the
    decoded JSON or None, only ``code``, ``reason`` and ``details`` are quoted, the last two only if they are text."""
    fields = body if isinstance(body, dict) else {}
    status = 500 if fields.get("status") == 500 else status  # civogo: a 500 inside the body outranks the real one
    code = _text(fields.get("code"))[:80]
    if not code:
        locked_out = fields.get("result") == "requires_authentication" or status == 401
        code = "authentication_required" if locked_out else f"http_{status}"
    explanation = "; ".join(filter(None, (_text(fields.get("reason")), _text(fields.get("details")))))
    if code.startswith("authentication_"):
        detail = f"Civo refused CIVO_API_KEY ({code}): put a valid key into the secret that sets CIVO_API_KEY"
        return WontWork(detail, code=code)
    explanation = f"{code} ({explanation})" if explanation else code
    later = TryLater(f"Civo could not {doing}: {explanation}", code=code, delay=delay)
    detail = f"Civo rejected the request to {doing}: {explanation}"
    if code in LATER or code.endswith("_lock_failed"):
        return later
    remedy = REMEDIES.get(code)
    if code.startswith("account_not_enabled"):
        remedy = "enable the Civo account (payment details) in the dashboard"
    if remedy is not None:
        return WontWork(f"{detail}: {remedy}", code=code)
    if code.endswith("_not_found"):
        return WontWork(detail, code=code)
    if status >= 500 or status in LATER_STATUSES:
        return later
    if status < 400 or code == "http_404":
        detail += ": check CIVO_API_URL"
    return WontWork(detail, code=code)


def _text(value: object) -> str:
    """Return *value* on one line, cut to `LONGEST_EXPLANATION`, if it is text: other types may hold secrets."""
    if not isinstance(value, str):
        return ""
    return harmless("; ".join(" ".join(line.split()) for line in value.splitlines() if line.strip()))[
        :LONGEST_EXPLANATION
    ]
