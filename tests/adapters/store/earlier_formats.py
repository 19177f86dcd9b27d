"""The inputs of decisions as earlier versions stored them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from receiver.ports import GroundsKept
from tests.core.builders import PARTS


def objects(document: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object in *document*."""
    parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    if isinstance(document, dict):
        yield document
    for part in parts:
        yield from objects(part)


def without_parts(kept: GroundsKept, version: int, *kinds: type) -> GroundsKept:
    """*kept* as it was stored in format *version*: where objects of *kinds* have parts, the fields of these."""
    for each in objects(kept.facts):
        for parts in (PARTS[kind] for kind in kinds):
            todays = {today for today, _ in parts.values()}
            if todays <= each.keys():
                each |= {name: each[today].pop(field) for name, (today, field) in parts.items()}
                for today in todays:
                    if not each[today]:
                        del each[today]
    return replace(kept, format=version)
