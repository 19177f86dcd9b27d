"""Stories of Node objects that somebody deletes: the instance goes on, is paid for, and serves nobody."""

from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.core.model.model import Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.ports import ClusterFacts, Store, TryLater
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, phases, titles
from tests.given import lives
from tests.given.life import FAST, GPU, POOL, START, Life, a_job
from tests.given.pods import bound

pytestmark = pytest.mark.chores(False)

REGISTERED = FAST.create + FAST.build + FAST.boot / 2 + 5 * SECOND
LONG = a_job(duration=2 * HOUR)
READY = FAST.create + FAST.build + FAST.boot + 15 * SECOND


def delete_node(life: Life) -> str:
    """Somebody deletes the only Node object; return its name."""
    [name] = life.world.nodes
    life.world.delete_node(name)
    return str(name)


def the_first(life: Life) -> tuple[Stage, str]:
    """The stage of the first node, and what the stage alone does not say."""
    node = life.step().facts.pool(POOL).nodes[0]
    return node.stage, node.note


@pytest.mark.chores(True)
@pytest.mark.parametrize("after", [REGISTERED, READY], ids=["registered", "Ready"])
def test_a_node_whose_object_is_deleted_before_it_was_usable_is_replaced(store: Store, after: timedelta) -> None:
    """Its pod waited for it until the provision timeout, and then for the end of the pool's back-off."""
    life = lives.waiting(store, LONG)
    life.run(after)
    first = delete_node(life)
    life.run(30 * SECOND)
    assert the_first(life) == (Stage.BROKEN, "has no Node object in Kubernetes any more")
    assert bought(life) == 2
    assert life.writes("retire") == []  # for three minutes it may come back
    life.run(10 * MINUTE)
    assert phases(life) == {"Running"}
    assert first not in {vm.hostname for vm in living(life)}
    assert bought(life) == 2
    assert titles(life, first, "no Node object")


def test_a_pool_at_its_maximum_replaces_it_too(store: Store) -> None:
    life = lives.waiting(store, LONG, pool=a_pool(max_nodes=1))
    life.run(READY)
    delete_node(life)
    life.run(11 * MINUTE)
    assert phases(life) == {"Running"}
    assert len(living(life)) == 1


@pytest.mark.database("what outlives a process is in it")
def test_it_is_known_after_a_restart(store: Store) -> None:
    life = lives.waiting(store, LONG)
    life.run(REGISTERED)
    delete_node(life)
    life.run(MINUTE)
    again = lives.restarted(life, store)
    again.run(10 * MINUTE)
    assert phases(again) == {"Running"}


def test_a_node_that_registers_again_in_time_is_on_its_way_as_before(store: Store) -> None:
    life = lives.waiting(store, LONG)
    life.run(READY)
    missing(life)
    life.run(2 * MINUTE)
    assert the_first(life)[0] is Stage.BOOTING
    del life.cluster.look
    life.run(10 * MINUTE)
    assert phases(life) == {"Running"}
    assert bought(life) == 1


@pytest.mark.chores(True)
def test_a_used_node_whose_object_is_deleted_is_no_room_for_what_waits(store: Store) -> None:
    """The kubelet registers again when it restarts, if it does: the pod got no node for three minutes."""
    life = lives.idle_nodes(store, 2)
    idle = life.world.lives[0].hostname
    life.world.add_pod(bound("works", life.world.lives[1].hostname))
    life.run(10 * SECOND)
    life.world.delete_node(idle)
    life.run(10 * SECOND)
    life.submit(a_job("waits", submit_at=life.now, duration=2 * HOUR))
    life.run(30 * SECOND)
    assert bought(life) == 3
    assert not [w for w in life.writes("record") if "WaitsForNode" in str(w)]
    life.run(30 * MINUTE)
    assert idle not in {vm.hostname for vm in living(life)}
    assert titles(life, "removed a node that no longer worked", idle)
    assert not titles(life, "never became usable")


def test_a_pod_bound_to_it_keeps_an_instance_without_a_node_object(store: Store) -> None:
    life = lives.idle_nodes(store)
    name = life.world.lives[0].hostname
    pod = Pod(uid="u", namespace="ml", name="p", requests={GPU: 1}, node=name, phase=PodPhase.RUNNING, created_at=START)
    life.step()
    look = life.cluster.look
    life.cluster.look = lambda: replace(look(), nodes=(), pods=(pod,))  # type: ignore[method-assign]
    life.cluster.has_node = lambda node: node != name  # type: ignore[method-assign]
    life.run(HOUR, tick=MINUTE)
    assert life.writes("retire") == []


def test_a_node_object_that_the_list_alone_lacks_is_still_there(store: Store) -> None:
    life = lives.idle_nodes(store)
    missing(life)
    life.submit(a_job("waits", submit_at=life.now, duration=HOUR))
    life.run(2 * MINUTE)
    assert bought(life) == 1


def test_a_node_object_that_cannot_be_read_counts_as_there_for_a_while(store: Store) -> None:
    life = lives.waiting(store, LONG)
    life.run(READY)
    delete_node(life)

    def fails(node: str) -> bool:
        raise TryLater(f"no answer on {node}", code="timeout")

    life.cluster.has_node = fails  # type: ignore[method-assign]
    life.run(2 * MINUTE)
    assert the_first(life)[0] is Stage.BOOTING
    assert bought(life) == 1
    life.run(2 * MINUTE)
    assert bought(life) == 2


def missing(life: Life) -> None:
    """From now on Kubernetes' list of nodes is empty."""
    look = life.cluster.look

    def partial() -> ClusterFacts:
        return replace(look(), nodes=())

    life.cluster.look = partial  # type: ignore[method-assign]


def test_a_silence_of_kubernetes_does_not_begin_the_loss_anew(store: Store) -> None:
    life = lives.waiting(store, LONG)
    life.run(READY)
    delete_node(life)
    life.run(5 * SECOND)
    life.cluster.fail_always(TryLater("no answer", code="timeout"))
    life.run(4 * MINUTE)
    assert the_first(life) == (Stage.UNKNOWN, "")
    life.cluster.fail_always(None)
    assert the_first(life) == (Stage.BROKEN, "has no Node object in Kubernetes any more")


def test_a_list_that_is_partial_for_a_moment_breaks_nothing(store: Store) -> None:
    life = lives.waiting(store, LONG)
    for _ in range(20):  # from building to usable, one look of two shows no node at all
        missing(life)
        life.run(10 * SECOND)
        del life.cluster.look
        life.run(10 * SECOND)
    life.run(MINUTE)
    assert phases(life) == {"Running"}
    assert bought(life) == 1


def test_a_node_that_never_registered_is_still_on_its_way(store: Store) -> None:
    life = lives.working(store, a_job(duration=2 * HOUR), timings=replace(FAST, boot=10 * MINUTE))
    assert the_first(life) == (Stage.BOOTING, "")
    life.run(13 * MINUTE)
    assert bought(life) == 1


def test_what_deletes_every_node_object_does_not_make_us_buy_without_end(store: Store) -> None:
    life = lives.waiting(store, LONG)
    end = life.now + 24 * HOUR
    while life.now < end:
        wake = life.wake_after_step(MINUTE)
        for name in list(life.world.nodes):
            life.world.delete_node(name)  # each was seen, and none can become usable within a minute
        life.world.advance(wake)
    assert bought(life) <= 12


def test_one_deleted_node_object_does_not_make_the_pool_back_off(store: Store) -> None:
    life = lives.waiting(store, LONG)
    life.run(READY)
    delete_node(life)
    life.run(5 * MINUTE)
    failed = life.step().facts.pool(POOL).backoffs.provisioning
    assert failed is None or failed.until <= life.now
    life.run(8 * MINUTE)
    assert life.step().facts.pool(POOL).backoffs.provisioning is None  # another node works
