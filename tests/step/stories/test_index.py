"""Which failure stories of other autoscalers there are, and which test tells each of them.

The stories were collected from the issue trackers of Cluster Autoscaler, Karpenter, Escalator, Nomad Autoscaler,
KEDA, OpenFaaS, Alertmanager and others; the tests of this folder name the issue in their docstrings. Those that
concern scaling are lived through here, on the real step over the simulated world. The others have their tests
where their subject is (webhook, rules, windows, prices, notices) and are only listed.

    1  a node is Ready before its GPU is allocatable, and is bought for again
    2  what was bought too much is removed under running Jobs
    3  a GPU never initialises, and its node bills for ever
    4  the cloud picks the victim: the busy or the oldest node dies
    5  Prometheus answers with nothing, which is read as zero, at peak
    6  Prometheus restarts with an empty TSDB, and all is idle
    7  unknown for ever, and never down again
    8  nothing is known yet after a restart, and the pool goes to zero
    9  a silent Prometheus sends no alerts and looks healthy
    10 two Alertmanagers both resend after a 5xx
    11 the retry of a partly applied batch applies it again
    12 firing, resolved, firing from a reload
    13 a resolved alert runs the remediation
    14 firing and resolved alerts in one group scale everything
    15 a value in a label makes every evaluation a new alert
    16 a truncated payload hides pools
    17 the same alert twice within two seconds acts twice
    18 the queue is full, the answer is 200, and the alert is lost
    19 a slow handler runs into Alertmanager's deadline
    20 a dry run that acts
    21 evaluations faster than actions drain the whole pool
    22 drained before the provider refused
    23 timers reset by a restart or an OOM loop
    24 the maximum is exceeded by two writers
    25 it scaled its own pool to zero
    26 a fight with GitOps, Terraform or another autoscaler
    27 a forgotten cordon leaves a paid, dead node
    28 an unknown count or price is read as 0
    29 a price unit that is wrong by 730
    30 concurrent approvals overshoot the cap
    31 budget thresholds are told again after a restart
    32 DST, weekdays in UTC, overlapping windows, midnight
    33 clocks that disagree, or step back
    34 MIG: no utilization, or 0
    35 a utilization that is latched at 100 %
    36 a job that loads looks idle and is reaped
    37 system pods pin an idle GPU node
    38 the operator's validation pods trigger growth
    39 phase Pending includes pulling an image
    40 a pod that can never fit is bought for in a loop
    41 no capacity, and a hot loop
    42 a cooldown blocks a human
    43 a chat outage blocks scaling
    44 the node is rebooted in the middle of its drain
    45 a shrink takes the node that builds, for ever
    46 an event that was never counted takes one off
    47 a long average hides idleness
    48 a GPU that is held without a process is invisible
    49 a hold under the wrong name
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
LATER = {42: "there are no overrides yet that a person could set"}
TOLD = {
    1: "step/stories/test_bought_once test_forty_jobs_on_nodes_that_are_ready_minutes_before_their_gpus_buy_forty_gpus",
    2: "step/stories/test_bought_once test_jobs_of_different_lengths_are_never_killed_by_the_scale_down_that_follows",
    3: "step/stories/test_stuck_nodes test_a_pool_whose_gpus_never_come_buys_six_nodes_in_a_day_and_not_seventy_two",
    4: "step/stories/test_who_goes test_the_idle_node_goes_and_neither_the_old_busy_one_nor_the_one_that_builds",
    5: "step/stories/test_silence test_no_data_at_peak_takes_no_node",
    6: "step/stories/test_silence "
    "test_a_node_that_became_idle_while_prometheus_has_just_come_back_empty_goes_by_pod_counts",
    7: "step/stories/test_silence test_gpu_activity_that_stays_unknown_does_not_keep_an_empty_node_for_ever",
    8: "step/stories/test_silence test_a_process_that_has_just_begun_removes_nothing_before_it_has_seen_it_idle",
    9: "step/test_step test_without_a_heartbeat_nothing_is_removed_and_people_are_told",
    10: "e2e/test_two_alertmanagers test_two_alertmanagers_that_send_the_same_group_at_once_buy_one_node",
    11: "e2e/test_deliveries test_the_same_payload_twenty_times_from_eight_threads_asks_civo_once",
    12: "e2e/test_deliveries test_the_order_of_messages_does_not_matter",
    13: "step/stories/test_bought_once test_what_messages_came_before_does_not_change_what_is_done",
    14: "ports/test_alert_payload test_each_alerts_own_status_counts_and_not_the_groups",
    15: "rules/test_conventions test_no_label_of_an_alert_is_a_template",
    16: "ports/test_alert_payload test_truncated_alerts_are_counted_and_warned_of",
    17: "e2e/test_two_alertmanagers test_two_alertmanagers_that_send_the_same_group_at_once_buy_one_node",
    18: "web/test_webhook test_a_delivery_that_cannot_be_remembered_is_not_acknowledged_and_wakes_nobody",
    19: "web/test_webhook test_the_loop_is_woken_after_the_delivery_is_remembered_and_nothing_else_happens",
    20: "adapters/test_observe test_a_write_becomes_a_sentence_and_reaches_nobody",
    21: "step/stories/test_restarts test_a_thousand_webhooks_during_one_removal_are_one_removal",
    22: "step/stories/test_who_goes test_a_node_that_civo_refuses_to_delete_takes_work_again",
    23: "step/stories/test_restarts test_kill_9_at_any_call_of_a_removal_ends_in_one_removal",
    24: "step/stories/test_bought_once test_a_count_that_somebody_raises_between_our_look_and_our_put_is_not_exceeded",
    25: "step/stories/test_who_goes test_a_node_that_hosts_us_or_our_eyes_is_never_taken",
    26: "step/stories/test_drift test_a_count_that_somebody_else_changes_is_told_once_and_adopted",
    27: "step/stories/test_restarts test_a_cordon_that_nobody_remembers_is_lifted_by_the_next_process",
    28: "step/stories/test_silence test_a_size_without_a_price_is_not_free",
    29: "config/test_prices test_every_shipped_price_is_plausible_for_its_kind",
    30: "core/scaling/test_laws test_pools_that_race_for_what_is_left_never_share_it_twice",
    31: "adapters/store/test_outbox test_the_same_key_is_told_once",
    32: "core/model/test_windows test_nothing_changes_before_the_next_change_and_something_does_at_it",
    33: "step/test_stuck test_a_clock_that_was_a_day_ahead_for_a_moment_does_not_stop_growth_for_a_day",
    34: "step/stories/test_silence test_mig_slices_without_any_utilization_are_bought_and_given_back_by_pod_counts",
    35: "step/stories/test_silence test_a_utilization_that_is_stuck_at_one_hundred_percent_keeps_no_empty_node",
    36: "step/stories/test_who_goes test_a_job_that_loads_for_hours_without_touching_its_gpu_keeps_it",
    37: "step/stories/test_who_goes test_system_pods_that_a_disruption_budget_covers_do_not_pin_an_idle_gpu_node",
    38: "step/stories/test_no_help test_a_validation_pod_of_the_gpu_operator_is_no_demand",
    39: "step/stories/test_bought_once test_a_pod_that_is_pending_for_another_reason_than_room_is_no_demand",
    40: "step/stories/test_no_help test_a_pod_that_the_nodes_turn_out_not_to_hold_is_bought_for_once",
    41: "step/stories/test_bought_once "
    "test_no_stock_for_six_hours_is_asked_for_rarely_told_once_and_recovered_from_alone",
    43: "adapters/messages/test_outbox test_a_store_that_fails_raises_nothing_here",
    44: "step/stories/test_who_goes test_a_node_that_is_not_ready_for_a_while_during_its_removal_goes_all_the_same",
    45: "step/stories/test_who_goes test_shrinking_and_growing_again_and_again_never_kills_the_node_that_builds",
    46: "step/stories/test_bought_once test_what_messages_came_before_does_not_change_what_is_done",
    47: "rules/test_promtool test_the_rules_do_what_their_promtool_tests_say",
    48: "step/stories/test_silence test_a_gpu_that_a_pod_holds_and_never_uses_counts_as_held",
    49: "docs/test_guardrails_page test_every_guardrail_has_its_heading_in_the_order_in_which_they_run",
}


def test_every_story_is_told_or_said_to_come_later() -> None:
    listed = {int(number) for number in re.findall(r"^    (\d+) ", __doc__, re.MULTILINE)}
    assert listed == set(range(1, 50)) == set(TOLD) | set(LATER)
    assert not set(TOLD) & set(LATER)


@pytest.mark.parametrize("number", sorted(TOLD))
def test_the_test_that_tells_a_story_exists(number: int) -> None:
    module, name = TOLD[number].split()
    assert f"\ndef {name}(" in (TESTS / f"{module}.py").read_text()


def test_every_story_of_this_folder_says_in_its_docstring_what_went_wrong() -> None:
    for number, told in TOLD.items():
        module, name = told.split()
        if module.startswith("step/stories/"):
            after = (TESTS / f"{module}.py").read_text().split(f"\ndef {name}(")[1]
            assert after.split(":\n    ", 1)[1].startswith('"""'), number
