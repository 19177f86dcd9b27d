"""What a file that is right becomes."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.config import ConfigError, Mode, load_file, load_text
from receiver.core.model.policy import (
    STARTUP_TAINTS,
    Anchor,
    Attribution,
    Billing,
    Budget,
    ChargePrice,
    Fallback,
    KeepOut,
    KeepUntil,
    Limits,
    Patience,
    Policy,
    Pool,
    Rounding,
    Stated,
    Taint,
)
from receiver.core.model.windows import Window
from tests.config.builders import POOL, QUIET, one_pool

WHOLE = """
mode: act
tick: 10s
prometheus: {url: "http://127.0.0.1:9090/"}
alertmanager: {urls: ["http://127.0.0.1:9093", "https://am-1.example.org/alertmanager"]}
kubernetes: {enabled: true}
fallback: kubernetes
heartbeat_interval: 30s
webhook: {max_bytes: 1048576}
budget:
  {monthly_usd: 5000, timezone: Europe/London, warn_at: 0.4, hold_at: 0.75, stop_at: 0.95,
  spent_usd_stated: {month: 2026-11, usd: 1200.50},
  account_usd: 9000, teams: {research: 1000.50}, passing_priority_classes: [production],
  hold: {namespaces: [ml, batch], kueue_cluster_queues: [gpus]}}
billing:
  {granularity: 1m, rounding: floor_min_one, anchor: clock, removal_margin: 10s, charges_tolerance_usd: 25}
limits: {max_gpus: 64, max_growth_per_hour: 32, max_removals_per_hour: 60}
attribution: {team: example.com/team, project: project}
overrides: {longest: 12h}
keep_until: {namespaces: [ml], longest: 6h}
patience:
  {priority_classes: {batch: 4h}, teams: {research: 2h}, namespaces: {nightly: 8h}, longest: 1d, lowest_priority: -5}
pools:
  - name: l40s
    civo_pool_id: 5f3c
    size: an.g1.l40s.kube.x1
    price_usd_per_hour: 1.19
    resources: {nvidia.com/gpu.shared: 4}
    labels: {gpu: on-demand}
    taints: [{key: gpu, value: "true", effect: NoExecute}, {key: other}]
    min_nodes: 1
    max_nodes: 8
    standby_nodes: 2
    cooldown: {grow: 1m, shrink: 1h30m}
    utilization: {high: 0.80, low: 0.40, underutilized: 0.30, idle: 0.02}
    temperature_celsius: 90
    idle_for: 1d
    provision_timeout: 25m
    budget_usd: 250
    windows:
      - name: nights
        location: Europe/London
        times: [{start_time: "20:00", end_time: "24:00"}, {start_time: 00:00, end_time: 7:30}]
        weekdays: [monday:friday, Sunday]
        days_of_month: ["1:5", -1]
        months: [january, 5:8]
        years: [2026, "2027:2030"]
        min_nodes: 0
        max_nodes: 1
        standby_nodes: 0
"""


def test_every_key_reaches_the_policy() -> None:
    settings = load_text(WHOLE)
    nights = Window(
        name="nights",
        location="Europe/London",
        times=((1200, 1440), (0, 450)),
        weekdays=((1, 5), (0, 0)),
        days_of_month=((1, 5), (-1, -1)),
        months=((1, 1), (5, 8)),
        years=((2026, 2026), (2027, 2030)),
        min_nodes=0,
        max_nodes=1,
        standby_nodes=0,
    )
    pool = Pool(
        id="5f3c",
        name="l40s",
        size="an.g1.l40s.kube.x1",
        resources={"nvidia.com/gpu.shared": 4},
        max_nodes=8,
        price_usd_per_hour=Decimal("1.19"),
        labels={"gpu": "on-demand"},
        taints=(Taint(key="gpu", value="true", effect="NoExecute"), Taint(key="other")),
        min_nodes=1,
        standby_nodes=2,
        grow_cooldown=timedelta(minutes=1),
        shrink_cooldown=timedelta(minutes=90),
        utilization_high=0.80,
        utilization_low=0.40,
        underutilized=0.30,
        idle=0.02,
        temperature_celsius=90,
        idle_for=timedelta(days=1),
        provision_timeout=timedelta(minutes=25),
        windows=(nights,),
        budget_usd=Decimal(250),
    )
    assert settings.policy == Policy(
        pools=(pool,),
        budget=Budget(
            monthly_usd=Decimal(5000),
            timezone="Europe/London",
            warn_at=Decimal("0.4"),
            hold_at=Decimal("0.75"),
            stop_at=Decimal("0.95"),
            stated=Stated(month="2026-11", usd=Decimal("1200.50")),
            account_usd=Decimal(9000),
            teams={"research": Decimal("1000.50")},
            passing=frozenset({"production"}),
            keep_out=KeepOut(namespaces=("ml", "batch"), cluster_queues=("gpus",)),
        ),
        billing=Billing(
            granularity=timedelta(minutes=1),
            rounding=Rounding.FLOOR_MIN_ONE,
            anchor=Anchor.CLOCK,
            removal_margin=timedelta(seconds=10),
            charges_tolerance_usd=Decimal(25),
        ),
        limits=Limits(max_gpus=64, max_growth_per_hour=32, max_removals_per_hour=60),
        longest_override=timedelta(hours=12),
        patience=Patience(
            priority_classes={"batch": timedelta(hours=4)},
            teams={"research": timedelta(hours=2)},
            namespaces={"nightly": timedelta(hours=8)},
            longest=timedelta(days=1),
            lowest_priority=-5,
        ),
        keep_until=KeepUntil(namespaces=frozenset({"ml"}), longest=timedelta(hours=6)),
        fallback=Fallback.KUBERNETES,
        heartbeat_interval=timedelta(seconds=30),
        attribution=Attribution(team="example.com/team", project="project"),
        gpu_kinds=settings.policy.gpu_kinds,
        gpu_prices=settings.policy.gpu_prices,
        charge_prices=settings.policy.charge_prices,
    )
    file = settings.configuration
    assert file.mode is Mode.ACT
    assert file.tick == timedelta(seconds=10)
    assert file.prometheus.url == "http://127.0.0.1:9090"
    assert file.alertmanager.urls == ("http://127.0.0.1:9093", "https://am-1.example.org/alertmanager")
    assert file.webhook.max_bytes == 1048576
    assert (file.attribution.team, file.attribution.workload_class) == ("example.com/team", "workload-class")


def test_startup_taints_of_the_configuration_are_added_to_the_built_in_ones() -> None:
    text = one_pool(top='kubernetes: {startup_taints: ["ebs.csi.aws.com/agent-not-ready"]}\n')
    found = load_text(text).policy.startup_taints
    assert found == (*STARTUP_TAINTS, "ebs.csi.aws.com/agent-not-ready")


def test_what_is_left_out_has_the_defaults_of_the_core() -> None:
    settings = load_text(f"pools:{POOL}")
    pool = Pool(
        id="5f3c",
        name="l40s",
        size="an.g1.l40s.kube.x1",
        resources={"nvidia.com/gpu": 1},
        max_nodes=8,
        price_usd_per_hour=Decimal("1.29"),
    )
    kinds, per_gpu = settings.policy.gpu_kinds, settings.policy.gpu_prices
    prices = settings.policy.charge_prices
    assert settings.policy == Policy(pools=(pool,), charge_prices=prices, gpu_kinds=kinds, gpu_prices=per_gpu)
    assert prices["kube-node-an.g1.l40s.kube.x1"] == ChargePrice(usd_per_hour=Decimal("1.29"))
    assert prices["volume"] == ChargePrice(usd_per_gb_hour=Decimal("0.0001507"))
    assert settings.policy.gpu_kinds["an.g1.l40s.kube.x1"] == "L40S"
    assert settings.configuration.mode is Mode.OBSERVE
    assert settings.configuration.kubernetes.enabled


def test_a_budget_has_the_defaults_of_the_core() -> None:
    assert load_text(one_pool()).policy.budget == Budget(monthly_usd=Decimal(5000))


def test_money_is_as_exact_as_it_was_written() -> None:
    text = "budget: {monthly_usd: 0.1000000000000000055511151231257827}\n" + one_pool(
        "price_usd_per_hour: 1.79", top=""
    )
    policy = load_text(text).policy
    assert policy.pools[0].price_usd_per_hour == Decimal("1.79")
    assert policy.budget is not None
    assert str(policy.budget.monthly_usd) == "0.1000000000000000055511151231257827"


def test_yaml_does_not_turn_words_into_other_values() -> None:
    (pool,) = load_text(
        one_pool("labels: {switch: on, answer: no, octal: 0123, day: 2026-01-01, one: 1.10}")
    ).policy.pools
    assert pool.labels == {"switch": "on", "answer": "no", "octal": "0123", "day": "2026-01-01", "one": "1.10"}


def test_a_label_value_may_be_empty() -> None:
    assert load_text(one_pool('labels: {gpu: ""}')).policy.pools[0].labels == {"gpu": ""}


def test_anchors_and_merged_mappings_are_followed() -> None:
    text = QUIET + (
        "pools:\n"
        "  - &first {name: a, civo_pool_id: a1, size: g4g.kube.small, resources: {nvidia.com/gpu: 1}, max_nodes: 2}\n"
        "  - {<<: *first, name: b, civo_pool_id: b1}\n"
        "  - {<<: [{max_nodes: 5}, *first], name: c, civo_pool_id: c1}\n"
    )
    pools = load_text(text).policy.pools
    assert [(pool.name, pool.max_nodes) for pool in pools] == [("a", 2), ("b", 2), ("c", 5)]


@pytest.mark.parametrize("written", ["false", "False", "no", "off"])
def test_false_may_be_written_as_yaml_does(written: str) -> None:
    assert not load_text(one_pool(top=f"kubernetes: {{enabled: {written}}}\n")).configuration.kubernetes.enabled


def test_a_budget_of_zero_buys_nothing_and_is_allowed() -> None:
    policy = load_text(one_pool(top="budget: {monthly_usd: 0}\n")).policy
    assert policy.budget is not None
    assert policy.budget.monthly_usd == 0


def test_per_second_billing_needs_no_margin() -> None:
    assert not load_text(one_pool(top="billing: {granularity: 1s}\n")).policy.billing.by_the_hour


def test_hold_and_stop_may_be_the_same_line() -> None:
    assert load_text(one_pool(top="budget: {monthly_usd: 5, hold_at: 1.0}\n")).policy.budget is not None


def test_mig_profiles_are_gpus() -> None:
    text = one_pool().replace("nvidia.com/gpu: 1", "nvidia.com/mig-1g.10gb: 7, nvidia.com/mig-1g.5gb+me: 1")
    assert load_text(text).policy.pools[0].gpus_per_node == 8


def test_windows_that_never_meet_may_contradict_each_other() -> None:
    text = one_pool(
        "windows:",
        "  - {name: day, min_nodes: 3, times: [{start_time: 08:00, end_time: 18:00}]}",
        "  - {name: night, max_nodes: 0, times: [{start_time: 18:00, end_time: 24:00}]}",
    )
    assert [w.name for w in load_text(text).policy.pools[0].windows] == ["day", "night"]


def test_a_pool_has_at_most_a_hundred_windows() -> None:
    windows = [f"  - {{name: w{number}, max_nodes: 1}}" for number in range(101)]
    with pytest.raises(ConfigError, match=r"pools\[0\]\.windows: has 101 entries; write at most 100$"):
        load_text(one_pool("windows:", *windows))


def test_a_night_without_nodes_needs_no_word_about_standby() -> None:
    text = one_pool("standby_nodes: 1", "windows:", "  - {name: night, max_nodes: 0}")
    assert load_text(text).policy.pools[0].standby_nodes == 1


def test_a_file_that_cannot_be_read_is_said_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.yaml: No such file"):
        load_file(tmp_path / "nowhere.yaml")


def test_a_file_that_is_not_utf_8_is_said_so(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"mode: \xff")
    with pytest.raises(ConfigError, match="is not UTF-8; save it as UTF-8"):
        load_file(file)


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        load_text(one_pool(top="prometheus: {url: 'ftp://me:s3cret@prometheus'}\n"))
    assert "s3cret" not in str(refused.value)


ALARMS = "alertmanager: {urls: [http://alertmanager:9093]}\n"
WARNED = [
    ("no budget", one_pool(top=ALARMS + "prometheus: {url: http://p}\n"), "budget: none is set"),
    ("no prometheus", one_pool(top=ALARMS + "budget: {monthly_usd: 5}\n"), "prometheus.url: none is set"),
    (
        "no repeat_interval",
        one_pool(top=QUIET.replace(ALARMS, "")),
        "alertmanager.repeat_interval: is not set, and without alertmanager.urls a delivered alert",
    ),
    ("no cluster", one_pool(top=QUIET + "kubernetes: {enabled: false}\n"), "kubernetes.enabled: is false"),
    ("floor above the limit", one_pool("min_nodes: 3", top=QUIET + "limits: {max_gpus: 2}\n"), "limits.max_gpus: 2 is"),
    (
        "window above the pool",
        one_pool("windows: [{name: burst, max_nodes: 12}]"),
        "pools[0].windows[0].max_nodes: 12 is above the pool's max_nodes (8), which wins",
    ),
    (
        "windows of two zones",
        one_pool("windows: [{name: a, min_nodes: 3}, {name: b, location: Asia/Tokyo, max_nodes: 1}]"),
        "pools[0].windows[0].min_nodes: 3 is above max_nodes (1) of window b in another zone",
    ),
    (
        "unknown price",
        one_pool().replace("l40s.kube.x1", "l40s.kube.x3"),
        "pools[0].size: no price is known for an.g1.l40s.kube.x3, so this pool cannot grow",
    ),
    (
        "a price far above the usual",
        one_pool("price_usd_per_hour: 12.9"),
        "pools[0].price_usd_per_hour: $12.90 per L40S and hour",
    ),
    ("a limit below a node", one_pool(top=QUIET + "limits: {max_gpus: 0}\n"), "limits.max_gpus: 0 is below the 1 GPU"),
    ("no growth", one_pool(top=QUIET + "limits: {max_growth_per_hour: 0}\n"), "limits.max_growth_per_hour: is 0"),
    ("no removal", one_pool(top=QUIET + "limits: {max_removals_per_hour: 0}\n"), "limits.max_removals_per_hour: is 0"),
    ("rare steps", one_pool(top=QUIET + "tick: 5m\n"), "tick: steps 5m apart count as outages in the cost reports"),
    ("early heartbeats", one_pool(top=QUIET + "heartbeat_interval: 10s\n"), "heartbeat_interval: 10s is too short"),
    ("a long warm-up", one_pool(top=QUIET + "warm_up: 1d\n"), "warm_up: for 24h after a start with a new store"),
    ("small deliveries", one_pool(top=QUIET + "webhook: {max_bytes: 1000}\n"), "webhook.max_bytes: 1000 is less"),
    (
        "no node for ordinary pods",
        one_pool(top=QUIET + "patience: {lowest_priority: 1}\n"),
        "patience.lowest_priority: 1 is above 0",
    ),
    ("no nodes", one_pool().replace("max_nodes: 8", "max_nodes: 0"), "pools[0].max_nodes: is 0, so l40s never grows"),
    (
        "removed before they are used",
        one_pool("provision_timeout: 2m"),
        "pools[0].provision_timeout: 2m is shorter than a node of Civo needs",
    ),
    (
        "a window that closes the pool for good",
        one_pool("windows: [{name: always, max_nodes: 0}]"),
        "pools[0].windows[0].max_nodes: is 0 and the window is always open, so l40s never grows",
    ),
    (
        "a window of past years",
        one_pool("windows: [{name: past, years: ['2024', '2025'], max_nodes: 1}]"),
        "pools[0].windows[0].years: are over, so the window never opens again",
    ),
    (
        "a budget below a node's hour",
        one_pool(top=QUIET.replace("5000", "1.28")),
        "budget.monthly_usd: $1.28 does not pay for the first 1h of a node of l40s ($1.29), so that pool never grows",
    ),
    (
        "a pool's budget below a node's hour",
        one_pool("budget_usd: 1"),
        "pools[0].budget_usd: $1.00 does not pay for the first 1h of a node of l40s ($1.29), so that pool never grows",
    ),
    (
        "a team's budget below a node's hour",
        one_pool(top=QUIET.replace("5000", "5000, teams: {vision: 1, speech: 2}")),
        "budget.teams.vision: $1.00 does not pay for the first 1h of any node ($1.29 or more)",
    ),
    (
        "fewer GPUs than the size has",
        one_pool().replace("l40s.kube.x1", "l40s.kube.x8"),
        "pools[0].resources: an.g1.l40s.kube.x8 has 8 GPUs and resources lists 1",
    ),
]


@pytest.mark.parametrize(("text", "warning"), [w[1:] for w in WARNED], ids=[w[0] for w in WARNED])
def test_what_is_probably_not_meant_is_warned_of(text: str, warning: str) -> None:
    (said,) = load_text(text).warnings
    assert said.startswith(warning)


def test_nothing_is_warned_of_without_a_reason() -> None:
    assert load_text(one_pool()).warnings == ()
    assert load_text(one_pool(top=QUIET.replace(ALARMS, "alertmanager: {repeat_interval: 2m}\n"))).warnings == ()


def test_a_pool_of_an_unknown_size_has_no_price_and_is_no_mistake() -> None:
    settings = load_text(one_pool().replace("l40s.kube.x1", "l40s.kube.x3"))
    assert settings.policy.pools[0].price_usd_per_hour is None
    assert "did you mean an.g1.l40s.kube.x" in settings.warnings[0]


keys = st.sampled_from(["mode", "tick", "budget", "pools", "windows", "name", "size", "times", "resources", "<<"])
texts = st.sampled_from(["", "~", "1", "-1", "5m", "0.5", "l40s", "&a x", "*a", "!x y", "2026-01-01"]) | st.text(
    max_size=6
)
nested = st.recursive(
    texts,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]")
        | st.dictionaries(keys, inner, max_size=4).map(
            lambda found: "{" + ", ".join(f"{key}: {value}" for key, value in found.items()) + "}"
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(keys, nested, max_size=4))
def test_no_text_raises_anything_but_a_list_of_mistakes(document: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text("\n".join(f"{key}: {value}" for key, value in document.items()))
    assert refused.value.mistakes
    assert "value error" not in str(refused.value).lower()
