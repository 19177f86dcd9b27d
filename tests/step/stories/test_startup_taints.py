"""Stories of nodes that carry a startup taint: their GPUs are there, and no pod may begin on them yet."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from receiver.core.model.model import Stage
from receiver.core.model.policy import STARTUP_TAINTS, Taint
from receiver.ports import Store
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, phases, published, titles
from tests.given import lives
from tests.given.life import FAST, POOL, START, Life, a_job
from tests.given.pods import bound, waiting

pytestmark = pytest.mark.chores(False)

READINESS = Taint(key="readiness.k8s.io/nvidia-gpu-not-ready", value="pending", effect="NoSchedule")
USABLE_AFTER = FAST.create + FAST.build + FAST.boot + FAST.driver
NEVER = timedelta(days=7)


def tainted(life: Life, *, goes_after: timedelta, taint: Taint = READINESS) -> Callable[[], None]:
    """What to do at every step so that each new node carries *taint* until it is *goes_after* old."""
    bare: set[str] = set()

    def each() -> None:
        for name, node in list(life.world.nodes.items()):
            old = life.now - node.created_at
            worn = tuple(t for t in node.taints if t.key != taint.key)
            if old < goes_after and taint not in node.taints:
                life.world.patch_node(name, taints=(*worn, taint))
            elif old >= goes_after and name not in bare and taint in node.taints:
                bare.add(name)
                life.world.patch_node(name, taints=worn)

    return each


def stage_of(life: Life) -> tuple[Stage, str]:
    """The stage of the pool's only node, and what the stage alone does not say."""
    [node] = life.step().facts.pool(POOL).nodes
    return node.stage, node.note


@pytest.mark.chores(True)
@pytest.mark.parametrize("prefix", STARTUP_TAINTS)
def test_growth_goes_on_while_the_newest_node_carries_a_startup_taint(store: Store, prefix: str) -> None:
    """NVIDIA's example for autoscaled GPU nodes: the taint outlives the driver's installation by minutes. Every pod was
    called a misfit of the pool, and a pod that came meanwhile got no node."""
    life = lives.at_zero(store)
    taint = Taint(key=f"{prefix}x" if prefix.endswith("/") else prefix, effect="NoSchedule")
    each = tainted(life, goes_after=8 * MINUTE, taint=taint)
    life.submit(a_job("one", duration=HOUR))
    life.run(USABLE_AFTER + MINUTE, each=each)
    life.submit(a_job("two", duration=HOUR, submit_at=life.now))
    life.run(2 * MINUTE, each=each)
    assert bought(life) == 2
    life.run(15 * MINUTE, each=each)
    assert phases(life) == {"Running"}
    assert bought(life) == 2
    assert titles(life, "no GPU pool can hold") == []


@pytest.mark.chores(True)
def test_a_node_with_a_startup_taint_is_on_its_way_and_says_what_it_waits_for(store: Store) -> None:
    life = lives.waiting(store)
    life.run(USABLE_AFTER + MINUTE, each=tainted(life, goes_after=NEVER))
    assert stage_of(life) == (Stage.INSTALLING, f"waits for taint {READINESS.key}")
    picture = published(store)
    [pool] = picture["pools"]
    assert pool["nodes"][0]["note"] == f"waits for taint {READINESS.key}"
    assert (pool["ready"], pool["building"]) == (0, 1)
    [pod] = picture["waiting"]
    assert f"waits for taint {READINESS.key}" in pod["detail"]


@pytest.mark.chores(True)
def test_a_startup_taint_that_never_goes_makes_the_node_stuck_within_the_provision_timeout(store: Store) -> None:
    life = lives.waiting(store)
    each = tainted(life, goes_after=NEVER)
    said: set[str] = set()

    def listening() -> None:
        each()
        said.update(titles(life, f"waits for taint {READINESS.key}"))  # while it is true: it is dropped once it is over

    life.run(22 * MINUTE, each=listening)
    [vm] = life.world.lives
    assert not vm.living
    assert [title for title in said if vm.hostname in title]
    assert life.step().facts.pool(POOL).backoffs.provisioning is not None


def test_a_node_with_a_startup_taint_that_goes_says_nothing_of_the_next_one(store: Store) -> None:
    """It was believed for a day that another node would be like it."""
    life = lives.waiting(store, a_job("one", duration=MINUTE))
    life.run(21 * MINUTE, each=tainted(life, goes_after=NEVER))
    life.run(3 * HOUR, tick=MINUTE)  # the fault is mended, and the pool has backed off long enough
    life.submit(a_job("two", duration=HOUR, submit_at=life.now))
    life.run(10 * MINUTE)
    assert phases(life) == {"Running"}


def retaint(life: Life, *taints: Taint) -> str:
    """Let the pool's only node carry *taints*; return its name."""
    [vm] = living(life)
    life.world.patch_node(vm.hostname, taints=taints)
    return str(vm.hostname)


def test_a_startup_taint_that_comes_back_for_a_moment_changes_nothing(store: Store) -> None:
    """Cilium puts its taint back while its agent restarts."""
    life = lives.idle_nodes(store)
    life.run(5 * MINUTE)
    retaint(life, READINESS)
    life.world.add_pod(waiting("train"))
    life.pass_time(SECOND)
    life.run(2 * MINUTE)
    assert stage_of(life) == (Stage.USABLE, f"waits for taint {READINESS.key}")
    retaint(life)
    life.run(MINUTE)
    assert stage_of(life) == (Stage.USABLE, "")
    assert bought(life) == 1


def test_a_startup_taint_that_stays_on_a_used_node_makes_it_no_room_and_in_time_broken(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.run(5 * MINUTE)
    name = retaint(life, READINESS)
    life.world.add_pod(waiting("train"))
    life.pass_time(SECOND)
    life.run(5 * MINUTE)
    assert bought(life) == 2
    [node] = [n for n in life.step().facts.pool(POOL).nodes if n.name == name]
    assert (node.stage, node.note) == (Stage.INSTALLING, f"waits for taint {READINESS.key}")
    life.run(10 * MINUTE)
    assert name in {vm.hostname for vm in living(life)}
    life.run(10 * MINUTE)
    assert name not in {vm.hostname for vm in living(life)}
    assert life.step().facts.pool(POOL).backoffs.provisioning is None  # it had worked


def test_what_runs_on_a_node_that_gets_a_startup_taint_goes_on(store: Store) -> None:
    life = lives.waiting(store, a_job(duration=2 * HOUR))
    life.run(10 * MINUTE)
    name = retaint(life, READINESS)
    life.run(HOUR)
    assert name in {vm.hostname for vm in living(life)}
    assert phases(life) == {"Running"}
    assert bought(life) == 1
    retaint(life)
    life.run(2 * MINUTE)
    assert stage_of(life) == (Stage.USABLE, "")


def test_one_odd_node_does_not_speak_for_a_pool_while_another_shows_otherwise(store: Store) -> None:
    """The newest node came without the pool's label (Civo's agent was late, somebody took it off)."""
    life = lives.idle_nodes(store, 2, a_pool(labels={"tier": "gold"}), kind={"labels": {"tier": "gold"}})
    newest = max(life.world.nodes.values(), key=lambda n: (n.created_at, n.name))
    life.world.patch_node(newest.name, labels={"tier": None})
    for node in life.world.nodes:
        life.world.add_pod(bound(f"on-{node}", node))
    life.submit(a_job(duration=2 * HOUR, node_selector={"tier": "gold"}, submit_at=START))
    life.run(10 * MINUTE)
    assert bought(life) == 3
    assert phases(life) == {"Running"}
