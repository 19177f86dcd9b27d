"""Stories of nodes whose GPUs a DRA driver serves: ResourceSlices show them, the node's status never does."""

from dataclasses import replace

from receiver.core.model.model import Stage
from receiver.core.scaling.demand import misfit
from receiver.ports import ClusterFacts, Store
from receiver.replay.world.objects import CLAIMS
from tests.core.builders import HOUR, MINUTE, a_pod
from tests.expect import bought, living, titles
from tests.given import lives
from tests.given.life import POOL, a_job
from tests.given.pods import bound

SERVED = {"dra": True}
NOTE = "has GPUs that a DRA driver serves"


def test_a_pod_that_asks_by_resource_gets_a_node_that_is_never_told_as_stuck(store: Store) -> None:
    """It was "installing" for ever, then removed as stuck, and the pool backed off."""
    life = lives.waiting(store, a_job(duration=2 * HOUR), kind=SERVED)
    life.run(10 * MINUTE)
    state = life.step().facts.pool(POOL)
    assert [(n.stage, n.note, n.busy) for n in state.nodes] == [(Stage.USABLE, NOTE, True)]
    life.run(HOUR)
    assert bought(life) == 1
    assert state.backoffs.provisioning is None
    assert titles(life, "not usable") == []


def test_such_a_node_is_no_more_than_idle_when_its_work_is_over(store: Store) -> None:
    life = lives.waiting(store, a_job(duration=10 * MINUTE), kind=SERVED)
    life.run(40 * MINUTE)
    assert len(living(life)) == 1  # well beyond the provision timeout
    life.run(40 * MINUTE)
    assert living(life) == []
    assert life.step().facts.pool(POOL).backoffs.provisioning is None


def test_a_node_is_kept_for_a_pod_that_holds_its_devices_by_claim(store: Store) -> None:
    life = lives.idle_nodes(store, kind=SERVED)
    [node] = life.world.nodes
    life.world.add_pod(bound("claims", node, requests={CLAIMS: 1}))
    life.run(5 * HOUR, tick=MINUTE)
    assert len(living(life)) == 1


def test_where_no_device_class_answers_to_the_resource_pods_that_ask_for_it_do_not_fit(store: Store) -> None:
    """The GPU operator's own DRA mode: its DeviceClass has no extendedResourceName."""
    life = lives.idle_nodes(store, kind=SERVED)
    look = life.cluster.look

    def without_classes() -> ClusterFacts:
        return replace(look(), dra_resources={})

    life.cluster.look = without_classes  # type: ignore[method-assign]
    state = life.step().facts.pool(POOL)
    assert [(n.stage, dict(n.allocatable)) for n in state.nodes] == [(Stage.USABLE, {})]
    why = misfit(a_pod(), life.policy.pools[0], state.offer)
    assert why is not None
    assert why.endswith("it asks for 1 nvidia.com/gpu, a node offers 0")
