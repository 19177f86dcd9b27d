"""What the stack's parts are started with: valid, and the shipped rules but for durations."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.configs import (
    RULES,
    merged,
    plain_environment,
    prometheus_config,
    rule_files,
    simulator_config,
    write_configs,
)
from demo.plan import Places, PoolPlan, StackPlan
from demo.scenario import BUDGET_USD, GANG, POOLS, SYSTEM, TRAIN_1, TRAIN_2, TRAIN_3, UNIT_SECONDS, DemoJob, demo_plan
from demo.stack import binary, places_for
from receiver.config import load_file
from simulator.config import parse


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = places_for(demo_plan(), tmp_path)
    write_configs(demo_plan(), places)
    return places


def _run(name: str, *arguments: str | Path) -> None:
    done = subprocess.run([binary(name), *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_prometheus_configuration_and_its_rules(places: Places) -> None:
    _run("promtool", "check", "config", places.config("prometheus"))


def test_amtool_takes_the_alertmanager_configuration(places: Places) -> None:
    _run("amtool", "check-config", places.config("alertmanager"))


def test_the_autoscaler_takes_its_configuration_without_a_warning(places: Places) -> None:
    assert load_file(places.config("receiver")).warnings == ()


def test_the_simulator_takes_its_configuration() -> None:
    plan = demo_plan()
    config = parse(simulator_config(plan, places_for(plan, Path())))

    assert [p.id for p in config.pools] == [p.id for p in (*POOLS, SYSTEM)]


def test_of_the_rules_only_the_interval_of_a_group_differs() -> None:
    made = rule_files(StackPlan(pools=POOLS, evaluation="1s"))

    for path in RULES.glob("*.yaml"):
        shipped: dict[str, Any] = yaml.safe_load(path.read_text())
        assert [g.pop("interval") for g in made[path.name]["groups"]] == ["1s"] * len(shipped["groups"])
        for group in shipped["groups"]:
            del group["interval"]
        assert made[path.name] == shipped


def test_without_an_evaluation_interval_the_rules_are_those_that_are_shipped() -> None:
    made = rule_files(StackPlan(pools=POOLS, evaluation=None))

    assert made == {path.name: yaml.safe_load(path.read_text()) for path in RULES.glob("*.yaml")}


def test_the_routes_keep_what_the_plan_does_not_name(places: Places) -> None:
    shipped = yaml.safe_load((RULES / "alertmanager.yml").read_text())["route"]["routes"]
    made = yaml.safe_load(places.config("alertmanager").read_text())["route"]["routes"]

    assert made[0] == shipped[0]
    assert made[1] == {**shipped[1], "group_interval": "5s"}
    assert made[2:] == shipped[2:]


def test_every_part_has_a_port_of_its_own(tmp_path: Path) -> None:
    places = places_for(StackPlan(pools=POOLS, alertmanagers=2, ports={"receiver": 20001}), tmp_path)

    assert places.ports["receiver"] == 20001
    assert places.alertmanagers == ("alertmanager-1", "alertmanager-2")
    assert len(set(places.ports.values())) == len(places.ports) == 7


def test_laying_over_replaces_keys_and_none_removes_them() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 4}, "d": None}) == {"a": {"c": 2, "e": 4}}


def test_the_parts_see_neither_our_variables_nor_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIVO_API_KEY", "of somebody")
    monkeypatch.setenv("GPU_AUTOSCALER_LISTEN", "0.0.0.0:1")
    monkeypatch.setenv("NO_PROXY", "example.com")

    environment = plain_environment()

    assert not [name for name in environment if name.startswith(("CIVO_", "GPU_AUTOSCALER_"))]
    assert environment["NO_PROXY"] == "127.0.0.1,localhost"


def _unit(job: DemoJob) -> float:
    (pool,) = (p for p in POOLS if p.name == job.pool)
    return job.pods * float(pool.price) * UNIT_SECONDS / 3600


def test_the_budget_covers_the_gang_and_is_held_by_it_however_slow_the_singles_are() -> None:
    singles = sum(_unit(job) for job in (TRAIN_1, TRAIN_2, TRAIN_3))
    spent_at_most, reserved = 2 * singles, singles

    assert spent_at_most + reserved + _unit(GANG) <= float(BUDGET_USD)
    assert spent_at_most < 0.8 * float(BUDGET_USD) <= singles + _unit(GANG)


def test_prometheus_can_be_added_to(tmp_path: Path) -> None:
    plan = StackPlan(pools=POOLS, prometheus={"global": {"external_labels": {"cluster": "lon"}}})
    made = prometheus_config(plan, places_for(plan, tmp_path))["global"]
    assert (made["external_labels"], made["scrape_interval"]) == ({"cluster": "lon"}, plan.scrape)


def test_a_pool_can_be_added_to_in_either_configuration(tmp_path: Path) -> None:
    taint = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    pools = (PoolPlan(name="l40s", id="a1", simulator={"taints": taint}, receiver={"taints": taint}),)
    plan = StackPlan(pools=pools)
    places = places_for(plan, tmp_path)

    write_configs(plan, places)

    assert load_file(places.config("receiver")).policy.pools[0].taints[0].key == "gpu"
    assert parse(yaml.safe_load(places.config("simulator").read_text())).pools[0].taints[0].key == "gpu"
