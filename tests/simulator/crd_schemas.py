"""Objects of Kueue, JobSet and LeaderWorkerSet, and ProvisioningRequests, against the schemas of their CRDs
(`schemas/`), which have none of the pods' templates; unknown fields are mistakes."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

SCHEMAS = Path(__file__).parent / "schemas"


@cache
def schema(kind: str, version: str) -> jsonschema.Draft202012Validator:
    """Return what checks objects of *kind*, read once."""
    found = json.loads((SCHEMAS / f"{kind}.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(found[version], format_checker=jsonschema.FormatChecker())


def mistakes(found: dict[str, Any]) -> list[str]:
    """Return what is wrong with an object."""
    version = found["apiVersion"].rpartition("/")[2]
    return [f"{found['kind']} {e.json_path}: {e.message}" for e in schema(found["kind"], version).iter_errors(found)]
