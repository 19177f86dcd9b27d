"""The objects for the Prometheus Operator say what rules/alertmanager.yml says."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lint import load_yaml, none_of
from tests.manifests.built import installed, the
from tests.rules.files import ALERTS, ROOT, RULES, run

pytestmark = pytest.mark.usefixtures("each_alertmanager")

JSON = dict[str, Any]
WHOLE = load_yaml((RULES / "alertmanager.yml").read_text())
OURS = the(installed("kube-prometheus-stack"), "AlertmanagerConfig")
# What docs/install.md tells people to put on their own route.
[LINE] = re.findall(r"^ +# (matchers: .*action.*)$", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
PEOPLE = load_yaml(LINE)["matchers"]
KUBE_PROMETHEUS_STACK: JSON = {
    "receiver": "null",
    "group_by": ["namespace"],
    "group_wait": "30s",
    "repeat_interval": "12h",
}


def as_the_operator_renders(found: JSON) -> JSON:
    """Return Alertmanager's configuration with the AlertmanagerConfig *found* under a default root route.

    What `pkg/alertmanager/amcfg.go` of prometheus-operator 0.93 does with the strategy OnNamespace: the first route
    gets a matcher for the object's namespace and `continue: true`, receivers get names with namespace and object.
    """
    namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]

    def renamed(receiver: str) -> str:
        return f"{namespace}/{name}/{receiver}"

    def route(given: JSON) -> JSON:
        return {
            "receiver": renamed(given["receiver"]),
            "matchers": [f'{m["name"]}{m["matchType"]}"{m["value"]}"' for m in given["matchers"]],
            "group_by": given["groupBy"],
            "group_wait": given["groupWait"],
            "group_interval": given["groupInterval"],
            "repeat_interval": given["repeatInterval"],
            "routes": [route(child) for child in given.get("routes", ())],
        }

    first = route(found["spec"]["route"])
    first["matchers"].append(f'namespace="{namespace}"')
    first["continue"] = True
    receivers = [
        {
            "name": renamed(receiver["name"]),
            "webhook_configs": [
                {
                    "url": webhook["url"],
                    "send_resolved": webhook["sendResolved"],
                    "max_alerts": webhook["maxAlerts"],
                    "http_config": {"authorization": {"type": "Bearer", "credentials": "from the Secret"}},
                }
                for webhook in receiver["webhookConfigs"]
            ],
        }
        for receiver in found["spec"]["receivers"]
    ]
    behind = {"receiver": "people", "matchers": PEOPLE}
    root = {**KUBE_PROMETHEUS_STACK, "routes": [first, behind]}
    return {"route": root, "receivers": [{"name": "null"}, {"name": "people"}, *receivers]}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("operator") / "alertmanager.yaml"
    file.write_text(yaml.safe_dump(as_the_operator_renders(OURS)))
    return file


def _receivers(file: Path, labels: dict[str, str]) -> str:
    told = run("amtool", "config", "routes", "test", f"--config.file={file}", *(f"{k}={v}" for k, v in labels.items()))
    assert told.returncode == 0, told.stderr
    return told.stdout.strip().splitlines()[-1]  # newer ones write warnings before it


def test_through_the_operator_every_alert_reaches_the_autoscaler_and_those_people_whom_the_shipped_routes_tell(
    rendered: Path,
) -> None:
    own = "gpu-autoscaler/gpu-autoscaler/gpu-autoscaler"

    none_of(
        f"{alert.name}: {heard} and not {people or 'no people'}"
        for alert in ALERTS
        for labels in [{"alertname": alert.name, **alert.body["labels"]}]
        for people in [",people" if "people" in _receivers(RULES / "alertmanager.yml", labels) else ""]
        for heard in [_receivers(rendered, labels)]
        if heard != own + people
    )


def test_people_go_on_hearing_of_what_is_not_ours_through_the_operator(rendered: Path) -> None:
    assert _receivers(rendered, {"alertname": "DiskFull", "severity": "warning", "namespace": "db"}) == "people"


def test_through_the_operator_an_alert_of_another_namespace_does_not_reach_the_autoscaler(rendered: Path) -> None:
    assert _receivers(rendered, {"component": "gpu-autoscaler", "namespace": "ml", "action": "scale_up"}) == "null"


def test_the_heartbeat_keeps_its_pace_through_the_operator() -> None:
    [heartbeat] = OURS["spec"]["route"]["routes"]
    [shipped] = (r for r in WHOLE["route"]["routes"] if 'action="heartbeat"' in r["matchers"])

    told = [heartbeat[k] for k in ("groupWait", "groupInterval", "repeatInterval")]
    assert told == [shipped[k] for k in ("group_wait", "group_interval", "repeat_interval")]


def test_alertmanager_accepts_the_configuration_in_the_secret(tmp_path: Path) -> None:
    found = load_yaml((ROOT / "k8s" / "alertmanager" / "secret.yaml").read_text())
    file = tmp_path / "alertmanager.yaml"
    file.write_text(found["stringData"]["alertmanager.yaml"])
    checked = run("amtool", "check-config", file)

    assert checked.returncode == 0, checked.stdout + checked.stderr
