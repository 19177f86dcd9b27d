"""Stories of nodes that people and controllers taint: work that does not tolerate the taint gets another node."""

from collections.abc import Callable

from receiver.core.model.policy import Taint
from receiver.ports import Store
from tests.core.builders import HOUR, MINUTE
from tests.expect import bought, living, phases, titles
from tests.given import lives
from tests.given.life import Life, a_job

MAINTENANCE = Taint(key="maintenance", value="true", effect="NoSchedule")


def taints_each_new_node(life: Life) -> Callable[[], None]:
    """A controller that taints a node as soon as it is usable, before the scheduler puts a pod there."""

    def each() -> None:
        for name, node in list(life.world.nodes.items()):
            if MAINTENANCE not in node.taints:
                life.world.patch_node(name, taints=(*node.taints, MAINTENANCE))

    return each


def test_a_pod_that_waits_beside_a_tainted_node_gets_another_one(store: Store) -> None:
    life = lives.waiting(store, a_job("old", duration=HOUR), a_job("ends"))
    life.run(20 * MINUTE)
    [idle] = [n.name for n in life.step().facts.pools[0].nodes if not n.pods]
    life.world.patch_node(idle, taints=(MAINTENANCE,))
    life.submit(a_job("new", submit_at=life.now))
    life.run(10 * MINUTE)
    assert bought(life) == 3
    assert phases(life) == {"Running"}
    assert len(titles(life, f"idle and tainted: {idle}")) == 1
    life.run(35 * MINUTE)
    assert idle not in life.world.nodes, "it goes before its second paid hour"


def test_a_controller_that_taints_every_new_node_has_no_nodes_bought_without_end(store: Store) -> None:
    life = lives.waiting(store)
    life.run(40 * MINUTE, each=taints_each_new_node(life))
    assert bought(life) <= 2
    assert len(living(life)) <= 2
