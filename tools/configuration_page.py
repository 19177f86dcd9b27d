"""The tables of keys in docs/configuration.md: types and defaults from the model, meanings from below its fields.

The keys that most people need are in a table of their own, `FIRST`. The page says between its markers which keys each
other table has, such as ``<!-- keys: limits -->`` for everything below ``limits``; of two that name a key the longer
one counts. The rest is written by hand.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from receiver.config import devices, pools, values, web
from receiver.config.completion import FROM_CIVO
from receiver.config.model import Configuration, monthly_query
from receiver.config.notify import notice_kind
from receiver.config.prices import PriceFile
from receiver.config.values import model_in, spell_duration

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
MODELS: Mapping[str, type[BaseModel]] = {"keys": Configuration, "keys of a price file": PriceFile}
MARKED = re.compile(
    r"(?P<begin><!-- (?P<model>keys|keys of a price file): (?P<keys>[^>]+) -->\n).*?(?=<!-- end of keys -->)", re.DOTALL
)
FIRST_MARKED = re.compile(r"(?<=<!-- first keys -->\n).*?(?=<!-- end of first keys -->)", re.DOTALL)
# The keys of the first table, in its order. A section has its words here and its own keys in a table below.
FIRST: Mapping[str, str] = {
    "cluster_name": "",
    "mode": "",
    "public_url": "",
    "budget.monthly_usd": "",
    "budget.timezone": "",
    "budget.teams": "",
    "limits.max_gpus": "",
    "pools[].civo_pool_id": "",
    "pools[].max_nodes": "",
    "pools[].standby_nodes": "",
    "pools[].windows": "times with other [numbers](#windows)",
    "pools[].approval": "which changes [need an approval](#pools)",
    "pools[].repair": "",
    "notify.destinations": "who gets [which messages](#messages)",
    "idle_shutdown": "stop [idle workloads](#idle-workloads)",
    "attribution.team": "",
}
# Sections in one row, whose words name every key of theirs.
ONE_ROW: Mapping[str, str] = {
    "reports.units[].only": "count only one owner's cost: a `team`, `project`, `workload_class`, `environment`, "
    "`cost_center` or `namespace`",
    "reports.commitments[]": "an offer of committed capacity: `size`, `term_months`, and `usd_per_hour` of a node; all "
    "are required",
    "budget.spent_usd_stated": "the cost so far (`usd`) of a `month`, written 2026-11, without Civo's charges, after a "
    "[lost store](operations.md#a-new-or-lost-store)",
    "pools[].taints[]": "a taint of its nodes: `key`, `value` and `effect` (`NoSchedule`)",
    "pools[].devices[]": "`count` (`1`) devices of a DRA `driver` (`gpu.nvidia.com`) on a node, with their "
    "`attributes`, their `capacity`, such as 48Gi of memory, and what each `uses` of `device_counters`",
    "sizes.*": "price of a node-hour before tax (`usd_per_hour`, required), `kind` of GPU and number of `gpus`",
    "codes.*": "price of another charge, such as of a volume: `usd_per_hour` or `usd_per_gb_hour`",
    "kinds.*": "prices outside `from_usd_per_gpu_hour` to `to_usd_per_gpu_hour` get a warning",
}
HEAD = ("| key | type (default) | meaning |", "|---|---|---|")
# The words for each kind of value. The order counts where two are the same to Python.
WORDS: Mapping[Any, tuple[str, str]] = {
    values.Duration: ("duration, or 0", "durations"),
    values.LongerThanZero: ("duration", "durations"),
    values.Tick: ("duration, 1s to 5m", ""),
    values.Period: ("duration, 1s or more", ""),
    values.Ratio: ("ratio", "ratios"),
    values.Celsius: ("degrees Celsius, 30 to 120", ""),
    values.Money: ("USD", "USD"),
    values.Day: ("day such as `2026-08-22`", ""),
    values.Month: ("month such as `2026-11`", ""),
    values.Whole: ("count", "counts"),
    values.Priority: ("priority", ""),
    values.Units: ("count, 1 or more", "counts"),
    bool: ("boolean", ""),
    values.Zone: ("zone", "zones"),
    values.Address: ("URL", "URLs"),
    values.PoolName: ("word", "words"),
    values.Identifier: ("word", "words"),
    values.ObjectName: ("name", "names"),
    values.GpuResource: ("GPU resource", "GPU resources"),
    values.LabelKey: ("label key", "label keys"),
    devices.DeviceField: ("name", "names"),
    devices.Quantity: ("quantity", "quantities"),
    devices.CounterName: ("counter", "counters"),
    values.TaintPrefix: ("prefix of a taint key", "prefixes of taint keys"),
    values.LabelValue: ("label value", "label values"),
    values.TaintEffect: ("`NoSchedule`, `PreferNoSchedule` or `NoExecute`", ""),
    values.Text: ("text", "text"),
    values.PublicAddress: ("URL", "URLs"),
    values.DeliveryBytes: ("count, 1 to 32505856", ""),
    values.Spacing: ("duration, up to 10m", ""),
    str: ("text", "text"),
}
# Kinds that are read by a function of their own, by its name.
READERS: Mapping[str, tuple[str, str]] = {
    pools.minute.__name__: ("`HH:MM`, up to `24:00`", ""),
    pools.weekdays_range.__name__: ("day or range", "days or ranges"),
    pools.days_of_month_range.__name__: ("day or range", "days or ranges"),
    pools.months_range.__name__: ("month or range", "months or ranges"),
    pools.years_range.__name__: ("year or range", "years or ranges"),
    monthly_query.__name__: ("PromQL", ""),
    web.network.__name__: ("address or CIDR range", "addresses or CIDR ranges"),
    web.header_name.__name__: ("header name", ""),
    notice_kind.__name__: ("kind of message", "kinds of message"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a file: where it stands, what it takes, what holds without it, what it means."""

    path: str
    kind: str
    default: str
    meaning: str

    @property
    def row(self) -> str:
        """Its line in the table."""
        return f"| `{self.path}` | {self.kind} ({self.default}) | {self.meaning} |"


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    """Yield every key of *model* that holds a value. Raises ValueError for one without a meaning or a known type."""
    hints = get_type_hints(model, include_extras=True)
    for name, info in model.model_fields.items():
        inner, path = model_in(info.annotation), f"{prefix}{name}"
        if inner is not None:
            outer = get_origin(info.annotation)
            yield from keys(inner, path + ("[]." if outer is tuple else ".*." if outer is dict else "."))
            continue
        said = meanings(model).get(name, "")
        if not said:
            raise ValueError(f"{model.__module__}.{model.__name__}.{name} has no meaning: write one below the field")
        default = spelled(info.get_default(call_default_factory=True), hints[name])
        if model is pools.PoolSpec and name in FROM_CIVO:
            default = "from Civo"
        yield Key(path=path, kind=kind(hints[name]), default=default, meaning=said)


@cache
def meanings(model: type[BaseModel]) -> Mapping[str, str]:
    """The text below each field of *model*, on one line."""
    [body] = ast.parse(inspect.getsource(model)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def kind(hint: Any, many: bool = False) -> str:
    """Return the words for a value of *hint*, or for *many* of them. Raises ValueError for an unknown kind."""
    one, several = _known(hint)
    if one:
        return several if many else one
    parts = [part for part in get_args(hint) if part is not type(None)]
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return kind(parts[0], many)
    if origin is tuple:
        return f"list of {kind(parts[0], many=True)}"
    if origin is dict:
        return f"{kind(parts[0])} to {_plain(kind(parts[1]))}"
    if origin is Annotated:
        return kind(hint.__origin__, many)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        *others, last = [f"`{member.value}`" for member in hint]
        return f"{', '.join(others)} or {last}"
    raise ValueError(f"tools/configuration_page.py does not know what to call {hint}")


def _known(hint: Any) -> tuple[str, str]:
    if hint in WORDS:
        return WORDS[hint]
    readers = [getattr(part, "func", None) for part in getattr(hint, "__metadata__", ())]
    named = [READERS[reader.__name__] for reader in readers if reader and reader.__name__ in READERS]
    return named[0] if named else ("", "")


def _plain(words: str) -> str:
    """*words* without a bound, which is too much behind "to"."""
    return words.partition(",")[0]


def spelled(default: Any, hint: Any) -> str:
    """Return the words for a default."""
    if default is PydanticUndefined:
        return "required"
    if default in ((), {}) or default is None:
        return "always" if pools.Filled in getattr(hint, "__metadata__", ()) else "none"
    if default == "":
        return "empty"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, dict):
        return f"`{{{', '.join(f'{key}: {_plainly(value)}' for key, value in default.items())}}}`"
    if isinstance(default, tuple):
        return ", ".join(f"`{_plainly(value)}`" for value in default)
    return f"`{_plainly(default)}`"


def _plainly(value: Any) -> str:
    if isinstance(value, timedelta):
        return spell_duration(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_plainly, value))}]"
    return value.value if isinstance(value, StrEnum) else value.isoformat() if isinstance(value, date) else str(value)


def filled(page: str) -> str:
    """Return *page* with every table as the model is now. Raises ValueError for a key that no table takes."""
    marked = [(m["model"], prefix) for m in MARKED.finditer(page) for prefix in m["keys"].split()]
    tables: dict[tuple[str, str], list[str]] = {where: [] for where in marked}
    for model, kind_of_file in MODELS.items():
        prefixes = [prefix for name, prefix in marked if name == model]
        for key in keys(kind_of_file):
            if model == "keys" and key.path in FIRST:
                continue
            over = [p for p in prefixes if re.match(rf"{re.escape(p)}($|\[|\.)", key.path)]
            if not over:
                raise ValueError(f"no table of docs/configuration.md has {key.path}: name it in one of its markers")
            row = _row_of_section(key) or key.row
            if row not in (rows := tables[model, max(over, key=len)]):
                rows.append(row)
    page = FIRST_MARKED.sub(lambda _: _lines(_first()), page)
    return MARKED.sub(lambda found: found["begin"] + _table(found, tables), page)


def _row_of_section(key: Key) -> str:
    """Return the row of the section in `ONE_ROW` that has *key*, empty for none. Raises ValueError if it lacks its
    name."""
    path, _, name = key.path.rpartition(".")
    words = ONE_ROW.get(path, "")
    if words and f"`{name}`" not in words:
        raise ValueError(f"the row of {path} in tools/configuration_page.py does not name {name}")
    return f"| `{path}` | section | {words} |" if words else ""


def _first() -> Iterator[str]:
    """Yield the rows of the first table. Raises KeyError for a key that does not exist."""
    known = {key.path: key.row for key in keys(Configuration)}
    for path, words in FIRST.items():
        yield f"| `{path}` | section | {words} |" if words else known[path]


def _table(found: re.Match[str], tables: Mapping[tuple[str, str], list[str]]) -> str:
    rows = [row for prefix in found["keys"].split() for row in tables[found["model"], prefix]]
    return _lines(rows)


def _lines(rows: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in ("", *HEAD, *rows, ""))


def generated() -> dict[Path, str]:
    """Return the page as it should be."""
    return {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
