"""Every pod that is held is told why by a Kubernetes Event, and none is told the same twice within seconds."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.model.policy import Budget
from receiver.ports import ClusterFacts, Store, TryLater
from tests.core.builders import MINUTE, a_pool
from tests.given import lives
from tests.given.life import Life, a_job, a_policy


def told(life: Life, reason: str = "NotTriggerScaleUp") -> dict[str, list[str]]:
    """The messages of each pod, by its name."""
    found: dict[str, list[str]] = {}
    for event in life.world.events:
        if event.reason == reason:
            found.setdefault(event.name, []).append(event.message)
    return found


def test_each_pod_of_a_refused_gang_is_told_what_is_short(store: Store) -> None:
    life = lives.waiting(store, a_job("gang", pods=8, gang=True), pool=a_pool(max_nodes=6))
    life.run(2 * MINUTE)
    found = told(life)
    assert set(found) == {f"gang-{n}" for n in range(8)}
    assert {len(messages) for messages in found.values()} == {1}
    assert found["gang-0"][0] == "gang ml/gang needs 8 nodes, its maximum allows 6"


def test_each_pod_of_an_incomplete_gang_is_told_how_many_are_missing(store: Store) -> None:
    life = lives.waiting(store, a_job("gang", pods=8, gang=True))
    whole = life.cluster.look

    def half() -> ClusterFacts:
        found = whole()
        return replace(found, pods=tuple(pod for pod in found.pods if pod.name < "gang-3"))

    life.cluster.look = half  # type: ignore[method-assign]
    life.run(2 * MINUTE)
    found = told(life)
    assert len(found) == 3
    assert all("gang ml/gang lacks 5 pods of 8" in messages[0] for messages in found.values())


def test_a_pod_that_comes_while_its_pool_is_held_is_told_too(store: Store) -> None:
    life = lives.at_zero(store, a_pool(max_nodes=0))
    for n in range(3):
        life.submit(a_job(f"late{n}"))
        life.run(MINUTE)
    assert {name: len(messages) for name, messages in told(life).items()} == {f"late{n}-0": 1 for n in range(3)}


def test_more_pods_than_one_step_tells_are_told_in_the_next_ones(store: Store) -> None:
    life = lives.waiting(store, a_job("many", pods=120), pool=a_pool(max_nodes=0))
    life.step()
    assert len(told(life)) == 50
    life.run(MINUTE)
    assert len(told(life)) == 120
    assert {len(messages) for messages in told(life).values()} == {1}


def test_no_pod_gets_one_message_twice_within_seconds_while_decisions_change(store: Store) -> None:
    """Two rules take turns every few seconds, and the pool's decision is a new one each time."""
    life = lives.at_zero(store, a_pool(max_nodes=0))
    poor = replace(life.policy, budget=Budget(monthly_usd=Decimal(1)))
    life.submit(a_job())
    full = life.policy
    for policy in (full, poor) * 6:
        life.policy = policy
        life.step()
        life.pass_time(timedelta(seconds=3))
    messages = told(life)["train-0"]
    assert Counter(messages).most_common(1)[0][1] == 1
    assert len(messages) == 2


@pytest.mark.database("what outlives a process is in it")
def test_after_a_restart_nobody_is_told_again(store: Store) -> None:
    life = lives.waiting(store, pool=a_pool(max_nodes=0))
    life.step()
    again = lives.restarted(life, store)
    again.run(MINUTE)
    assert len(told(again)["train-0"]) == 1


def test_a_pod_is_told_again_when_another_rule_holds_it(store: Store) -> None:
    life = lives.waiting(store, pool=a_pool(max_nodes=0))
    life.run(MINUTE)
    life.policy = replace(a_policy(), budget=Budget(monthly_usd=Decimal(1)))
    life.run(MINUTE)
    first, second = told(life)["train-0"]
    assert "does not grow: at its maximum of 0 nodes" in first
    assert "does not grow for it: the cluster budget" in second
    assert not any("within_" in message for message in (first, second))  # names are for the decision's page


def test_pods_of_one_owner_that_no_pool_fits_are_told_each_for_itself(store: Store) -> None:
    life = lives.waiting(store, a_job("giant", gpus_per_pod=16, pods=2))
    life.run(MINUTE)
    assert {name: messages[0].split(".")[0] for name, messages in told(life).items()} == {
        f"giant-{n}": f"No GPU pool can hold pod ml/giant-{n}" for n in range(2)
    }


def test_events_that_the_api_server_does_not_take_are_tried_again_after_minutes_and_not_in_each_step(
    store: Store,
) -> None:
    life = lives.waiting(store, pool=a_pool(max_nodes=0))
    calls = []
    inner = life.cluster.record_event

    def record_event(*given: object, **named: object) -> object:
        calls.append(life.now)
        if len(calls) < 2:
            raise TryLater("it did not answer in time", code="timeout")
        return inner(*given, **named)  # type: ignore[arg-type]

    life.cluster.record_event = record_event  # type: ignore[method-assign, assignment]
    life.run(10 * MINUTE)
    assert len(calls) == 2
    assert calls[1] - calls[0] >= 5 * MINUTE
    assert len(told(life)["train-0"]) == 1


def rolls_out(life: Life) -> None:
    """Show the pods of the jobs old and new as two versions of Deployment ml/serve."""
    whole = life.cluster.look

    def versions() -> ClusterFacts:
        found = whole()
        pods = [(pod, pod.name.partition("-")[0]) for pod in found.pods]
        shown = (replace(p, owner=f"ReplicaSet/serve-{v}", labels={"pod-template-hash": v}) for p, v in pods)
        return replace(found, pods=tuple(shown))

    life.cluster.look = versions  # type: ignore[method-assign]


def test_a_rolling_update_that_waits_for_itself_is_told_with_its_remedy_within_two_minutes(store: Store) -> None:
    life = lives.at_zero(store, a_pool(max_nodes=1))
    rolls_out(life)
    life.submit(a_job("old", duration=timedelta(hours=9)))
    life.run(20 * MINUTE)
    life.submit(a_job("new"))
    life.run(2 * MINUTE)
    first, second = told(life)["new-0"]
    assert first == "GPU pool l40s does not grow: at its maximum of 1 node"
    assert second.startswith("rolling update of Deployment ml/serve: its new pod needs 1 GPU that its old pod keeps")
    assert "kubectl -n ml patch deployment serve --type merge" in second
    again = lives.restarted(life, store)
    rolls_out(again)
    again.run(2 * MINUTE)
    assert len(told(again)["new-0"]) == 2  # also after a restart


def test_a_surge_below_the_maximum_is_told_with_its_price(store: Store) -> None:
    life = lives.at_zero(store, a_pool(max_nodes=2))
    rolls_out(life)
    life.submit(a_job("old", duration=timedelta(hours=9)))
    life.run(20 * MINUTE)
    life.submit(a_job("new"))
    life.run(MINUTE)
    [message] = told(life, "TriggeredScaleUp")["new-0"]
    assert message.startswith(
        "GPU pool l40s grows from 1 to 2 nodes for the surge of the rolling update of Deployment ml/serve,"
        " about $1.29 an hour for each node until its old pods have gone."
    )
