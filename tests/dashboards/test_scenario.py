"""The scenario can be started: its configurations are valid, and what it shortens is there to be shortened."""

from pathlib import Path

import pytest
import yaml

from demo.configs import simulator_config, write_configs
from demo.stack import places_for
from receiver.config import load_file
from simulator.config import parse
from tests.dashboards.scenario import IDLE_RULE, POOLS, QUEUED, plan, shortened, workload
from tests.rules.files import RECORDINGS, run


def test_simulator_and_autoscaler_take_their_configurations(tmp_path: Path) -> None:
    places = places_for(plan(), tmp_path)
    write_configs(plan(), places)
    assert [p.id for p in parse(simulator_config(plan(), places)).pools] == [p.id for p in POOLS]
    load_file(places.config("receiver"))  # raises ConfigError with every mistake


def test_an_hour_is_a_minute_in_the_rule_about_idle_gpus_and_it_is_still_a_rule(tmp_path: Path) -> None:
    (rule,) = (r for r in RECORDINGS if r.name == IDLE_RULE)
    expr = shortened(rule.body["expr"])
    assert "1h" not in expr
    assert "3600" not in expr
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [{"record": "x", "expr": expr}]}]}))
    assert run("promtool", "check", "rules", file).returncode == 0


def test_a_rule_that_has_become_another_is_not_shortened_in_silence() -> None:
    with pytest.raises(ValueError, match="no longer has"):
        shortened("max_over_time(x[2h])")


def test_every_workload_waits_until_it_is_admitted() -> None:
    (queue, gpus), *_ = QUEUED
    assert workload("w", queue, gpus, 0)["status"] == {"conditions": []}
    admitted = workload("w", queue, gpus, 0, 60)["status"]["conditions"]
    assert [(c["type"], c["lastTransitionTime"]) for c in admitted] == [
        ("QuotaReserved", "1970-01-01T00:01:00Z"),
        ("Admitted", "1970-01-01T00:01:00Z"),
    ]
