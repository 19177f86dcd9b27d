"""Who hears of which alert, as Alertmanager itself reads rules/alertmanager.yml."""

import re

import pytest
import yaml

from receiver.core.model import SignalAction
from tests.rules.files import RULES, run

CONFIG = RULES / "alertmanager.yml"
ROUTE = yaml.safe_load(CONFIG.read_text())["route"]


def _receivers(**labels: str) -> list[str]:
    """Every receiver that an alert with these *labels* reaches."""
    told = run(
        "amtool", "config", "routes", "test", f"--config.file={CONFIG}", *(f"{k}={v}" for k, v in labels.items())
    )
    assert told.returncode == 0, told.stderr
    return told.stdout.strip().split(",")


def _ours(action: str) -> dict[str, str]:
    return {"alertname": "X", "component": "gpu-autoscaler", "action": action, "pool": "pool-a", "severity": "warning"}


def _seconds(duration: str) -> int:
    found = re.fullmatch(r"(\d+)([smh])", duration)
    assert found is not None
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def test_alertmanager_accepts_the_configuration() -> None:
    checked = run("amtool", "check-config", CONFIG)

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("action", ["scale_up", "scale_down", "hold"])
def test_what_the_autoscaler_deals_with_all_day_reaches_it_and_nobody_else(action: str) -> None:
    assert _receivers(**_ours(action)) == ["gpu-autoscaler", "nobody"]


@pytest.mark.parametrize("action", ["pause_scale_up", "freeze", "fallback", "notify"])
def test_what_concerns_people_reaches_the_autoscaler_and_people(action: str) -> None:
    assert _receivers(**_ours(action)) == ["gpu-autoscaler", "humans"]


def test_the_heartbeat_reaches_the_autoscaler_alone() -> None:
    assert _receivers(**_ours("heartbeat")) == ["gpu-autoscaler"]


def test_an_action_that_a_later_version_adds_reaches_both() -> None:
    assert _receivers(**_ours("something_new")) == ["gpu-autoscaler", "humans"]


@pytest.mark.parametrize("labels", [{"alertname": "DiskFull"}, {"alertname": "X", "component": "db", "action": "hold"}])
def test_alerts_of_others_do_not_reach_the_autoscaler(labels: dict[str, str]) -> None:
    assert _receivers(**labels) == ["humans"]


def test_every_action_that_the_receiver_knows_reaches_it() -> None:
    assert [action for action in SignalAction if "gpu-autoscaler" not in _receivers(**_ours(action))] == []


def test_the_heartbeat_is_repeated_at_every_flush() -> None:
    heartbeat = ROUTE["routes"][0]

    assert _seconds(heartbeat["repeat_interval"]) < _seconds(heartbeat["group_interval"]) == 60
    assert heartbeat["group_wait"] == "0s"


def test_each_pool_is_a_group_of_its_own_that_waits_for_nobody() -> None:
    scaling = ROUTE["routes"][1]

    assert scaling["group_by"] == ["alertname", "pool"]
    assert (scaling["group_wait"], scaling["group_interval"], scaling["repeat_interval"]) == ("0s", "30s", "2m")


def test_the_webhook_is_authorized_by_a_token_from_a_file_and_never_cut_short() -> None:
    [receiver] = [r for r in yaml.safe_load(CONFIG.read_text())["receivers"] if r["name"] == "gpu-autoscaler"]
    [webhook] = receiver["webhook_configs"]

    assert webhook["url"] == "http://gpu-autoscaler.gpu-autoscaler.svc:8080/webhook"
    assert webhook["http_config"]["authorization"].keys() == {"type", "credentials_file"}
    assert (webhook["send_resolved"], webhook["max_alerts"]) == (True, 0)
