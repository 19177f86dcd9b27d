"""From a document to a model, with every mistake at once: pydantic finds them, this module words them.

A field that cannot be read must not hide that another pair of fields contradict each other. So the document
is read a second time with the unreadable fields left out (required ones stood in for), and the checks over
several fields run on that; what they say about a field that was left out is dropped.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from receiver.config.mistakes import Mistake, Path, Wrong, did_you_mean, spell

Model = TypeVar("Model", bound=BaseModel)

# What to write where a required key is missing, and what stands in for it on the second reading.
REQUIRED: Mapping[str, tuple[str, Any]] = {
    "pools": (
        "list at least one pool with name, civo_pool_id, size, resources and max_nodes",
        [{"name": "x", "civo_pool_id": "x", "size": "x", "resources": {"nvidia.com/gpu": "1"}, "max_nodes": "1"}],
    ),
    "name": ("add a short name that people know it by", "x"),
    "civo_pool_id": ("add Civo's id of the pool, as civo kubernetes node-pool list shows it", "x"),
    "size": ("add Civo's size of its nodes, such as size: an.g1.l40s.kube.x1", "x"),
    "resources": ("add what one node offers, such as resources: {nvidia.com/gpu: 1}", {"nvidia.com/gpu": "1"}),
    "max_nodes": ("add how many nodes the pool may have at most, such as max_nodes: 8", "1"),
    "monthly_usd": ("add the month's allowance, such as monthly_usd: 5000, or remove budget", "1"),
    "month": ("add the month that it is about, such as month: 2026-11", "2026-11"),
    "usd": ("add what the month had cost up to now, such as usd: 1200", "1"),
    "key": ("add the taint's key, such as key: gpu", "x"),
    "start_time": ('add it, such as start_time: "20:00"', "00:00"),
    "end_time": ('add it, such as end_time: "24:00"', "24:00"),
    "from_usd_per_gpu_hour": ("add the least that a GPU-hour may cost", "1"),
    "to_usd_per_gpu_hour": ("add the most that a GPU-hour may cost", "1"),
    "sizes": ("list sizes with usd_per_hour each", {}),
    "usd_per_hour": ("add the price of one node-hour in USD", "1"),
    "as_of": ("add the day the prices were read, such as as_of: 2026-08-22", "2026-01-01"),
    "query": ("add the PromQL that counts it, such as query: sum(increase(epochs_total[$range]))", "x"),
    "term_months": ("add for how many months one commits, such as term_months: 12", "1"),
    "source": ("add where the prices were read", "x"),
}
_KINDS = {
    "model_type": ("must be a mapping", "write its keys below it, each as key: value"),
    "model_attributes_type": ("must be a mapping", "write its keys below it, each as key: value"),
    "dict_type": ("must be a mapping", "write its keys below it, each as key: value"),
    "tuple_type": ("must be a list", "write each entry on a line of its own that starts with a dash"),
    "list_type": ("must be a list", "write each entry on a line of its own that starts with a dash"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated(Generic[Model]):
    """A *model* as far as it could be read, the *mistakes*, and the paths in *unread* that say nothing true."""

    model: Model | None
    mistakes: list[Mistake] = field(default_factory=list)
    unread: frozenset[Path] = frozenset()

    def concerns(self, *paths: Path) -> bool:
        """True when every one of *paths* was read as written, so that a check over them may speak."""
        return not any(_overlap(path, gone) for path in paths for gone in self.unread)


def validate(kind: type[Model], document: Mapping[str, Any]) -> Validated[Model]:
    """Return *document* as a *kind*, or as much of it as can be read with every mistake found."""
    try:
        return Validated(model=kind.model_validate(document))
    except ValidationError as error:
        found = error.errors(include_url=False)
    mistakes = [_mistake(kind, detail) for detail in found]
    unread = {_path(detail) for detail in found}
    rest = copy.deepcopy(dict(document))
    for _ in range(3):  # leaving a field out may show that what holds it cannot be read either
        for detail in found:
            unread.add(_leave_out(rest, _path(detail), stand_in=detail["type"] != "extra_forbidden"))
        try:
            return Validated(model=kind.model_validate(rest), mistakes=mistakes, unread=frozenset(unread))
        except ValidationError as error:
            found = error.errors(include_url=False)
    return Validated(model=None, mistakes=mistakes, unread=frozenset(unread))


def _leave_out(document: dict[str, Any], path: Path, *, stand_in: bool) -> Path:
    """Take what is at *path* out of *document*, or the nearest mapping entry around it; return what was taken.

    With *stand_in* a required key gets a value that can be read in its place.
    """
    for depth in range(len(path) - 1, -1, -1):
        holder = _at(document, path[:depth])
        key = path[depth]
        if isinstance(holder, list) and isinstance(key, int) and path[:depth] == ("pools",):
            holder[key] = copy.deepcopy(REQUIRED["pools"][1][0])  # the other pools can still be judged
            return path[: depth + 1]
        if isinstance(holder, dict) and isinstance(key, str):
            if stand_in and key in REQUIRED:
                holder[key] = copy.deepcopy(REQUIRED[key][1])
            else:
                holder.pop(key, None)
            return path[: depth + 1]
    return path


def _at(document: Any, path: Path) -> Any:
    for key in path:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _path(detail: ErrorDetails) -> Path:
    """Where *detail* is; pydantic marks a mapping's key with a last ``[key]``."""
    loc = detail["loc"]
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _mistake(kind: type[BaseModel], detail: ErrorDetails) -> Mistake:
    path = _path(detail)
    where = spell(path)
    last = str(path[-1]) if path else ""
    reason = detail.get("ctx", {}).get("error")
    if isinstance(reason, Wrong):
        return Mistake(path=where, problem=reason.problem, remedy=reason.remedy)
    if detail["type"] == "missing":
        return Mistake(path=where, problem="is missing", remedy=REQUIRED[last][0])
    if detail["type"] == "extra_forbidden":
        known = _keys_at(kind, path[:-1])
        return Mistake(path=where, problem="unknown key", remedy=did_you_mean(last, known))
    problem, remedy = _KINDS.get(detail["type"], (detail["msg"].lower(), ""))
    return Mistake(path=where, problem=problem, remedy=remedy)


def _keys_at(kind: type[BaseModel], path: Path) -> list[str]:
    """The keys that the mapping at *path* may have."""
    model: type[BaseModel] | None = kind
    for key in path:
        if isinstance(key, str) and model is not None and key in model.model_fields:
            model = model_in(model.model_fields[key].annotation)
    return list(model.model_fields) if model else []


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that *annotation* holds, possibly inside a tuple, a mapping or an optional; else None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (model_in(part) for part in get_args(annotation))
    return next((model for model in found if model is not None), None)
