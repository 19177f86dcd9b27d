"""One request as the OpenAPI document describes it, and the schemas that requests share."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]
MOMENT: Schema = {"type": "string", "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT: Schema = {"type": "string"}
OF_AN_ANSWER: Schema = {
    "Gpu-Autoscaler-Timezone": {"description": "the zone of the budgets, in which people read times", "schema": TEXT}
}
OF_A_STEP: Schema = {
    **OF_AN_ANSWER,
    "Gpu-Autoscaler-Snapshot-At": {
        "description": "the step that the answer stems from",
        "schema": {"anyOf": [MOMENT, {"const": "none"}]},
    },
}
READERS, OPERATOR, WEBHOOK = ("reader", "operator", "session"), ("operator",), ("webhook",)


def one_of(values: Sequence[str], says: str = "") -> Schema:
    """Return the schema of a text that is one of *values*."""
    schema: Schema = {**TEXT, "enum": [str(value) for value in values]}
    return {**schema, "description": says} if says else schema


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its *name* and *summary*, the model of its *answer* (*many*: a list of them) and *body*.

    *path* without a slash lies below /api/v1. *refusals* are the statuses that it is refused with beside those that all
    of its kind share. *query* are the parts that may be in the query, of which those in *needs* must be. *token* says
    whose token it takes; readers' only where reading is closed.
    """

    path: str
    name: str
    summary: str
    answer: type[BaseModel] | Schema
    refusals: Sequence[int] = ()
    _: KW_ONLY
    method: str = "get"
    many: bool = False
    body: type[BaseModel] | Schema | None = None
    status: int = 200
    query: Sequence[tuple[str, Schema]] = ()
    needs: Sequence[str] = ()
    headers: Mapping[str, Any] = field(default_factory=dict)
    token: Sequence[str] = READERS
    kinds: Sequence[str] = ()
