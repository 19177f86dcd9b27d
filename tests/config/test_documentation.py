"""docs/configuration.md has every key with its default, and none that does not exist."""

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from receiver.config import Configuration, Environment, completion, load_text
from receiver.config.environment import SECRET, VARIABLES
from receiver.config.pools import PoolSpec
from receiver.config.prices import PriceFile
from receiver.config.values import model_in, spell_duration
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def section(*titles: str) -> str:
    found = [re.search(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL) for title in titles]
    return "".join(part[1] for part in found if part is not None)


UNSAID = "unsaid"  # the default of a key in a row of its whole section, which names only what it is otherwise


def documented(*titles: str) -> dict[str, str]:
    """Key to its default. A row of a whole section in the tables of all keys has its keys among its words."""
    rows = re.findall(r"^\| `([^`]+)` \| [^|(]* \(([^|]*)\) \|", section(*titles), re.MULTILINE)
    named = section(*(title for title in titles if title != "The first keys"))
    for path, words in re.findall(r"^\| `([^`]+)` \| section \| ([^|]*) \|", named, re.MULTILINE):
        rows += [(f"{path}.{key}", default or UNSAID) for key, default in WITHIN.findall(words)]
    assert len(rows) == len(dict(rows)), "a key is documented twice"
    return dict(rows)


WITHIN = re.compile(r"`([a-z_]+)`(?: \((`?[\w.]+`?)\))?")
NOT_KEYS = {"pools[].devices[].device_counters"}
FROM_CIVO = "from Civo"
FILE = ("The first keys", "Advanced")


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key below *model* that holds a value, with its default."""
    for name, info in model.model_fields.items():
        inner = model_in(info.annotation)
        path = f"{prefix}{name}"
        default = info.get_default(call_default_factory=True)
        if inner is None:
            yield path, FROM_CIVO if model is PoolSpec and name in completion.FROM_CIVO else default
        else:
            outer = get_origin(info.annotation)
            many = "[]." if outer is tuple else ".*." if outer is dict else "."
            yield from leaves(inner, path + many)


def spelled(default: Any) -> set[str]:
    """What the page may say of a default."""
    if default == FROM_CIVO:
        return {FROM_CIVO}
    if default is PydanticUndefined:
        return {"required", UNSAID}
    if default is None or default in ((), {}):
        return {"none", "always", UNSAID}
    if default == "":
        return {"empty", UNSAID}
    if isinstance(default, bool):
        return {f"`{str(default).lower()}`"}
    if isinstance(default, tuple):
        return {", ".join(f"`{value}`" for value in default)}
    if isinstance(default, timedelta):
        return {f"`{spell_duration(default)}`"}
    if isinstance(default, dict):
        entries = ", ".join(f"{key}: {spell_duration(length)}" for key, length in default.items())
        return {f"`{{{entries}}}`"}
    if isinstance(default, tuple):
        return {f"`[{', '.join(default)}]`"}
    return {f"`{default.value if isinstance(default, StrEnum) else default}`"}


@pytest.mark.parametrize(("titles", "model"), [(FILE, Configuration), (("Prices",), PriceFile)])
def test_every_key_is_documented_and_nothing_else_is(titles: tuple[str, ...], model: type[BaseModel]) -> None:
    assert set(documented(*titles)) - NOT_KEYS == {path for path, _ in leaves(model)}


@pytest.mark.parametrize(("titles", "model"), [(FILE, Configuration), (("Prices",), PriceFile)])
def test_every_documented_default_is_the_one_in_force(titles: tuple[str, ...], model: type[BaseModel]) -> None:
    rows = documented(*titles)
    assert {path: rows[path] for path, default in leaves(model) if rows[path] not in spelled(default)} == {}


def test_the_first_table_has_sixteen_keys_and_leads_to_the_tables_of_its_sections() -> None:
    paths = re.findall(r"^\| `([^`]+)` \|", section("The first keys"), re.MULTILINE)
    assert len(paths) == 16
    sections = set(paths) - documented("The first keys").keys()
    assert sections == {"pools[].windows", "pools[].approval", "notify.destinations", "idle_shutdown"}
    further = documented("Advanced")
    assert [path for path in sections if not any(key.startswith(path) for key in further)] == []


def test_the_first_example_observes_and_ends_no_running_work() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE.partition("\n## ")[0], re.DOTALL)
    pool = PoolAtCivo(size="an.g1.l40s.kube.x1")
    facts = PoolFacts(pools={yaml.safe_load(example)["pools"][0]["civo_pool_id"]: pool}, gpus={pool.size: 1})
    settings = load_text(example, facts=facts)
    assert settings.configuration.mode == "observe"
    windows = [window for pool in settings.configuration.pools for window in pool.windows]
    assert windows
    assert [window.name for window in windows if window.evict_after or window.max_nodes is not None] == []


def test_every_variable_is_documented_and_nothing_else_is() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (yes|no) \|", section("The environment"), re.MULTILINE)
    assert {name for name, _ in rows} == set(VARIABLES)
    assert {name for name, secret in rows if secret == "yes"} == set(SECRET)


def test_every_documented_default_of_a_variable_is_the_one_in_force() -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| \w+ \| ([^|]*) \|", section("The environment"), re.MULTILINE))
    fields = {
        "CIVO_API_URL": "civo_api_url",
        "GPU_AUTOSCALER_DATABASE_URL": "database_url",
        "GPU_AUTOSCALER_LISTEN": "listen",
        "GPU_AUTOSCALER_URL": "url",
    }
    for variable, name in fields.items():
        default = Environment.model_fields[name].default
        text = default.get_secret_value() if hasattr(default, "get_secret_value") else default
        assert rows.pop(variable) == f"`{text}`"
    assert set(rows.values()) == {"required", "none"}


def test_the_walk_over_the_model_finds_nested_keys() -> None:
    found = dict(leaves(Configuration))
    assert found["pools[].windows[].times[].start_time"] is PydanticUndefined
    assert found["budget.warn_at"] == Decimal("0.5")
    assert get_args(Configuration.model_fields["pools"].annotation)
