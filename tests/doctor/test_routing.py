"""What Alertmanager's configuration does with our alerts: faults are named, what we ship and what is usual is not."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml

from receiver.core.model.signals import payload_life
from receiver.doctor import inhibition, routing
from receiver.doctor.addresses import Known
from receiver.doctor.alertmanager_config import read_config
from receiver.doctor.carried import Carried, carried, external_labels
from receiver.doctor.finding import Finding
from receiver.doctor.running_rules import running_rules
from receiver.doctor.shipped import shipped_rules
from tests.doctor.monitored import POOLS, rules
from tests.rules.files import RULES

JSON = dict[str, Any]
TEXT = (RULES / "alertmanager.yml").read_text(encoding="utf-8")
ADDRESSES = Known(hosts={"gpu.acme.net"}, ports={8080})
URL = "http://gpu-autoscaler.gpu-autoscaler.svc:8080/webhook"
CHAT = {"url": "https://chat.acme.net/hook", "send_resolved": True}
ALERTS = carried(shipped_rules(), running_rules(rules()), {"cluster": "a"}, POOLS)
MINUTE = timedelta(minutes=1)
LIFE = payload_life()


def as_shipped() -> JSON:
    """The configuration that we ship, with somebody behind people's receivers."""
    config: JSON = yaml.safe_load(TEXT)
    for receiver in config["receivers"]:
        if receiver["name"].startswith("people"):
            receiver["webhook_configs"] = [CHAT]
    return config


def found(config: JSON, alerts: tuple[Carried, ...] = ALERTS, life: timedelta = LIFE) -> list[Finding]:
    read = read_config(yaml.safe_dump(config))
    return [*routing.judge(read, alerts, ADDRESSES, MINUTE, life), *inhibition.judge(read, alerts)]


def trouble(config: JSON, alerts: tuple[Carried, ...] = ALERTS) -> list[Finding]:
    return [finding for finding in found(config, alerts) if finding.verdict != "pass"]


# kube-prometheus-stack's own configuration, with what the operator makes of our AlertmanagerConfig.
OPERATOR = """
route:
  receiver: "null"
  group_by: [namespace]
  group_wait: 30s
  group_interval: 5m
  repeat_interval: 12h
  routes:
  - receiver: gpu-autoscaler/gpu-autoscaler/gpu-autoscaler
    group_by: [alertname, pool]
    matchers: ['component="gpu-autoscaler"', 'namespace="gpu-autoscaler"']
    group_wait: 0s
    group_interval: 30s
    repeat_interval: 2m
    continue: true
    routes:
    - receiver: gpu-autoscaler/gpu-autoscaler/gpu-autoscaler
      group_by: [alertname]
      match: {component: gpu-autoscaler, action: heartbeat}
      group_wait: 0s
      group_interval: 1m
      repeat_interval: 50s
  - {receiver: "null", matchers: ['alertname = "Watchdog"']}
  - {receiver: people, matchers: ['severity =~ "warning|critical"']}
inhibit_rules:
- source_matchers: ['severity = critical']
  target_matchers: ['severity =~ warning|info']
  equal: [namespace, alertname]
- {source_matchers: ['severity = warning'], target_matchers: ['severity = info'], equal: [namespace, alertname]}
- {source_matchers: ['alertname = InfoInhibitor'], target_matchers: ['severity = info'], equal: [namespace]}
- {target_matchers: ['alertname = InfoInhibitor']}
receivers:
- {name: "null"}
- {name: people, webhook_configs: [{url: "https://chat.acme.net/hook"}]}
- name: gpu-autoscaler/gpu-autoscaler/gpu-autoscaler
  webhook_configs:
  - url: <secret>
    http_config: {authorization: {type: Bearer, credentials: <secret>}}
"""


def operators() -> JSON:
    config: JSON = yaml.safe_load(OPERATOR)
    return config


def test_what_we_ship_raises_no_alarm() -> None:
    assert trouble(as_shipped()) == []
    assert {finding.check for finding in found(as_shipped())} == {
        c.name for c in (*routing.CHECKS, inhibition.INHIBITION)
    }


def test_what_the_operator_makes_of_our_object_raises_no_alarm_though_it_hides_the_address() -> None:
    assert trouble(operators()) == []
    (webhook,) = [f for f in found(operators()) if f.check == "alertmanager.webhook"]
    assert "hides its address" in webhook.said


def _routes(config: JSON) -> list[JSON]:
    routes: list[JSON] = config["route"]["routes"]
    return routes


def _ours(config: JSON) -> JSON:
    webhook: JSON = next(r for r in config["receivers"] if r["name"] == "gpu-autoscaler")["webhook_configs"][0]
    return webhook


def _no_route(config: JSON) -> None:
    config["route"]["routes"] = []


def _shadowed(config: JSON) -> None:
    _routes(config).insert(0, {"receiver": "people", "matchers": ['severity=~"warning|none"']})


def _shadowed_for_one_pool(config: JSON) -> None:
    _routes(config).insert(0, {"receiver": "people", "matchers": ['pool="pool-big"']})


def _deeper(config: JSON) -> None:
    _routes(config)[1]["routes"] = [{"receiver": "people", "matchers": ['action="hold"']}]


def _other_component(config: JSON) -> None:
    for route in _routes(config):
        route["matchers"][0] = 'component="gpu-scaler"'


def _route(number: int, **changes: Any) -> Callable[[JSON], None]:
    return lambda config: _routes(config)[number].update(changes)


def _webhook(**changes: Any) -> Callable[[JSON], None]:
    return lambda config: _ours(config).update(changes)


def _inhibited(**rule: Any) -> Callable[[JSON], None]:
    return lambda config: config["inhibit_rules"].append(rule)


def _nobody_for_people(config: JSON) -> None:
    next(r for r in config["receivers"] if r["name"] == "people-page")["webhook_configs"] = []


INFO_TOO = {
    "source_matchers": ['severity="critical"'],
    "target_matchers": ['severity=~"warning|none"'],
    "equal": ["namespace"],
}
NODE_DOWN = {"source_match": {"alertname": "KubeNodeNotReady"}, "target_match_re": {"component": "gpu-.*"}}
OURS_OVER_OURS = {
    "source_matchers": ['alertname="GpuBudgetStop"'],
    "target_matchers": ['action="scale_up"'],
    "equal": ["component"],
}
PLANTED: list[tuple[str, Callable[[JSON], None], list[str], str]] = [
    ("no route to us", _no_route, ["routes fail", "webhook skip"], "no route leads to gpu-autoscaler"),
    (
        "a route before ours takes all",
        _shadowed,
        ["routes fail"],
        "route.routes[0] (receiver people) takes them first",
    ),
    ("it takes those of one pool", _shadowed_for_one_pool, ["routes fail"], "GpuPodsPending"),
    ("a route below ours takes some", _deeper, ["routes fail"], "route.routes[1].routes[0] below route.routes[1]"),
    (
        "they match something else",
        _other_component,
        ["routes fail", "routes fail", "webhook skip"],
        'wants component="gpu-scaler"',
    ),
    (
        "the webhook is elsewhere",
        _webhook(url="http://example.org/hook"),
        ["routes fail", "webhook skip"],
        "no receiver has",
    ),
    ("its host is unknown", _webhook(url="http://scaler.infra.svc/webhook"), ["webhook warn"], "not known to be ours"),
    (
        "its port is another's",
        _webhook(url="http://127.0.0.1:9999/webhook"),
        ["routes fail", "webhook skip"],
        "no receiver has",
    ),
    ("no token", _webhook(http_config={}), ["webhook fail"], "answered 401"),
    ("a password for it", _webhook(http_config={"basic_auth": {"username": "x"}}), ["webhook fail"], "answered 401"),
    ("messages are cut", _webhook(max_alerts=10), ["webhook warn"], "after 10 alerts"),
    ("ends are not sent", _webhook(send_resolved=False), ["webhook warn"], "resolved"),
    ("slow to tell", _route(1, group_wait="30s"), ["times warn"], "waits 30s"),
    ("slow to tell of another", _route(1, group_interval="5m"), ["times warn"], "after 5m"),
    ("seldom repeated", _route(1, repeat_interval="4h"), ["times warn"], "repeats after 4h"),
    ("pools in one group", _route(1, group_by=["alertname"]), ["times warn"], "groups by alertname"),
    ("a heartbeat every two minutes", _route(0, repeat_interval="1m"), ["times warn"], "every 2m"),
    ("a heartbeat every four hours", _route(0, repeat_interval="4h"), ["times fail"], "nothing is removed"),
    ("muted at night", _route(1, mute_time_intervals=["nights"]), ["hours fail"], "route.routes[1]"),
    ("a heartbeat in office hours", _route(0, active_time_intervals=["office-hours"]), ["hours fail"], "office-hours"),
    ("people hear nothing", _nobody_for_people, ["people warn"], "GpuXidFatal"),
    ("others' alerts hold ours back", _inhibited(**INFO_TOO), ["inhibition fail"], "GpuPodsPending"),
    ("a node that is down does", _inhibited(**NODE_DOWN), ["inhibition fail"], "KubeNodeNotReady"),
    ("one of ours does", _inhibited(**OURS_OVER_OURS), ["inhibition fail"], "1 alert: GpuPodsPending"),
]


@pytest.mark.parametrize("plant, checks, words", [p[1:] for p in PLANTED], ids=[p[0] for p in PLANTED])
def test_a_fault_is_found_named_and_has_a_remedy(plant: Callable[[JSON], None], checks: list[str], words: str) -> None:
    config = as_shipped()
    plant(config)
    told = trouble(config)
    assert [f"{f.check.removeprefix('alertmanager.')} {f.verdict}" for f in told] == checks
    assert words in told[0].said
    assert all(finding.remedy for finding in told if finding.verdict != "skip")


def test_a_route_that_repeats_later_than_an_alert_counts_is_named() -> None:
    config = as_shipped()
    _route(1, repeat_interval="12h")(config)
    (_, lapses) = [f for f in found(config) if f.verdict != "pass"]
    assert (lapses.check, lapses.verdict) == ("alertmanager.times", "warn")
    assert "repeats a firing alert after up to 12h30s" in lapses.said
    assert "counts for 8h5m" in lapses.said
    config = as_shipped()
    assert [f for f in found(config, life=payload_life(timedelta(minutes=2), MINUTE / 2)) if f.verdict != "pass"] == []


def test_the_operators_matcher_of_another_namespace_is_named_with_what_helps() -> None:
    config = operators()
    _routes(config)[0]["matchers"][1] = 'namespace="monitoring"'
    (told, _) = trouble(config)
    assert told.check == "alertmanager.routes"
    assert 'wants namespace="monitoring" and they carry namespace="gpu-autoscaler"' in told.said
    assert "alertmanagerConfigMatcherStrategy" in told.remedy


@pytest.mark.parametrize(
    "rule",
    [
        {"source_matchers": ['severity="critical"'], "target_matchers": ['severity="warning"'], "equal": ["alertname"]},
        {"source_matchers": ['alertname="Maintenance"'], "target_matchers": ['component!="gpu-autoscaler"']},
        {"source_matchers": ['component="gpu-autoscaler"'], "target_matchers": ['severity="info"']},
        {
            "source_matchers": ['alertname="GpuBudgetHold"'],
            "target_matchers": ['action="scale_up"'],
            "equal": ["severity"],
        },
        {"source_matchers": ['cluster="b"'], "target_matchers": ['severity="warning"'], "equal": ["cluster"]},
    ],
    ids=[
        "critical over warning of one name",
        "ours left out",
        "ours over nothing of ours",
        "unlike",
        "another cluster",
    ],
)
def test_a_rule_that_cannot_hit_what_acts_raises_no_alarm(rule: JSON) -> None:
    config = as_shipped()
    rule = dict(rule)
    if rule["source_matchers"] == ['alertname="GpuBudgetHold"']:
        rule["equal"] = ["component", "action"]
    config["inhibit_rules"].append(rule)
    assert trouble(config) == []


def test_a_chat_bridge_at_the_same_path_is_not_taken_for_us() -> None:
    config = as_shipped()
    chat = next(r for r in config["receivers"] if r["name"] == "people-chat")
    chat["webhook_configs"] = [{"url": "http://bridge.chat.svc/webhook", "max_alerts": 3}]
    assert trouble(config) == []


def test_routes_that_only_alertmanager_can_evaluate_are_not_guessed() -> None:
    config = as_shipped()
    _routes(config)[0]["matchers"] = ['action=~"[[:alpha:]]+"']
    with pytest.raises(ValueError, match="only be evaluated by Alertmanager"):
        read_config(yaml.safe_dump(config))


def test_alerts_are_taken_as_they_run_with_prometheus_own_labels() -> None:
    data = rules()
    running = running_rules(data)
    (pending,) = [a for a in carried(shipped_rules(), running, {"cluster": "a"}, POOLS) if a.name == "GpuPodsPending"]
    assert [labels.get("pool") for labels in pending.labels] == [None, "pool-gpu", "pool-big"]
    assert all(labels["cluster"] == "a" for labels in pending.labels)
    assert len(carried(shipped_rules(), (), {}, POOLS)) == len(ALERTS)


def test_the_heartbeat_is_of_no_pool() -> None:
    (beat,) = [alert for alert in ALERTS if alert.action == "heartbeat"]
    assert len(beat.labels) == 1


def test_external_labels_are_read_from_the_running_configuration() -> None:
    assert external_labels({"yaml": "global:\n  external_labels: {cluster: a, replica: 1}\n"}) == {
        "cluster": "a",
        "replica": "1",
    }
    assert external_labels(None) == {}
