"""What the chart's schema says of the configuration file: it takes what the server takes, and no unknown key."""

import json
import re

import jsonschema
import pytest

from receiver.config import load_text
from receiver.config.model import Configuration
from receiver.config.pools import PoolSpec
from receiver.config.values import ConfigError
from tests.config.builders import one_pool
from tests.lint import load_yaml, none_of
from tests.manifests.built import ROOT
from tools.chart_schema import ELSEWHERE, SCHEMA, text

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


def refusals(configuration: str) -> list[str]:
    """Return what the chart's schema has against the *configuration* given as values."""
    document = load_yaml(configuration)
    values = {"pools": document.pop("pools"), "config": {k: v for k, v in document.items() if k not in ELSEWHERE}}
    schema = jsonschema.Draft7Validator(
        {**WRITTEN, "required": [], "$schema": "http://json-schema.org/draft-07/schema#"}
    )
    return [f"{'.'.join(map(str, e.path))}: {e.message}" for e in schema.iter_errors(values)]


def examples() -> list[str]:
    """Return every whole configuration in the documentation."""
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "runbooks").glob("*.md")]
    blocks = [
        b for p in pages for b in re.findall(r"^```yaml\n(.*?)^```", p.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    ]
    return [b for b in blocks if "pools" in (d := load_yaml(b)) and not d.keys() & {"image", "config"}]


def test_the_schema_is_that_of_the_configuration() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == text(), "run `make manifests`"


def test_the_schema_knows_every_key_of_the_configuration_and_of_a_pool() -> None:
    found = WRITTEN["definitions"]
    assert found["config"]["properties"].keys() == Configuration.model_fields.keys()
    assert found["PoolSpec"]["properties"].keys() == PoolSpec.model_fields.keys()


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


def test_the_chart_takes_every_example_of_the_documentation() -> None:
    assert examples()
    none_of(f"{block}{refused}" for block in examples() for refused in refusals(block))


@pytest.mark.parametrize("line", ["maxnodes: 2", "idle_for: 10", "repair: yes please", "taints: [{key: a, efect: b}]"])
def test_what_the_chart_refuses_the_server_refuses_too(line: str) -> None:
    with pytest.raises(ConfigError):
        load_text(one_pool(line))
    assert len(refusals(one_pool(line))) == 1
