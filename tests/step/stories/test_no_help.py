"""Stories of waiting pods that no further node helps: the GPU operator's own, and those that fit none."""

from receiver.core.model.pods import CPU
from receiver.ports import Store
from receiver.replay.world.objects import PodSpec
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, titles
from tests.given import lives
from tests.given.life import a_job
from tests.given.pods import waiting


def test_a_validation_pod_of_the_gpu_operator_is_no_demand(store: Store) -> None:
    """gpu-operator #76: its validation pods waited for a GPU and took an empty pool from zero, for ever."""
    life = lives.at_zero(store)
    life.world.add_pod(waiting("nvidia-cuda-validator-x7k", namespace="gpu-operator"))
    life.pass_time(SECOND)
    life.run(30 * MINUTE, tick=30 * SECOND)
    assert life.writes("resize") == []


def test_a_validation_pod_that_holds_the_new_gpu_for_a_moment_buys_no_second_node(store: Store) -> None:
    """gpu-operator #140: the validation pod itself needs a GPU; it took the new node's, and the pod that the node
    was for waited on and got a second one."""
    life = lives.waiting(store)
    validated: set[str] = set()

    def validate() -> None:
        for node in set(life.world.nodes) - validated:  # the operator's pod waits for the driver as everybody does
            validated.add(node)
            name = f"nvidia-cuda-validator-{len(validated)}"
            pod = waiting(name, namespace="gpu-operator", duration=2 * MINUTE, priority=1_000_000)
            life.world.add_pod(pod)

    life.run(15 * MINUTE, each=validate)
    assert validated
    assert bought(life) == 1


def test_a_pod_that_the_nodes_turn_out_not_to_hold_is_bought_for_once(store: Store) -> None:
    """Cluster Autoscaler #5278, dstack #3128: the pod could never run on what was bought, so the pool was grown,
    emptied and grown again, without an end."""
    pool = a_pool(labels={"tier": "gold"})  # so the configuration says; the nodes come without it
    life = lives.waiting(store, a_job(node_selector={"tier": "gold"}), pool=pool)
    life.run(6 * HOUR, tick=MINUTE)
    assert bought(life) == 1
    assert titles(life, "tier")


def test_a_pod_of_more_cpus_than_a_node_has_is_told_and_never_bought_for(store: Store) -> None:
    life = lives.waiting(store, a_job(compute={CPU: 300_000}))
    life.run(HOUR, tick=MINUTE)
    assert bought(life) == 0
    assert len(titles(life, "No GPU pool can hold ml/train-0")) == 1


def test_what_daemon_sets_take_of_a_node_is_learnt_from_the_first_one(store: Store) -> None:
    """An empty pool shows no DaemonSet: the pod fits what the size should leave, and then not the node."""
    life = lives.waiting(store, a_job(compute={CPU: 11_000}))

    def run_daemons() -> None:
        for node in life.world.nodes:
            name = f"agent-on-{node[-5:]}"
            if ("monitoring", name) not in life.world.pods:
                agent = PodSpec(
                    namespace="monitoring", name=name, owner_kind="DaemonSet", node=node, compute={CPU: 1000}
                )
                life.world.add_pod(agent)

    life.run(6 * HOUR, tick=30 * SECOND, each=run_daemons)
    assert bought(life) == 1
    assert len(titles(life, "No GPU pool can hold ml/train-0")) == 1


def test_cpu_pods_on_a_gpu_node_are_bought_around_once(store: Store) -> None:
    life = lives.waiting(store, a_job("first", compute={CPU: 1000}))
    life.run(10 * MINUTE)
    [node] = life.world.nodes
    life.world.add_pod(PodSpec(namespace="web", name="web", node=node, owner_kind="ReplicaSet", compute={CPU: 9000}))
    life.run(5 * MINUTE)  # the first job is done, and its GPU is free
    life.submit(a_job("second", compute={CPU: 8000}))
    life.run(10 * MINUTE)
    assert bought(life) == 2
    assert life.world.pods["ml", "second-0"].node not in (None, node)
