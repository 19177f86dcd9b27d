"""A whole life with a budget hold: what keeps new work out is there while it lasts, and put back exactly."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import open_store
from receiver.core.model.model import Spend
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Budget, KeepOut
from receiver.core.scaling.packing import may_not_return
from receiver.ports import STOP_POLICY_ANNOTATION, HeldPlaces, Store, TryLater, WontWork
from simulator.cluster_holding import ClusterQueue, HoldQuota
from tests.adapters.store.builders import migrated
from tests.core.builders import DAY, GPU, MINUTE, NOW, a_busy_node, a_pod, a_pool, a_state, facts, run
from tests.core.builders import a_policy as core_policy
from tests.expect import published
from tests.given import lives
from tests.given.life import TICK, Life, Wrapped, a_job

MEANS = KeepOut(namespaces=("ml", "batch"), cluster_queues=("gpus",))
HELD = ("ClusterQueue gpus", "batch", "ml")


def a_life(store: Store, usd: str = "1.50", **given: Any) -> Life:
    """A budget of which one node-hour (1.29) passes the hold line; the queue ``gpus`` exists."""
    budget = Budget(monthly_usd=Decimal(usd), keep_out=MEANS, passing=frozenset({"production"}))
    life = lives.at_zero(store, budget=budget, **given)
    life.world.cluster_queues["gpus"] = ClusterQueue(stop_policy="None")
    return life


def beyond_the_hold(life: Life) -> Life:
    """Buy one node, whose first hour passes the line."""
    life.submit(a_job())
    life.run(5 * MINUTE)
    return life


def kept_out(life: Life) -> tuple[str, ...]:
    """What the picture shows."""
    return tuple(k["place"] for k in published(life.store)["kept_out"])


def test_the_hold_keeps_new_work_out_by_the_configured_means_and_says_so(store: Store) -> None:
    life = beyond_the_hold(a_life(store))
    assert kept_out(life) == HELD
    assert life.world.quotas["ml"] == HoldQuota(spec={"resources": [GPU], "passing": ["production"]})
    queue = life.world.cluster_queues["gpus"]
    assert (queue.stop_policy, queue.annotations) == ("Hold", {STOP_POLICY_ANNOTATION: "None"})
    assert [t for t in life.notices() if "blocked" in t] == [
        f"New GPU pods are blocked in {p}" for p in ("ml", "batch", "ClusterQueue gpus")
    ]


def test_before_the_hold_line_nothing_is_kept_out(store: Store) -> None:
    life = beyond_the_hold(a_life(store, usd="1000"))
    assert kept_out(life) == ()
    assert life.writes("hold_namespace", "hold_queue") == []


def test_where_no_means_are_configured_it_is_asked_once_and_a_refusal_is_no_news(store: Store) -> None:
    life, asked = a_life(store), 0

    def held_places(*, queues: bool) -> HeldPlaces:
        nonlocal asked
        asked += 1
        raise WontWork("forbidden", code="http_403")

    life.wrap_cluster = lambda cluster: Wrapped(cluster, held_places=held_places)
    budget = life.policy.budget
    assert budget is not None
    life.policy = replace(life.policy, budget=replace(budget, keep_out=KeepOut()))
    beyond_the_hold(life)
    assert asked == 2  # in the first step: with Kueue, and without
    assert not any("New GPU pods" in title for title in life.notices())


def test_a_cluster_beyond_its_line_is_held_while_the_accounts_spend_is_unknown(store: Store) -> None:
    life = a_life(store)
    budget = life.policy.budget
    assert budget is not None
    beyond_the_hold(life).accounts.fail_always(TryLater("timeout"))
    life.policy = replace(life.policy, budget=replace(budget, account_usd=Decimal(5000)))
    life.world.quotas.clear()
    life.world.advance(life.now + 2 * DAY)
    life.step()
    assert life.steps[-1].facts.spend.account is None
    assert set(life.world.quotas) == {"ml", "batch"}


def test_an_unknown_spend_alone_does_not_end_a_hold(store: Store) -> None:
    life = lives.with_budget(beyond_the_hold(a_life(store)), "1000")
    budget = life.policy.budget
    assert budget is not None
    life.accounts.fail_always(TryLater("timeout"))
    life.policy = replace(life.policy, budget=replace(budget, account_usd=Decimal(5000)))
    life.world.advance(life.now + 2 * DAY)
    life.step()
    assert kept_out(life) == HELD


def test_when_the_hold_ends_everything_is_as_it_was(store: Store) -> None:
    life = lives.with_budget(beyond_the_hold(a_life(store)), "1000")
    life.step()
    assert life.world.quotas == {}
    assert life.world.cluster_queues == {"gpus": ClusterQueue(stop_policy="None")}
    assert kept_out(life) == ()
    assert "New GPU pods are allowed again in ml" in life.notices()


def test_a_queue_that_had_no_stop_policy_has_none_again(store: Store) -> None:
    life = a_life(store)
    life.world.cluster_queues["gpus"] = ClusterQueue()
    lives.with_budget(beyond_the_hold(life), "1000").step()
    assert life.world.cluster_queues == {"gpus": ClusterQueue()}


def test_a_queue_that_somebody_else_stopped_is_left_alone_and_told(store: Store) -> None:
    life = a_life(store)
    life.world.cluster_queues["gpus"] = ClusterQueue(stop_policy="HoldAndDrain")
    beyond_the_hold(life)
    lives.with_budget(life, "1000").step()
    assert life.world.cluster_queues == {"gpus": ClusterQueue(stop_policy="HoldAndDrain")}
    assert life.writes("hold_queue", "release_queue") == []
    assert "Could not block new GPU pods in ClusterQueue gpus: they might still start" in life.notices()


def test_a_queue_that_somebody_drained_meanwhile_stays_drained(store: Store) -> None:
    life = beyond_the_hold(a_life(store))
    life.world.cluster_queues["gpus"].stop_policy = "HoldAndDrain"
    lives.with_budget(life, "1000").step()
    assert life.world.cluster_queues == {"gpus": ClusterQueue(stop_policy="HoldAndDrain")}


def test_a_quota_of_that_name_that_is_not_ours_is_left_alone_and_told(store: Store) -> None:
    life = a_life(store)
    theirs = life.world.quotas["ml"] = HoldQuota(spec={}, ours=False)
    beyond_the_hold(life)
    lives.with_budget(life, "1000").step()
    assert life.world.quotas == {"ml": theirs}
    assert "Could not block new GPU pods in ml: they might still start" in life.notices()


def test_what_somebody_undoes_is_done_again_without_more_news(store: Store) -> None:
    life = beyond_the_hold(a_life(store))
    told = list(life.notices())
    life.world.quotas.clear()
    life.world.cluster_queues["gpus"].stop_policy = "None"
    life.step()
    assert set(life.world.quotas) == {"ml", "batch"}
    assert life.world.cluster_queues["gpus"].stop_policy == "Hold"
    assert list(life.notices()) == told


@pytest.mark.database("what outlives a process is in it")
def test_a_restart_neither_forgets_nor_repeats_what_is_held(store: Store) -> None:
    life = beyond_the_hold(a_life(store))
    again = lives.restarted(life, store)
    again.step()
    assert again.writes("hold_namespace", "hold_queue") == []
    lives.with_budget(again, "1000").step()
    assert life.world.quotas == {}
    assert life.world.cluster_queues["gpus"] == ClusterQueue(stop_policy="None")


def test_a_store_that_was_lost_during_the_hold_still_lets_work_in_again(store: Store, tmp_path: Any) -> None:
    life = beyond_the_hold(a_life(store))
    other = open_store(migrated(tmp_path / "new.db"))
    lives.with_budget(lives.restarted(life, other), "1000").run(TICK + TICK)
    other.close()
    assert life.world.quotas == {}
    assert life.world.cluster_queues["gpus"].annotations == {}


def test_means_that_left_the_configuration_during_the_hold_are_undone(store: Store) -> None:
    life = beyond_the_hold(a_life(store))
    budget = life.policy.budget
    assert budget is not None
    life.policy = replace(life.policy, budget=replace(budget, keep_out=KeepOut()))
    life.step()
    assert life.world.quotas == {}
    assert life.world.cluster_queues["gpus"] == ClusterQueue(stop_policy="None")


@pytest.mark.parametrize("lost", ["budget.hold", "the budget"])
def test_means_that_left_the_configuration_and_the_store_are_undone_at_the_start(
    store: Store, tmp_path: Any, lost: str
) -> None:
    life = beyond_the_hold(a_life(store))
    assert life.policy.budget is not None
    budget = replace(life.policy.budget, keep_out=KeepOut()) if lost == "budget.hold" else None
    other = open_store(migrated(tmp_path / "new.db"))
    again = lives.restarted(life, other, policy=replace(life.policy, budget=budget))
    again.cluster.fail_next(TryLater("timeout"), "held_places")
    again.run(2 * TICK)
    other.close()
    assert life.world.quotas == {}
    assert life.world.cluster_queues == {"gpus": ClusterQueue(stop_policy="None")}


def test_it_is_known_since_when_a_place_is_kept_out(store: Store) -> None:
    life = beyond_the_hold(a_life(store))
    first = life.steps[0].facts.at
    life.run(MINUTE)
    assert {datetime.fromisoformat(k["since"]) for k in published(life.store)["kept_out"]} <= {
        s.facts.at for s in life.steps if s.facts.at < first + 2 * MINUTE
    }


def test_what_fails_is_told_when_a_person_must_act_and_tried_again(store: Store) -> None:
    life = a_life(store)
    life.submit(a_job())
    life.run(MINUTE)
    life.world.quotas.clear()
    life.cluster.fail_next(WontWork("forbidden", code="http_403"), "hold_namespace")
    life.step()
    assert "Could not block new GPU pods in ml: they might still start" in life.notices()
    life.step()
    assert set(life.world.quotas) == {"ml", "batch"}


def test_while_kubernetes_does_not_answer_the_hold_waits_and_pools_are_served(store: Store) -> None:
    life = a_life(store)
    life.cluster.fail_next(TryLater("timeout"), "held_places")
    life.submit(a_job())
    life.run(5 * MINUTE)
    assert life.required() == 1
    assert kept_out(life) == HELD


def without_kueue(cluster: Any) -> Any:
    """The cluster, which refuses to list ClusterQueues."""

    def held_places(*, queues: bool) -> HeldPlaces:
        if queues:
            raise WontWork("Kubernetes refused to list clusterqueues", code="http_403")
        found: HeldPlaces = cluster.held_places(queues=queues)
        return found

    return Wrapped(cluster, held_places=held_places)


def test_quotas_are_placed_and_deleted_while_kueue_cannot_be_asked(store: Store) -> None:
    life = a_life(store)
    life.wrap_cluster = without_kueue
    beyond_the_hold(life)
    assert kept_out(life) == ("batch", "ml")
    assert "Could not block new GPU pods in ClusterQueues: they might still start" in life.notices()
    lives.with_budget(life, "1000").step()
    assert life.world.quotas == {}


def test_a_held_queue_is_not_forgotten_while_kueue_cannot_be_asked(store: Store) -> None:
    life = beyond_the_hold(a_life(store))
    life.wrap_cluster = without_kueue
    lives.with_budget(life, "1000").step()
    assert kept_out(life) == ("ClusterQueue gpus",)
    life.wrap_cluster = lambda cluster: cluster
    life.step()
    assert kept_out(life) == ()
    assert life.world.cluster_queues["gpus"] == ClusterQueue(stop_policy="None")


def test_observe_mode_writes_nothing_and_says_what_would_be_done(store: Store) -> None:
    life = a_life(store, usd="1.00", mode="observe")
    life.world.resize("l40s-id", 1)
    life.run(3 * MINUTE)
    assert life.writes() == []
    assert life.world.quotas == {}
    assert "New GPU pods would be blocked in ml (observing)" in life.notices()
    assert kept_out(life) == ()


def test_a_pod_that_could_not_start_again_is_not_moved_during_the_hold() -> None:
    budget = Budget(monthly_usd=Decimal(100), keep_out=KeepOut(namespaces=("ml",)), passing=frozenset({"production"}))
    due = {"created_at": NOW - timedelta(minutes=57), "allocatable": {GPU: 2}}
    said: dict[str, Any] = {"phase": PodPhase.RUNNING, "evictable": True, "owner": "ReplicaSet/web"}
    nodes = [a_busy_node(n, pods=(a_pod(f"on-{n}", node=n, **said),), **due) for n in ("n1", "n2")]
    policy = core_policy(a_pool(resources={GPU: 2}), budget=budget)
    calm = run(facts(a_state(*nodes)), policy)[1]["l40s"]
    held = run(facts(a_state(*nodes), spend=Spend(month="2026-11", usd=Decimal(80))), policy)[1]["l40s"]
    ending = run(facts(a_state(*nodes), kept_out={"ml": NOW}), policy)[1]["l40s"]
    assert (calm.target, held.target, ending.target) == (1, 2, 2)


def test_what_may_not_return_is_what_the_means_would_refuse() -> None:
    budget = Budget(monthly_usd=Decimal(1), keep_out=MEANS, passing=frozenset({"production"}))
    policy = core_policy(budget=budget)
    assert may_not_return(a_pod(), policy)
    assert not may_not_return(a_pod(priority_class="production"), policy)
    assert not may_not_return(a_pod(namespace="web"), policy)
    assert may_not_return(a_pod(namespace="web", labels={"kueue.x-k8s.io/queue-name": "q"}), policy)
