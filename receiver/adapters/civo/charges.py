"""Civo's charges as values: nothing in a record is taken for granted, and nothing is dropped silently.

Shapes are those of civogo ``charge.go`` and of answers seen live: every field may be absent, ``num_hours`` a fraction
or text, ``to`` null, times with an offset.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation

from receiver.adapters.http.sessions import moment
from receiver.core.model.charges import Charge
from receiver.ports import Charges, TryLater

MOST = Decimal(10_000_000)  # hours of a thousand years, GB of ten petabytes, nodes
LEAST = Decimal("0.000001")  # what is less is nothing


def charges_of(answer: object) -> Charges:
    """Return the records of *answer*, a bare list. Raises TryLater for anything else."""
    if not isinstance(answer, list):
        raise TryLater("Civo's answer is not understood: the charges are no list", code="malformed")
    records: list[Charge] = []
    unreadable: list[str] = []
    for number, record in enumerate(answer, start=1):
        found = _charge(record)
        if isinstance(found, Charge):
            records.append(found)
        else:
            unreadable.append(f"record {number}: {found}")
    return Charges(records=tuple(records), unreadable=tuple(unreadable))


def stamp(at: datetime) -> str:
    """Return *at* (UTC) as Civo takes it: with a Z, because the plus sign of an offset is lost in a query."""
    return at.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _charge(record: object) -> Charge | str:
    """One record, or what is wrong with it."""
    if not isinstance(record, dict):
        return "it is no object"
    code, label = _word(record, "code"), _word(record, "label")
    if not code:
        return f"it has no code (label {label or 'missing'})"
    hours = _number(record.get("num_hours"))
    frm, to = moment(record.get("from")), moment(record.get("to"))
    if frm is not None and to is not None and to < frm:
        frm = to = None
    if hours is None and frm is None:
        return f"{code} tells neither hours nor when it began (label {label or 'missing'})"
    if record.get("to") is not None and to is None and hours is None:
        return f"{code} tells neither hours nor when it ended (label {label or 'missing'})"
    nodes = _number(record.get("nodes"))
    if record.get("nodes") is not None and nodes is None:
        return f"{code} tells no number of nodes that could be (label {label or 'missing'})"
    return Charge(
        code=code,
        label=label,
        id=_id(record),
        frm=frm,
        to=to,
        hours=hours,
        nodes=int(nodes) if nodes is not None and nodes >= 1 else 1,
        size_gb=_number(record.get("size_gb")),
        product=_word(record, "product_id") or None,
    )


def _number(value: object) -> Decimal | None:
    """A number of 0 or more, also where it is written as text; None for anything else, and for what nothing here can
    come to: a sum with it would say nothing, or could not be worked out."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    if not number.is_finite() or not 0 <= number <= MOST:
        return None
    return number if number >= LEAST else Decimal(0)


def _id(record: Mapping[str, object]) -> str | None:
    value = record.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _word(record, "id") or None


def _word(record: Mapping[str, object], name: str) -> str:
    value = record.get(name)
    return value.strip() if isinstance(value, str) else ""
