"""Closing node by node: what one node refuses, what must stay open, and what people are told of it."""

from dataclasses import replace
from decimal import Decimal

from receiver.core.model.policy import Budget
from receiver.core.notices.money_notices import CLOSED_TOPIC
from receiver.ports import STOP_ANNOTATION, Receipt, Store, TryLater, WontWork
from receiver.replay.world.objects import PodSpec
from tests.core.builders import MINUTE
from tests.expect import closed, nodes
from tests.given import lives
from tests.given.life import SIZE, Life, Wrapped

WHY = "cluster budget 2026-11"
REFUSED = "GPU pool l40s: could not cordon nodes"
AGAIN = "GPU pool l40s: nodes are cordoned again"


def refusing(life: Life, *bad: str, error: Exception | None = None) -> Life:
    """The same life, in which nodes *bad* can be neither closed nor opened."""

    def cordon_for_budget(node: str, why: str) -> Receipt:
        if node in bad:
            raise error or WontWork(f"admission webhook denied {node}", code="http_422")
        return life.cluster.cordon_for_budget(node, why)

    def uncordon_for_budget(node: str) -> Receipt:
        if node in bad:
            raise error or WontWork(f"admission webhook denied {node}", code="http_422")
        return life.cluster.uncordon_for_budget(node)

    life.wrap_cluster = lambda inner: Wrapped(
        inner, cordon_for_budget=cordon_for_budget, uncordon_for_budget=uncordon_for_budget
    )
    return life


def test_one_node_that_refuses_to_be_closed_leaves_no_other_open(store: Store) -> None:
    life = lives.at_the_stop(store)
    refusing(life, nodes(life)[0].name).step()
    assert closed(life) == [False, True]


def test_one_node_that_refuses_to_be_opened_keeps_no_other_closed(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.step()
    lives.with_budget(refusing(life, nodes(life)[0].name), "1000").step()
    assert closed(life) == [True, False]
    assert "GPU pool l40s: nodes are uncordoned" in life.notices()
    assert "GPU pool l40s: could not uncordon nodes" in life.notices()


def test_nodes_that_refuse_are_told_once_in_one_message(store: Store) -> None:
    life = lives.at_the_stop(store)
    refusing(life, *(n.name for n in nodes(life))).run(MINUTE)
    bodies = [n.notice.body for n in store.notices_due(life.now, limit=1000) if n.notice.title == REFUSED]
    assert len(bodies) == 1
    assert all(n.name in bodies[0] for n in nodes(life))


def test_nodes_that_never_answer_do_not_keep_those_behind_them_open(store: Store) -> None:
    life = lives.at_zero(store)
    life.world.resize("l40s-id", 4)
    life.run(4 * MINUTE, tick=MINUTE)
    lives.with_budget(life, "1.00")
    refusing(life, *(n.name for n in nodes(life)[:3]), error=TryLater("timeout")).run(MINUTE)
    assert sum(closed(life)) == 1


def test_a_node_that_hosts_us_stays_open_at_the_stop(store: Store) -> None:
    life = lives.at_the_stop(store)
    busy = next(n for n in nodes(life) if life.world.pods_on(n.name))
    host_us(life, busy.name)
    life.run(MINUTE)
    assert {n.name: STOP_ANNOTATION in n.annotations for n in nodes(life)} == {
        n.name: n.name != busy.name for n in nodes(life)
    }


def test_a_node_that_comes_to_host_us_is_opened_again(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.run(MINUTE)
    host = nodes(life)[0].name
    host_us(life, host)
    life.step()
    assert not life.world.nodes[host].unschedulable
    assert "GPU pool l40s: nodes are uncordoned" not in life.notices()


def host_us(life: Life, node: str) -> None:
    """Put Prometheus on *node*, bound there as by its volume."""
    labels = {"app.kubernetes.io/name": "prometheus"}
    life.world.add_pod(PodSpec(namespace="monitoring", name="prometheus-0", labels=labels, node=node))


def test_a_stop_that_is_reached_again_after_it_was_over_is_told(store: Store) -> None:
    life = lives.at_the_stop(store)
    assert life.policy.budget is not None
    stop, over = life.policy.budget, replace(life.policy.budget, stop_at=Decimal(10))
    for budget in (stop, over, stop):  # as when a corrected ledger falls below the line for a while
        life.policy = replace(life.policy, budget=budget)
        life.run(2 * MINUTE, tick=MINUTE)
    assert closed(life) == [True, True]
    assert list(life.notices()).count(AGAIN) == 1
    assert store.told(CLOSED_TOPIC)[f"{CLOSED_TOPIC}l40s-id"][0] == f"again:{WHY}"


def test_a_stop_that_is_reached_once_is_told_by_its_line_alone(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.run(2 * MINUTE)
    assert AGAIN not in life.notices()


def without_a_price(life: Life) -> Life:
    """The same life, with money enough and a size that lost its price."""
    pool = replace(life.policy.pools[0], price_usd_per_hour=None)
    life.policy = replace(life.policy, pools=(pool,), budget=Budget(monthly_usd=Decimal(1000)))
    return life


def test_nodes_that_stay_closed_for_want_of_a_price_are_told_and_no_all_clear_is(store: Store) -> None:
    life = lives.at_the_stop(store)
    life.run(MINUTE)
    without_a_price(life).run(5 * MINUTE)
    assert closed(life) == [True, True]
    assert not any("below its lines again" in title for title in life.notices())
    [body] = [n.notice.body for n in store.notices_due(life.now, limit=1000) if "stay cordoned" in n.notice.title]
    assert SIZE in body
