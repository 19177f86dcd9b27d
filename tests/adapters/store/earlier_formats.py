"""The inputs of decisions as earlier versions stored them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from receiver.ports import GroundsKept
from tests.core.builders import PARTS

REQUESTS = ("buffers", "candidates", "bookings")


def objects(document: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object in *document*."""
    parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    if isinstance(document, dict):
        yield document
    for part in parts:
        yield from objects(part)


def with_types_of_requests(kept: GroundsKept, version: int = 4) -> GroundsKept:
    """*kept* as it was stored in format *version*: each kind of request for room in a field of its own."""
    for each in objects(kept.facts):
        if {"requests", "bound_gangs"} <= each.keys():
            of_kind: dict[str, list[dict[str, Any]]] = {"buffers": [], "candidates": [], "bookings": []}
            for request in each.pop("requests"):
                name, earlier = _of_its_kind(request)
                of_kind[name].append(earlier)
            each |= of_kind
    return replace(kept, format=version)


def _of_its_kind(request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    common = {name: request[name] for name in ("key", "problem", "named")}
    terms: dict[str, str] = request["terms"]
    if request["kind"] == "buffers":
        return "buffers", {**common, "replicas": request["copies"], "pod": next(iter(request["pods"]), None)}
    if request["kind"] == "kueue_check":
        states = {name: name in terms for name in ("ready", "rejects")}
        return "candidates", {**common, **states, "pods": request["pods"]}
    moments = {name: terms.get(name) for name in ("created_at", "provisioned_at")}
    valid_for = f"PT{float(terms['valid_for']):g}S" if "valid_for" in terms else None
    states = {"consumed": "consumed" in terms}
    pods = {name: request[name] for name in ("pods", "announced")}
    return "bookings", {**common, **moments, **states, **pods, "valid_for": valid_for}


def without_parts(kept: GroundsKept, version: int, *kinds: type) -> GroundsKept:
    """*kept* as it was stored in format *version*: where objects of *kinds* have parts, the fields of these."""
    kept = with_types_of_requests(kept)
    for each in objects(kept.facts):
        for parts in (PARTS[kind] for kind in kinds):
            todays = {today for today, _ in parts.values()}
            if todays <= each.keys():
                fields = ((name, today, field) for name, (today, field) in parts.items() if field != "requests")
                each |= {name: each[today].pop(field) for name, today, field in fields}
                each |= {n: each["other_work"].pop(n) for n in REQUESTS if n in each.get("other_work", ())}
                for today in todays:
                    if not each[today]:
                        del each[today]
    return replace(kept, format=version)
