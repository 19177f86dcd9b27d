"""A pod that comes while its node is on its way out, at every single call between the decision and the DELETE.

In these lives the scheduler acts at once (no delay between a pod's creation and its binding), so what comes right
before a call is seen by that call.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.ports import CORDON_ANNOTATION, Store
from tests.core.builders import HOUR, MINUTE, SECOND
from tests.expect import bought, living
from tests.given import lives
from tests.given.life import FAST, POOL, START, Life
from tests.given.pods import bound, waiting
from tests.step.stories.bench import Calls, watch

pytestmark = pytest.mark.chores(False)  # only what is done to nodes and pods is asserted

DELETE = "cloud.retire"
LAST_LOOK = "cluster.gpu_pods_on"
AT_ONCE = replace(FAST, schedule=timedelta(0))


def a_removal(store: Store, at: int | None, comes: Callable[[Life], None]) -> tuple[Life, Calls]:
    """One idle node to the end of its paid hour; before call *at* of its removal *comes* happens.

    Calls are numbered from the step that decides the removal (the first after the node's moment) to the DELETE.
    """
    life = lives.idle_nodes(store, timings=AT_ONCE)
    for minutes in (50, 54):
        life.world.advance(START + minutes * MINUTE)
        life.step()
    assert life.writes() == []
    life.world.advance(START + 55 * MINUTE)
    calls = Calls(at=at, then=lambda: comes(life))
    watch(life, calls)
    life.run(3 * MINUTE, tick=5 * SECOND)
    return life, calls


@pytest.fixture
def calls(new_store: Callable[[], Store]) -> list[str]:
    """Every call of a removal that nothing disturbs, the DELETE last."""
    _, calls = a_removal(new_store(), None, lambda _: None)
    return calls.made[: calls.made.index(DELETE) + 1]


def node_of(life: Life) -> str:
    return life.world.lives[0].hostname


def binds(life: Life) -> None:
    """A pod is bound that the scheduler had placed before our cordon reached it."""
    life.world.add_pod(bound("late", node_of(life)))


def waits(life: Life) -> None:
    """A pod comes that would fit the node."""
    life.world.add_pod(waiting("late"))
    life.world.advance(life.now)  # the scheduler tries it at once


def goes_on(life: Life) -> None:
    life.run(2 * HOUR - (life.now - START), tick=MINUTE)


def runs_on(life: Life) -> str | None:
    pod = life.world.pods["ml", "late"]
    return pod.node if pod.phase == "Running" else None


def test_a_removal_looks_again_after_the_cordon_and_after_the_drain(calls: list[str]) -> None:
    cordon, drain = calls.index("cluster.cordon"), calls.index("cluster.drain")
    assert calls.index(LAST_LOOK, cordon) < drain < calls.index(LAST_LOOK, drain)
    assert calls[-2:] == [LAST_LOOK, DELETE]
    assert calls.count(DELETE) == 1


def test_a_pod_bound_at_any_sub_step_up_to_the_last_look_before_the_delete_saves_its_node(
    calls: list[str], new_store: Callable[[], Store], figure: Callable[[str], None]
) -> None:
    last_look = len(calls) - 2
    for k in range(last_look + 1):
        life, seen = a_removal(new_store(), k, binds)
        goes_on(life)
        where = f"before call {k}, {calls[k]}"
        assert seen.made[: k + 1] == calls[: k + 1], where
        assert life.world.kills == [], where
        assert life.writes("retire") == [], where
        assert runs_on(life) == node_of(life), where
        node = life.world.nodes[node_of(life)]
        assert not node.unschedulable, where
        assert CORDON_ANNOTATION not in node.annotations, where
    figure(f"a pod bound before any of the first {last_look + 1} of {len(calls)} calls of a removal kept its node")


def test_what_remains_is_a_pod_that_is_bound_between_the_last_look_and_the_delete(
    calls: list[str], new_store: Callable[[], Store]
) -> None:
    """The boundary that docs/limits.md names: Civo's DELETE takes no condition, so nobody can close this one."""
    life, _ = a_removal(new_store(), len(calls) - 1, binds)
    assert [k.name for k in life.world.kills] == ["late"]


def test_a_waiting_pod_that_comes_up_to_the_last_look_at_the_cluster_gets_the_node_back(
    calls: list[str], new_store: Callable[[], Store]
) -> None:
    last = len(calls) - 1 - calls[::-1].index("cluster.look")
    for k in range(last + 1):
        life, _ = a_removal(new_store(), k, waits)
        goes_on(life)
        where = f"before call {k}, {calls[k]}"
        assert life.writes("retire", "resize") == [], where
        assert runs_on(life) == node_of(life), where


def test_a_waiting_pod_that_comes_after_it_gets_exactly_one_new_node(
    calls: list[str], new_store: Callable[[], Store]
) -> None:
    """It is not lost and not bought for twice; all that is lost is the chance to keep the old node."""
    last = len(calls) - 1 - calls[::-1].index("cluster.look")
    for k in range(last + 1, len(calls)):
        life, _ = a_removal(new_store(), k, waits)
        goes_on(life)
        where = f"before call {k}, {calls[k]}"
        assert life.world.kills == [], where
        assert bought(life) <= 2, where
        assert [vm.hostname for vm in living(life)] == [runs_on(life)], where
        assert life.required(POOL) == 1, where
