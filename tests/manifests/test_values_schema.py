"""What the chart's schema says of the configuration file: it takes what the server takes, and no unknown key."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from enum import EnumType
from itertools import product
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
from pydantic import BaseModel

from receiver.config import load_text
from receiver.config.model import Configuration
from receiver.config.pools import PoolSpec
from receiver.config.values import ConfigError, Patterned, Wrong, model_in, parse
from tests.config.builders import one_pool
from tests.lint import load_yaml, none_of
from tests.manifests.built import ROOT
from tools.chart_schema import ELSEWHERE, NAMED, SCHEMA

JSON = dict[str, Any]
WRITTEN = json.loads(SCHEMA.read_text(encoding="utf-8"))
# Further right lines of a pool, and of the top of a file.
OF_A_POOL = (
    'max_nodes: "8"',
    "labels: {gpu: true, tier: 1}",
    "cooldown: {grow: 0, shrink: 1h30m}",
    "utilization: {high: 0.75, low: '0.5'}",
    "price_usd_per_hour: 1.29",
    "windows: [{name: n, times: [{start_time: '20:00', end_time: '24:00'}], years: [2026], max_nodes: 0}]",
    "windows: [{name: n, days_of_month: [1, '5:-1'], weekdays: [monday], max_nodes: 0}]",
    "taints: [{key: gpu, value: '', effect: NoExecute}]",
    "approval: {removals: true, wait: 5m}",
    "devices: [{count: 8, attributes: {productName: 'NVIDIA H100'}}]",
)
OF_THE_TOP = (
    "budget: {monthly_usd: '5000.50', hold_at: 0.75, stop_at: 1, teams: {vision: 100}}",
    "limits: {max_gpus: 0}",
    "billing: {granularity: 1s, removal_margin: 0}",
    "cluster_name: ''",
    "kubernetes: {watch: 'false', keep_nodes_for: [unmanaged]}",
    "notify: {destinations: {chat: {level: warning, kinds: [grew]}}}",
    "queue_wait: {production: 10m}",
    "reports: {units: [{name: epoch, query: 'sum(increase(epochs_total[$range]))', per: 1000}]}",
)
# Texts of every kind that the server reads, and the shapes in which a field may have them.
NUMBERS = (
    "0",
    "1",
    "-1",
    "+3",
    "007",
    "8.0",
    "1_000",
    " 8 ",
    "1.5",
    ".5",
    "5.",
    "0.70",
    "1e3",
    "5E-1",
    "100000000000",
    "999999999999.99",
)
DURATIONS = ("30m", "1h30m", "1d", "0s", "5ms", "1m30s", " 30m ")
TRUTHS = ("true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "TRUE", "Yes")
TIMES = ("20:00", "24:00", "2026-08-22", "2026-11", "2026", "monday", "monday:friday", "1:-1", "january", "UTC")
NAMES = ("", "l40s", " x ", "team", "gpu.example.com", "nvidia.com/gpu", "https://gpu.example.com/", "10.0.0.0/8")
REVERSED = "9:05"  # a time of day; a range of days or months in the wrong order, which no pattern can say
KINDS = (  # right and wrong words of the kinds that a pattern bounds
    *("our GPUs", "all", "unassigned", "Unassigned", "-x", "x-", "a" * 63, "a" * 64, "größe", "a/b", "a//b", "a/"),
    *("nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/tpu", "cpu", "gpu-0/slices", "48Gi", "48 Gi"),
    *("MONDAY", "Monday : friday", "mon", "7:9", "May", "5:august", "juny", "13", "1:31", "-1", "0", "32", "2026:2027"),
    *(REVERSED, "20:60", "25:00", "2026-13", "HTTP://x", "http:///x", "ftp://x", "http://u:p@x:9", "https://x/y?z"),
    *("http://x y", "A_b", "X-Forwarded-User", "Cookie", "X_User", "fd00::/8", "::1", "10.0.0.0/255.0.0.0", "grew"),
)
WORDS = (*NUMBERS, *DURATIONS, *TRUTHS, *TIMES, *NAMES, *KINDS)
SHAPES: tuple[Callable[[Any], Any], ...] = (
    lambda value: value,
    lambda value: [value],
    lambda value: {"l40s": value},
    lambda value: {"nvidia.com/gpu": value},
)


def refusals(configuration: str) -> list[str]:
    """Return what the chart's schema has against the *configuration* given as values."""
    document = load_yaml(configuration)
    values = {"pools": document.pop("pools"), "config": {k: v for k, v in document.items() if k not in ELSEWHERE}}
    schema = jsonschema.Draft7Validator(
        {**WRITTEN, "required": [], "$schema": "http://json-schema.org/draft-07/schema#"}
    )
    return [f"{'.'.join(map(str, e.path))}: {e.message}" for e in schema.iter_errors(values)]


def sections(kind: type[BaseModel] = Configuration) -> Iterator[type[BaseModel]]:
    """Yield every section of the configuration file."""
    yield kind
    for field in kind.model_fields.values():
        if inner := model_in(field.annotation):
            yield from sections(inner)


def fields() -> Iterator[tuple[JSON, Any, str]]:
    """Yield what the chart's schema says of each field, the field's kind, and its name."""
    for kind in dict.fromkeys(sections()):
        definition = WRITTEN["definitions"]["config" if kind is Configuration else kind.__name__]
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if name in kind.model_fields and not (kind is Configuration and name in ELSEWHERE):
                yield definition["properties"][name], hint, f"{kind.__name__}.{name}"


def words(hint: Any) -> Iterator[str]:
    """Yield texts to try for a field of the kind *hint*: those for every field, and the words of an enumeration."""
    yield from WORDS
    members: Iterable[Any] = hint if isinstance(hint, EnumType) else ()
    yield from map(str, members)
    for part in get_args(hint):
        yield from [part] if isinstance(part, str) else words(part)


def typed(word: str) -> Any:
    """Return what Helm's YAML makes of *word* without quotes."""
    if word.lower() in ("true", "yes", "on", "false", "no", "off"):
        return word.lower() in ("true", "yes", "on")
    try:
        return json.loads(word)
    except ValueError:
        return word


def values(hint: Any) -> Iterator[Any]:
    """Yield what the server takes for *hint*, as Helm's values have it: with quotes, and without."""
    for word, shape in product(dict.fromkeys(words(hint)), SHAPES):
        try:
            parse(hint, shape(word))
        except Wrong:
            continue
        yield from (shape(word), shape(typed(word)))


def patterned() -> Iterator[tuple[str, Any]]:
    """Yield the kinds that a pattern bounds, by their names."""
    for name, kind in ((name, kind) for module in NAMED for name, kind in vars(module).items()):
        if any(isinstance(part, Patterned) for part in get_args(kind)[1:]):
            yield name, kind


def refused(hint: Any, word: str) -> bool:
    """True for a *word* that the server does not take for *hint*."""
    try:
        parse(hint, word)
    except Wrong:
        return True
    return False


def examples() -> list[str]:
    """Return every whole configuration in the documentation and beside the examples of workloads."""
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "runbooks").glob("*.md")]
    blocks = [
        b for p in pages for b in re.findall(r"^```yaml\n(.*?)^```", p.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ]
    blocks.append((ROOT / "k8s" / "workloads" / "gpu-autoscaler.yaml").read_text(encoding="utf-8"))
    return [b for b in blocks if "pools" in (d := load_yaml(b)) and not d.keys() & {"image", "config"}]


def test_the_schema_knows_every_key_of_the_configuration_and_of_a_pool() -> None:
    found = WRITTEN["definitions"]
    assert found["config"]["properties"].keys() == Configuration.model_fields.keys()
    assert found["PoolSpec"]["properties"].keys() == PoolSpec.model_fields.keys()


def test_no_section_takes_a_key_that_it_does_not_name() -> None:
    found = {name: said for name, said in WRITTEN["definitions"].items() if "properties" in said}
    assert {kind.__name__ for kind in sections()} - {"Configuration"} == found.keys() - {"config"}
    none_of(name for name, said in found.items() if said["additionalProperties"] is not False)


def test_the_chart_takes_every_text_that_the_server_takes_for_a_field() -> None:
    tried, refused = 0, []
    for schema, hint, name in {(json.dumps(s), repr(h)): (s, h, n) for s, h, n in fields()}.values():
        validator = jsonschema.Draft7Validator({"definitions": WRITTEN["definitions"], "allOf": [schema]})
        given = list(values(hint))
        tried += len(given)
        refused += [f"{name}: {value!r}" for value in given if not validator.is_valid(value)]
    assert tried > 1000
    none_of(refused)


def test_the_chart_refuses_every_text_that_a_kind_with_a_pattern_refuses() -> None:
    tried, taken = 0, []
    for name, kind in patterned():
        validator = jsonschema.Draft7Validator(WRITTEN["definitions"][name])
        wrong = [word for word in WORDS if word != REVERSED and refused(kind, word)]
        tried += len(wrong)
        taken += [f"{name}: {word!r}" for word in wrong if validator.is_valid(word)]
    assert tried > 1000
    none_of(taken)


@pytest.mark.parametrize("line", OF_A_POOL)
def test_what_the_server_takes_of_a_pool_the_chart_takes(line: str) -> None:
    given = one_pool(line) if not line.startswith("max_nodes") else one_pool().replace("max_nodes: 8", line)
    load_text(given)
    assert refusals(given) == []


@pytest.mark.parametrize("line", OF_THE_TOP)
def test_what_the_server_takes_of_the_rest_the_chart_takes(line: str) -> None:
    given = one_pool(top=f"{line}\n")
    load_text(given)
    assert refusals(given) == []


def test_the_chart_takes_every_example() -> None:
    assert examples()
    none_of(f"{block}{refused}" for block in examples() for refused in refusals(block))


@pytest.mark.parametrize(
    "line",
    [
        "maxnodes: 2",
        "idle_for: 10",
        "idle_for: 0s",
        "repair: yes please",
        "taints: [{key: a, efect: b}]",
        "name: our GPUs",
        "name: all",
        "resources: {cpu: 1}",
        "labels: {-gpu: on-demand}",
        "labels: {gpu: on demand}",
        "device_counters: {slices: 7}",
        "windows: [{name: n, weekdays: [mon], max_nodes: 0}]",
        "windows: [{name: n, weekdays: [], max_nodes: 0}]",
    ],
)
def test_what_the_chart_refuses_the_server_refuses_too(line: str) -> None:
    with pytest.raises(ConfigError):
        load_text(one_pool(line))
    assert len(refusals(one_pool(line))) == 1
