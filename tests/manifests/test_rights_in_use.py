"""The roles of the chart by use: what they allow is enough, and every verb is missed when it is taken away."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from traceback import extract_tb
from typing import Any

import pytest

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import TO_REMOVE, ClusterOptions, connect
from receiver.adapters.kubernetes.cluster import Right as Access
from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.adapters.store import SqlStore
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Policy, Pool, Taint
from receiver.ports import TryLater, WontWork
from simulator import kubernetes_rights
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.core.builders import HOURLY
from tests.given.life import PRICE, SIZE, Life, a_job
from tests.lint import none_of
from tests.manifests.built import installed
from tests.manifests.roles import EVERY_RULE, FENCE, ROLES, Rules, rights
from tests.manifests.uses import EVERYBODYS, USES, Right, Stage, Use
from tests.simulator.builders import GPU_POOL, START, config
from tests.stores import a_store

Staged = Callable[[Rules], Any]

BETWEEN = timedelta(minutes=3)  # between steps: what they ask of the cluster is the same as every ten seconds


def without(rules: Rules, taken: Right) -> Rules:
    """Return *rules* less that one right."""
    left = []
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs = [v for v in rule["verbs"] if (group, resource, v) != taken]
                left.append({**rule, "apiGroups": [group], "resources": [resource], "verbs": verbs})
    return left


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    """Stages whose caller may do what some rules allow."""

    @contextmanager
    def begin(rules: Rules) -> Iterator[Stage]:
        given = config(kubernetes={"rules": rules, "policies": FENCE, "daemonsets": False})
        with Simulator(given, clock=ManualClock(START)) as sim:
            sim.live.turn(timedelta(minutes=3))
            path = sim.kubeconfig(tmp_path / "kubeconfig")
            stage = Stage(
                sim,
                lambda **options: connect(str(path), calls=Calls(timeouts=(10, 30)), options=ClusterOptions(**options)),
            )
            try:
                yield stage
            finally:
                for cluster in stage.opened:
                    cluster.close()

    return begin


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the API server refused, reads too."""
    found: list[str] = []
    asked = kubernetes_rights._why_not

    def noted(live: Any, verb: str, group: str, resource: str, name: str) -> str:
        why = asked(live, verb, group, resource, name)
        if why:
            found.append(f"{verb} {resource} {group} {name}")
        return why

    monkeypatch.setattr(kubernetes_rights, "_why_not", noted)
    return found


def a_life(stage: Stage, store: SqlStore, mode: str) -> Life:
    """The product's step on that cluster through the real adapter; Civo is the world itself."""
    pool = Pool(
        id=GPU_POOL,
        name="l40s",
        size=SIZE,
        resources={"nvidia.com/gpu": 1},
        labels={"gpu": "on-demand", "team": "vision"},  # the second is not on the nodes: it is put there
        taints=(Taint(key="gpu", value="true", effect="NoSchedule"),),
        apply_to_nodes=True,
        max_nodes=2,
        price_usd_per_hour=PRICE,
    )
    life = Life(stage.sim.world, Policy(pools=(pool,), billing=HOURLY), store, mode, lock=stage.sim.live.lock)
    life.cluster = stage.cluster()  # type: ignore[assignment]  # the world's own is what it stands for
    if mode == "observe":
        life.wrap_cloud, life.wrap_cluster = ObservedCloud, ObservedCluster
    return life


def counts(world: Any) -> tuple[int, int]:
    """Return how many nodes the pool has and how many it was asked for."""
    return sum(n.pool == GPU_POOL for n in world.nodes.values()), world.pools[GPU_POOL].required


def test_both_roles_are_enough_to_grow_a_pool_and_to_take_it_away_again(staged: Staged, refused: list[str]) -> None:
    with staged(EVERY_RULE) as stage, a_store() as store:
        life = a_life(stage, store, "act")
        life.submit(a_job(pods=2, tolerations=(Toleration(operator="Exists"),)))
        life.run(timedelta(minutes=15), BETWEEN)
        assert counts(life.world) == (2, 2)
        life.run(timedelta(minutes=75), BETWEEN)
        assert counts(life.world) == (0, 0)
        assert {e.reason for e in life.world.events} >= {"TriggeredScaleUp"}
    assert refused == []


def test_the_role_that_looks_is_enough_to_observe_all_the_while(staged: Staged, refused: list[str]) -> None:
    with staged(ROLES["look"]) as stage, a_store() as store:
        life = a_life(stage, store, "observe")
        life.submit(a_job(pods=2, tolerations=(Toleration(operator="Exists"),)))
        life.run(timedelta(minutes=90), BETWEEN)
        assert counts(life.world) == (1, 1)
        assert [title for title in life.notices() if "would go 1 -> 2 nodes" in title]
    assert refused == []


@pytest.mark.parametrize("missing", [*TO_REMOVE, None], ids=str)
def test_acting_without_a_right_that_a_removal_needs_buys_nothing_and_says_which_it_is(
    missing: Access | None, staged: Staged
) -> None:
    rules = ROLES["look"] if missing is None else without(EVERY_RULE, (missing.group, missing.resource, missing.verb))
    with staged(rules) as stage, a_store() as store:
        life = a_life(stage, store, "act")
        life.submit(a_job(pods=2, tolerations=(Toleration(operator="Exists"),)))
        life.run(timedelta(minutes=10), BETWEEN)
        assert counts(life.world) == (1, 1)
        said = [n.notice.title + n.notice.body for n in store.notices_due(life.now + timedelta(days=1), limit=1000)]
        assert any("do not grow" in text and str(missing or "patch nodes") in text for text in said)


def test_patching_pods_is_granted_only_where_it_is_asked_for() -> None:
    [given] = [o["rules"] for o in installed("act") if o["metadata"]["name"] == "gpu-autoscaler-act" and "rules" in o]
    assert {*rights(ROLES["act"])} - {*rights(given)} == {("", "pods", "patch")}


def test_no_right_is_given_that_nothing_here_uses_and_none_twice() -> None:
    assert sorted([*rights(EVERY_RULE), *EVERYBODYS]) == sorted(USES)


def failure(use: Use, rules: Rules, staged: Staged) -> str:
    """Return why *use* fails for a caller who may do what *rules* allow; nothing when it works."""
    with staged(rules) as stage:
        try:
            use(stage)
        except (AssertionError, TryLater, WontWork) as error:
            return f"{type(error).__name__} {error} in {extract_tb(error.__traceback__)[-1].line}"
    return ""


def shown(right: Right) -> str:
    """Return a right as an error of the API server tells it."""
    group, resource, verb = right
    return f"{verb} {resource}.{group}".strip(".")


def test_with_the_roles_as_they_are_every_use_works(staged: Staged) -> None:
    uses = {use: right for right, use in sorted(USES.items())}
    tried = {shown(right): failure(use, EVERY_RULE, staged) for use, right in uses.items()}
    none_of(f"{right}: {why}" for right, why in tried.items() if why)


def test_each_right_is_missed_when_it_alone_is_taken_away(staged: Staged) -> None:
    given = sorted(USES.keys() - EVERYBODYS)
    none_of(shown(right) for right in given if not failure(USES[right], without(EVERY_RULE, right), staged))
