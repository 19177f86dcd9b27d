"""Cooldowns and back-offs outlive the process: another one on the same store holds them, and shows when they end."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.policy import Billing
from receiver.core.scaling.waits import Shortage, shortage_of
from receiver.ports import Did, Receipt, Store, TryLater, WontWork
from tests.core.builders import HOUR, MINUTE, SECOND
from tests.expect import published
from tests.given import lives
from tests.given.life import POOL, Life, Wrapped, a_job
from tests.stores import WorldStore, rebuilt

EVERY_SECOND = Billing(granularity=SECOND, removal_margin=timedelta(0))


def waits_of(life: Life) -> list[dict[str, Any]]:
    """What the picture of the last step says of the pool."""
    kept = life.store.snapshot()
    return list(kept[0]["pools"][0]["waits"]) if kept else []


def grown(life: Life) -> None:
    """It grew a moment ago, and more is waited for."""
    life.policy = replace(life.policy, pools=(replace(life.policy.pools[0], grow_cooldown=10 * MINUTE),))
    life.submit(a_job("one"))
    life.run(20 * SECOND)
    life.submit(a_job("two"))


def shrunk(life: Life) -> None:
    """One node went a moment ago, and the others could too."""
    short = replace(life.policy.pools[0], idle_for=MINUTE, shrink_cooldown=30 * MINUTE)
    life.policy = replace(life.policy, pools=(short,), billing=EVERY_SECOND)
    life.world.resize(POOL, 1)
    life.run(8 * MINUTE)
    life.world.resize(POOL, 1)


def out_of_stock(life: Life) -> None:
    """Civo has no node to give."""
    life.cloud.fail_next(WontWork("no L40S left in LON1", code="out_of_capacity"), "resize")
    life.submit(a_job("one"))


def refused(life: Life) -> None:
    """Something on the idle node may not be evicted."""

    def drain(node: str, **_: object) -> Receipt:
        return Receipt(did=Did.DIFFERS, sentence=f"node {node} stays: ml/notebook is protected")

    life.policy = replace(life.policy, billing=EVERY_SECOND)
    life.wrap_cluster = lambda inner: Wrapped(inner, drain=drain)
    life.world.resize(POOL, 1)


def never_usable(life: Life) -> None:
    """The first node never gets its GPU, and is removed."""
    life.world.faults.gpu_never(POOL, 1)
    life.submit(a_job("one", duration=5 * HOUR))


CAUSES = [
    pytest.param(grown, "grow", "cooldown", id="cooldown of growth"),
    pytest.param(shrunk, "shrink", "cooldown", id="cooldown of removal"),
    pytest.param(out_of_stock, "grow", "backoff", id="growth failed"),
    pytest.param(refused, "shrink", "backoff", id="a removal was refused"),
    pytest.param(never_usable, "grow", "provisioning", id="a node never came up"),
]


@pytest.mark.database("what outlives a process is in it")
@pytest.mark.parametrize(("cause", "direction", "kind"), CAUSES)
def test_another_process_holds_what_the_last_one_held_until_the_same_moment(
    store: WorldStore, cause: Callable[[Life], None], direction: str, kind: str
) -> None:
    life = lives.at_zero(store)
    life.run(MINUTE)
    cause(life)
    found: list[dict[str, Any]] = []
    for _ in range(300):
        life.world.advance(life.wake_after_step(15 * SECOND))
        found = [w for w in waits_of(life) if (w["direction"], w["kind"]) == (direction, kind)]
        if found:
            break
    [before] = found

    second = lives.restarted(life, rebuilt(store), wrap_cluster=life.wrap_cluster)
    second.step()
    assert [w for w in waits_of(second) if (w["direction"], w["kind"]) == (direction, kind)] == [before]
    assert second.writes("resize" if direction == "grow" else "cordon") == []


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (WontWork("no L40S left in LON1", code="gpu_count_exceeded"), Shortage.STOCK),
        (WontWork("32 of 32 instances", code="quota_limit_reached"), Shortage.QUOTA),
        (TryLater("no answer within 10 s", code="timeout"), Shortage.OTHER),
    ],
    ids=str,
)
def test_the_reason_of_a_back_off_from_growth_tells_its_cause(
    store: Store, error: WontWork | TryLater, cause: Shortage
) -> None:
    life = lives.at_zero(store)
    for _ in range(10):
        life.cloud.fail_next(error, "resize")
    life.submit(a_job("one"))
    found: list[str] = []
    for _ in range(60):
        life.run(5 * SECOND)
        found = [w["reason"] for w in waits_of(life) if w["kind"] == "backoff"]
        if found:
            break

    assert [shortage_of(reason) for reason in found] == [cause]


def test_the_picture_names_the_rules_that_held_the_decision(store: Store) -> None:
    life = lives.at_zero(store)
    life.run(5 * SECOND)
    assert published(store)["pools"][0]["held_by"] == []
    grown(life)
    life.run(20 * SECOND)
    assert "cooled_down" in published(store)["pools"][0]["held_by"]
