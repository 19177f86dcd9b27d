"""What would happen if a node went."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.registry import step_additions
from receiver.capabilities.what_if.departure import Departure, departure, find_node
from receiver.core.explain.explain import State
from receiver.core.model.actions import Action, Because, Victim, VictimStage
from receiver.core.model.model import Backoff, CordonedBy, Facts, Node, Stage
from receiver.core.model.overrides import Answer
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Approval, Limits, Policy
from receiver.core.model.signals import SignalAction
from receiver.core.model.windows import Window
from receiver.core.scaling.bounds import topic_of
from tests.core.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_question,
    a_removal,
    a_signal,
    a_state,
    an_override,
    facts,
)
from tests.given.requests import a_buffer


def a_job(name: str = "train", gpus: int = 1, **changes: Any) -> Any:
    given = {"owner": f"Job/{name}", "phase": PodPhase.RUNNING, "node": "n1"}
    return a_pod(name, gpus, **{**given, **changes})


def a_worker(*pods: Any, name: str = "n1", **changes: Any) -> Node:
    return a_node(name, pods=pods or (a_job(),), idle_since=None, **changes)


def gone(found: Facts, policy: Policy | None = None, name: str = "n1") -> Departure:
    node = find_node(found, name)
    assert node is not None
    added = step_additions()
    return departure(*node, found, policy or a_policy(), sources=added.sources, guardrails=added.guardrails)


def test_a_node_is_found_by_name_and_by_instance() -> None:
    found = facts(a_state(a_node("n1"), a_node("n2")))
    assert find_node(found, "n2") == find_node(found, "i-n2")
    assert find_node(found, "n3") is None


def test_work_of_different_pools_prices_the_node_that_is_bought_for_it() -> None:
    small, large = a_pool("small", max_nodes=1), a_pool("large", price_usd_per_hour=Decimal(3))
    found = facts(a_state(a_worker(), pool="small-id"), a_state(pool="large-id"))
    left = gone(found, a_policy(small, large))
    assert left.bought == {"small-id": 1}  # there is room below its maximum again
    full = replace(small, max_nodes=0)
    assert gone(found, a_policy(full, large)).bought == {"large-id": 1}


def test_pods_of_daemonsets_and_those_that_end_do_not_come_again() -> None:
    pods = (a_job("agent", daemon=True), a_job("over", terminating=True))
    assert gone(facts(a_state(a_worker(*pods)))).moved == ()


def test_a_gang_that_loses_a_pod_waits_for_it() -> None:
    one, two = a_job("one", gang="ml/squad", gang_min=2), a_job("two", gang="ml/squad", gang_min=2, node="n2")
    found = facts(a_state(a_worker(one), a_worker(two, name="n2")), bound_gangs={"ml/squad": 2})
    turn = gone(found).moved[0]
    assert (turn.workload.key, turn.workload.bound, turn.after.state) == ("ml/squad", 1, State.BUYING)


def test_work_that_no_budget_or_limit_covers_would_be_held() -> None:
    held = gone(facts(a_state(a_worker()), grown_last_hour=1), a_policy(limits=Limits(max_growth_per_hour=1)))
    assert (held.moved[0].after.state, held.moved[0].after.rule) == (State.HELD, "within_limits")
    assert held.bought == {}


def test_half_of_a_paid_hour_is_not_used() -> None:
    left = gone(facts(a_state(a_node(created_at=NOW - HOUR / 2))))
    assert (left.paid_until, left.unused_usd) == (NOW + HOUR / 2, Decimal("0.645"))


def test_an_idle_node_goes_when_its_hour_ends() -> None:
    left = gone(facts(a_state(a_node(created_at=NOW - HOUR / 2))))
    assert left.at == NOW + 25 * MINUTE
    assert left.blocks == ("it can be removed at 12:25:00 UTC, shortly before its next paid hour",)
    due = gone(facts(a_state(a_due_node())))
    assert (due.at, due.blocks) == (NOW, ())


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (a_due_node(cordoned_by=CordonedBy.SOMEONE), "someone else cordoned it"),
        (a_due_node(hosts=("monitoring/prometheus-0",)), "it hosts monitoring/prometheus-0"),
        (a_due_node(kept_until=NOW + HOUR, kept_for="ml/train"), "ml/train has it kept until 13:00:00 UTC"),
        (a_due_node(unknown_since=NOW), "its GPUs are in use without a pod"),
        (a_due_node(stage=Stage.DELETING), "it is being deleted already"),
        (a_due_node(stage=Stage.BOOTING, created_at=NOW - MINUTE, idle_since=None), "it is booting, and not overdue"),
        (a_worker(), "it runs pods without consent to be moved: ml/train"),
        (a_worker(a_job(evictable=True)), "its pods consent to be moved, and fit on no other node that runs work"),
    ],
)
def test_what_keeps_the_node_itself_is_said_first(node: Node, said: str) -> None:
    left = gone(facts(a_state(node)))
    assert (left.blocks[0], left.at) == (said, None)


def failing(*instances: str, reason: str = "a budget of pods forbids it") -> Backoff:
    return Backoff(failures=1, until=NOW + 20 * MINUTE, reason=reason, instances=instances)


def test_a_node_whose_removal_backs_off_says_why_and_when_it_is_tried_again() -> None:
    left = gone(facts(a_state(a_due_node(created_at=NOW - HOUR / 2), removal_backoff=failing("i-n1"))))
    again = "it is tried again at 12:25:00 UTC"
    assert (left.blocks, left.at) == (("an earlier try failed: a budget of pods forbids it", again), NOW + 25 * MINUTE)


def test_a_broken_node_whose_removal_backs_off_is_tried_again_when_that_ends() -> None:
    dead = a_node(stage=Stage.BROKEN, idle_since=None, created_at=NOW - 3 * HOUR, lost_at=NOW - 2 * HOUR)
    left = gone(facts(a_state(dead, removal_backoff=failing("i-n1"))))
    again = "it is tried again at 12:20:00 UTC"
    assert (left.blocks, left.at) == (("an earlier try failed: a budget of pods forbids it", again), NOW + 20 * MINUTE)


def test_a_backoff_of_another_node_is_not_this_nodes() -> None:
    left = gone(facts(a_state(a_node("n1", created_at=NOW - HOUR / 2), removal_backoff=failing("i-n2"))))
    assert left.blocks == ("it can be removed at 12:25:00 UTC, shortly before its next paid hour",)


PDB = "PodDisruptionBudget web blocks the eviction of ml/web-0 from node n1"
WITHDRAWN = f"{PDB}; then its next paid hour began; it can be removed at 12:25:00 UTC"


def tried(why: str, name: str = "n1", **changes: Any) -> Action:
    """A removal of that node, five minutes ago, that ended without it."""
    changes = {"waited_for": PDB, **changes} if why == WITHDRAWN else changes
    victim = Victim(instance=f"i-{name}", node=name, stage=VictimStage.SPARED, since=NOW - 5 * MINUTE, why=why)
    return replace(a_removal(name), id=f"r-{name}", victims=(replace(victim, **changes),))


def after(*actions: Action, node: Node | None = None, **state: Any) -> Departure:
    """The consequences for a node that has been idle for half an hour, whose pool had *actions*."""
    node = node or a_node("n1", created_at=NOW - HOUR / 2, idle_since=NOW - HOUR / 2)
    found = facts(a_state(node, **state))
    return departure(found.pools[0], node, found, a_policy(), actions=actions)


def test_a_node_that_a_disruption_budget_kept_names_it_and_when_it_is_tried_again() -> None:
    left = after(tried("ml/other is ending", "n2"), tried(WITHDRAWN), tried("an older reason; then it stays"))
    assert left.blocks == (
        f"its removal failed at 11:55:00 UTC: {PDB}",
        "it is tried again at 12:25:00 UTC, shortly before its next paid hour",
    )
    assert left.at == NOW + 25 * MINUTE


def test_of_several_nodes_that_back_off_each_names_its_own_obstacle() -> None:
    refused = f"node n1 was not drained within 15m: {PDB}"
    backoff = failing("i-n1", "i-n2", reason="node n2 was uncordoned by someone else")
    left = after(tried(refused, refused=True), removal_backoff=backoff)
    assert left.blocks[0] == f"its removal failed at 11:55:00 UTC: {refused}"
    assert "uncordoned" not in " ".join(left.blocks)


@pytest.mark.parametrize(
    ("action", "node"),
    [
        (tried("waiting work fits on it: ml/train"), None),
        (tried(WITHDRAWN), a_node("n1", created_at=NOW - HOUR / 2, idle_since=NOW - MINUTE)),
        (tried(WITHDRAWN), a_worker()),
    ],
    ids=["work that came", "idle anew", "in use now"],
)
def test_what_no_longer_keeps_a_node_is_not_named(action: Action, node: Node | None) -> None:
    assert "failed" not in " ".join(after(action, node=node).blocks)


def test_a_busy_node_that_could_not_be_emptied_names_what_kept_its_pods() -> None:
    left = after(tried(WITHDRAWN, because=Because.CONSOLIDATED), node=a_worker())
    assert left.blocks[-1] == f"its removal failed at 11:55:00 UTC: {PDB}"


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (PDB, (f"its removal has begun and waits: {PDB}", "it is tried again at 12:01:00 UTC")),
        ("", ()),
    ],
    ids=["blocked", "under way"],
)
def test_a_removal_that_has_begun_names_what_it_waits_for(why: str, said: tuple[str, ...]) -> None:
    removal = a_removal("n1", stage=VictimStage.CORDONED)
    removal = replace(removal, victims=(replace(removal.victims[0], why=why),), retry_at=NOW + MINUTE)
    node = a_due_node(cordoned_by=CordonedBy.US)
    left = gone(facts(a_state(node, open_action=removal)))
    assert (left.blocks, left.at) == (said, NOW + MINUTE if why else NOW)


def test_an_alert_that_holds_busy_nodes_is_named() -> None:
    work = a_worker(a_job(evictable=True))
    other = a_worker(a_job("other", 1, node="n2"), name="n2", allocatable={"nvidia.com/gpu": 2})
    found = facts(a_state(work, other), signals=(a_signal(SignalAction.HOLD),))
    assert gone(found).blocks[0].endswith(" is firing (action: hold): busy nodes are not drained")


def test_a_guardrail_is_said_beside_what_keeps_the_node() -> None:
    pause = an_override("pause", until=NOW + timedelta(hours=2))
    left = gone(facts(a_state(a_due_node(protected=True)), overrides=(pause,)))
    assert left.blocks[0] == "it is protected"
    assert len(left.blocks) == 2
    assert "pause" in left.blocks[1]


def test_a_dead_node_may_go_at_once() -> None:
    dead = a_node(stage=Stage.BROKEN, idle_since=None, created_at=NOW - 3 * HOUR, lost_at=NOW - 2 * HOUR)
    assert gone(facts(a_state(dead))).at == NOW


def test_a_dead_node_stays_while_a_pod_is_bound_to_it() -> None:
    times: dict[str, Any] = {"created_at": NOW - 3 * HOUR, "lost_at": NOW - 2 * HOUR}
    dead = a_node(stage=Stage.BROKEN, idle_since=None, pods=(a_job(),), was_usable=True, **times)
    left = gone(facts(a_state(dead)))
    assert left.at is None
    assert left.blocks == ("it is broken, and GPU pods are bound to it: ml/train",)


def test_a_dead_node_is_kept_for_no_workload() -> None:
    times: dict[str, Any] = {"created_at": NOW - 3 * HOUR, "lost_at": NOW - 2 * HOUR}
    dead = a_node(stage=Stage.BROKEN, idle_since=None, kept_until=NOW + HOUR, **times)
    pause = an_override("pause", until=NOW + timedelta(hours=2))
    left = gone(facts(a_state(dead), overrides=(pause,)))
    assert [block[:5] for block in left.blocks] == ["pause"]


REMOVALS = Approval(removals=True, wait=10 * MINUTE)
REJECTED = a_question("i-n1", answer=Answer.REJECT, who="bob", answered_at=NOW - MINUTE)


@pytest.mark.parametrize(
    ("found", "policy", "why"),
    [
        (facts(a_state(a_due_node()), requests=(a_buffer(1),)), None, "CapacityBuffer ml/warm keeps it free"),
        (facts(a_state(a_due_node())), a_policy(a_pool(approval=REMOVALS)), "an approval is needed"),
        (facts(a_state(a_due_node()), questions=(REJECTED,)), a_policy(a_pool(approval=REMOVALS)), "bob rejected"),
    ],
    ids=["a buffer", "no approval", "a rejection"],
)
def test_what_keeps_the_node_in_the_decision_blocks_it(found: Facts, policy: Policy | None, why: str) -> None:
    left = gone(found, policy)
    assert left.at is None
    assert why in left.blocks[0]


@pytest.mark.parametrize("kind", ["ceiling", "pin"])
def test_a_node_that_is_removed_in_the_midst_of_its_hour_may_go_now(kind: str) -> None:
    found = facts(a_state(a_node("n1", created_at=NOW - HOUR / 2)), overrides=(an_override(kind, 0),))
    assert (gone(found).blocks, gone(found).at) == ((), NOW)


def test_a_busy_node_whose_window_is_over_may_go_now() -> None:
    window = Window(name="night", max_nodes=0, evict_after=5 * MINUTE)
    pool = a_pool(windows=(window,))
    told = {topic_of(window, pool): NOW - 10 * MINUTE}
    found = facts(a_state(a_worker(a_job("web", owner="ReplicaSet/web"))), told_to_go=told)
    assert (gone(found, a_policy(pool)).blocks, gone(found, a_policy(pool)).at) == ((), NOW)
