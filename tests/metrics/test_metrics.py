"""/metrics: what the store knows, what the policy says, and nothing that nobody knows."""

import subprocess
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from demo.stack import binary
from receiver.core.model.memory import Control
from receiver.core.model.policy import Policy
from receiver.core.scaling.failures import Failure
from receiver.metrics.collector import Instruments, StoreCollector
from receiver.ports import TryLater, WontWork
from receiver.step.parts import PARTS
from simulator.store import MemoryStore
from tests.clocks import FixedClock
from tests.metrics.counted import a_counted_store, hear
from tests.metrics.scrapes import a_registry, samples_named, samples_of, scrape, scraped_samples
from tests.settings import settings_of
from tests.web.builders import A100, L40S, NOW, a_decision, a_full_store, a_picture, a_policy, an_action, showing
from tests.web.stores import a_store_with, add_actions, failing, logged


def test_policy_is_there_before_the_first_step() -> None:
    found = samples_of(scrape(MemoryStore()))
    assert found[f'policy_utilization_high_ratio{{pool="{L40S}"}}'] == 0.7
    assert found[f'policy_utilization_low_ratio{{pool="{A100}"}}'] == 0.5
    assert found[f'pool_info{{pool="{L40S}",pool_name="l40s",size="an.g1.l40s.kube.x1"}}'] == 1
    assert found[f'pool_nodes_max{{pool="{L40S}"}}'] == 8
    assert found[f'pool_nodes_min{{pool="{L40S}"}}'] == 0
    assert found['budget_limit_usd{name="",scope="cluster"}'] == 5000
    assert found['budget_threshold_ratio{stage="hold"}'] == 0.8


def test_nothing_looked_at_is_reported_before_the_first_step() -> None:
    found = samples_of(scrape(MemoryStore()))
    for name in ("pool_nodes", "pool_nodes_wanted", "pool_pending_gpus", "budget_spent_usd", "snapshot_age_seconds"):
        assert not samples_named(found, name)


def test_every_counter_of_a_known_pool_starts_at_zero() -> None:
    found = samples_of(scrape(MemoryStore()))
    decisions, actions = samples_named(found, "decisions_total"), samples_named(found, "actions_total")
    assert (len(decisions), len(actions)) == (2 * 3, 2 * 2 * 5)
    assert set(decisions.values()) | set(actions.values()) == {0}
    assert found['webhook_requests_total{code="503"}'] == 0
    assert (found["notices_pending{}"], found['notices_total{state="failed"}']) == (0, 0)
    assert found["loop_errors_total{}"] == 0


def test_a_pools_nodes_are_told_by_state() -> None:
    found = scraped_samples()
    states = {"required": 4, "ready": 3, "building": 1, "busy": 2, "idle": 1, "unknown": 0, "sick": 1}
    for state, count in states.items():
        assert found[f'pool_nodes{{pool="{L40S}",state="{state}"}}'] == count
    assert found[f'pool_nodes_wanted{{pool="{L40S}"}}'] == 4
    assert found[f'pool_pending_gpus{{pool="{A100}"}}'] == 16


def test_bounds_are_those_in_force_now() -> None:
    pools = [{**a_picture()["pools"][0], "min_nodes": 1, "max_nodes": 3}]
    found = scraped_samples(pools=pools)
    assert found[f'pool_nodes_min{{pool="{L40S}"}}'] == 1
    assert found[f'pool_nodes_max{{pool="{L40S}"}}'] == 3


def test_a_price_nobody_knows_is_absent_and_not_zero() -> None:
    found = samples_named(scraped_samples(), "pool_node_price_usd_per_hour")
    assert found == {f'pool_node_price_usd_per_hour{{pool="{L40S}"}}': 1.29}


def test_a_count_nobody_knows_is_absent_and_not_zero() -> None:
    found = scraped_samples(pools=[{**a_picture()["pools"][0], "ready": None}])
    assert f'pool_nodes{{pool="{L40S}",state="ready"}}' not in found
    assert f'pool_nodes{{pool="{L40S}",state="busy"}}' in found


def test_utilization_is_told_where_it_was_read() -> None:
    assert samples_named(scraped_samples(), "pool_utilization_ratio") == {
        f'pool_utilization_ratio{{pool="{L40S}"}}': 0.8125
    }


def test_spend_is_told_in_usd() -> None:
    found = scraped_samples()
    assert found['budget_spent_usd{name="",scope="cluster"}'] == 3120.44
    assert found['budget_spent_usd{name="research",scope="team"}'] == 80.5
    assert found['budget_reserved_usd{name="",scope="cluster"}'] == 412.80
    assert found['budget_forecast_usd{name="",scope="cluster"}'] == 6100.5
    assert found['budget_stage{name="research",scope="team",stage="hold"}'] == 1
    assert found['budget_stage{name="research",scope="team",stage="stop"}'] == 0


def test_without_a_budget_there_is_no_limit() -> None:
    found = samples_of(scrape(showing(budget=None, budgets=[]), Policy(pools=a_policy().pools)))
    assert not [key for key in found if key.startswith("budget_")]


def test_sources_that_nobody_asked_for_are_absent() -> None:
    found = samples_named(scraped_samples(), "source_up")
    assert found['source_up{source="civo"}'] == 1
    assert found['source_up{source="dcgm"}'] == 0
    assert found['source_up{source="store"}'] == 1
    assert 'source_up{source="alertmanager"}' not in found


def test_the_age_of_an_open_action_is_told_and_zero_without_one() -> None:
    store = a_full_store()
    add_actions(store, an_action(opened_at=NOW - timedelta(minutes=3), id="open", outcome=None))
    found = scraped_samples(store)
    assert found[f'action_open_seconds{{pool="{L40S}"}}'] == 180
    assert found[f'action_open_seconds{{pool="{A100}"}}'] == 0


def test_an_action_that_ended_after_the_picture_is_no_longer_open() -> None:
    store = a_full_store()  # the picture has one of either pool
    add_actions(store, an_action(pool=A100, opened_at=NOW - timedelta(seconds=5), id="open", outcome=None))
    found = scraped_samples(store)
    assert found[f'action_open_seconds{{pool="{L40S}"}}'] == 0
    assert found[f'action_open_seconds{{pool="{A100}"}}'] == 5


def test_a_pool_that_backs_off_is_told() -> None:
    found = scraped_samples()
    assert (found[f'pool_backoff{{pool="{L40S}"}}'], found[f'pool_backoff{{pool="{A100}"}}']) == (0, 1)


def test_what_holds_a_direction_of_a_pool_is_told_with_the_time_it_ends() -> None:
    found = {
        name: value for name, value in scraped_samples().items() if name.startswith("pool_wait_until_timestamp_seconds")
    }
    ends = {("grow", "cooldown", L40S): 20, ("grow", "backoff", A100): 420, ("shrink", "backoff", A100): 720}
    assert found == {
        f'pool_wait_until_timestamp_seconds{{direction="{way}",kind="{kind}",pool="{pool}"}}': NOW.timestamp() + seconds
        for (way, kind, pool), seconds in ends.items()
    }


def test_the_last_heartbeat_is_a_unix_time() -> None:
    assert scraped_samples()["last_heartbeat_timestamp_seconds{}"] == (NOW - timedelta(seconds=50)).timestamp()


def test_the_last_delivery_is_a_unix_time() -> None:
    assert scraped_samples()["last_delivery_timestamp_seconds{}"] == (NOW - timedelta(seconds=20)).timestamp()


def test_a_heartbeat_never_heard_is_absent() -> None:
    store = a_full_store()
    hear(store, NOW, "scale_up")
    found = scraped_samples(store)
    assert not samples_named(found, "last_heartbeat_timestamp_seconds")


def test_the_picture_and_the_last_step_have_an_age_each() -> None:
    found = scraped_samples()
    assert (found["snapshot_age_seconds{}"], found["step_age_seconds{}"]) == (4, 7)


def test_the_last_step_has_an_age_where_no_picture_could_be_made() -> None:
    store = MemoryStore()
    store.keep_control(Control(at=NOW - timedelta(seconds=7)))
    found = samples_of(scrape(store))
    assert not samples_named(found, "snapshot_age_seconds")
    assert found["step_age_seconds{}"] == 7


def test_before_the_first_step_there_is_no_age() -> None:
    assert not samples_named(scraped_samples(a_full_store()), "step_age_seconds")


@pytest.mark.parametrize(("mode", "act", "observe"), [("act", 1, 0), ("observe", 0, 1)])
def test_the_mode_in_force_is_one_and_the_other_zero(mode: str, act: int, observe: int) -> None:
    found = samples_of(scrape(MemoryStore(), mode=mode))
    assert (found['mode{mode="act"}'], found['mode{mode="observe"}']) == (act, observe)


def test_the_version_is_a_label() -> None:
    assert scraped_samples()['build_info{cluster_name="",version="0.1.0"}'] == 1


def test_totals_come_from_the_store() -> None:
    found = scraped_samples()
    assert found[f'decisions_total{{change="hold",pool="{L40S}"}}'] == 9
    assert found[f'decisions_total{{change="shrink",pool="{L40S}"}}'] == 0
    assert found[f'actions_total{{kind="grow",outcome="confirmed",pool="{L40S}"}}'] == 2
    assert found["deliveries_total{}"] == 2
    assert found['alerts_total{action="scale_up"}'] == 30
    assert found['alerts_total{action="other"}'] == 1
    assert found['alerts_total{action="freeze"}'] == 0
    assert (found["notices_pending{}"], found['notices_total{state="sent"}']) == (1, 5)


def test_totals_of_a_pool_that_policy_no_longer_names_stay() -> None:
    store = a_full_store(decisions=[a_decision(n, pool="gone-pool", target=n) for n in (4, 5)])
    found = scraped_samples(store)
    assert found['decisions_total{change="grow",pool="gone-pool"}'] == 2


@pytest.mark.parametrize("error", [TryLater("disk full"), WontWork("schema is newer")])
def test_a_store_that_is_down_leaves_the_policy_and_says_so(error: Exception) -> None:
    found = samples_of(scrape(failing(error)))
    assert samples_named(found, "source_up") == {'source_up{source="store"}': 0}
    assert found[f'policy_utilization_high_ratio{{pool="{L40S}"}}'] == 0.7
    assert not samples_named(found, "decisions_total")


def test_registering_does_not_read_the_store() -> None:
    log: list[str] = []
    a_registry(logged(a_full_store(), log))
    assert log == []


def test_a_picture_of_empty_parts_breaks_nothing() -> None:
    empty: dict[str, Any] = {"pools": [{}], "budget": {}, "sources": [{}]}
    assert samples_of(scrape(a_store_with(picture=(empty, NOW))))


def test_answers_and_steps_are_counted_in_the_process() -> None:
    registry = CollectorRegistry()
    instruments = Instruments()
    registry.register(instruments)
    instruments.webhook_answered(202, 0.007)
    instruments.webhook_answered(401, 0.001)
    instruments.stepped(0.3, failed=False)
    instruments.stepped(12.0, failed=True)
    found = samples_of(generate_latest(registry).decode())
    assert found['webhook_requests_total{code="202"}'] == 1
    assert found['webhook_requests_total{code="401"}'] == 1
    assert (found['webhook_seconds_bucket{le="0.005"}'], found['webhook_seconds_bucket{le="0.01"}']) == (1, 2)
    assert (found["loop_steps_total{}"], found["loop_errors_total{}"]) == (2, 1)
    assert found["loop_step_seconds_sum{}"] == 12.3


def test_who_leads_is_told_with_the_name_of_the_process() -> None:
    registry, instruments = CollectorRegistry(), Instruments("pod-a-1-1f2e3d")
    registry.register(instruments)
    instruments.leads = lambda: True
    assert samples_of(generate_latest(registry).decode())['leader{process="pod-a-1-1f2e3d"}'] == 1


def test_each_part_of_a_step_is_there_at_0_and_counted_when_it_fails() -> None:
    registry, instruments = CollectorRegistry(), Instruments()
    registry.register(instruments)
    bug = ValueError("a bug")
    failures = [Failure(part=part, error=bug) for part in ("picture", "message:grew", "message:misfit", "decide")]
    instruments.stepped(0.3, failed=False, failures=failures)
    found = samples_named(samples_of(generate_latest(registry).decode()), "step_part_failures_total")
    assert set(found) == {f'step_part_failures_total{{part="{part}"}}' for part in PARTS}
    assert {key: n for key, n in found.items() if n} == {
        'step_part_failures_total{part="picture"}': 1,
        'step_part_failures_total{part="messages"}': 2,
        'step_part_failures_total{part="decide"}': 1,
    }


def test_there_are_no_created_series() -> None:
    assert "_created" not in scrape(a_full_store())


def test_money_of_any_size_is_a_number() -> None:
    budget = {**a_picture()["budget"], "spent_usd": str(Decimal("123456789.01"))}
    assert scraped_samples(budgets=[budget])['budget_spent_usd{name="",scope="cluster"}'] == 123456789.01


def test_promtool_has_nothing_to_object() -> None:
    command = [binary("promtool"), "check", "metrics"]
    checked = subprocess.run(
        command, input=scrape(a_counted_store()), text=True, capture_output=True, check=False, timeout=60
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_charges_are_shown_with_their_difference_age_and_what_has_no_price() -> None:
    said = scrape(a_full_store())
    assert 'gpu_autoscaler_charges_difference_seconds{size="an.g1.l40s.kube.x1"} -10800.0' in said
    assert 'gpu_autoscaler_charges_unpriced_seconds{code="dbaas-small"} 43200.0' in said
    assert "gpu_autoscaler_charges_age_seconds 420.0" in said


def test_the_clusters_name_is_a_label_of_the_version() -> None:
    registry = CollectorRegistry()
    settings = settings_of(a_policy(), cluster_name="prod")
    collector = StoreCollector(MemoryStore(), settings, FixedClock(NOW), version="1")
    registry.register(collector)
    assert registry.get_sample_value("gpu_autoscaler_build_info", {"version": "1", "cluster_name": "prod"}) == 1
