"""`receiver.step.publish`: what is made for people fails by itself, and changes no action of this step or the next."""

from dataclasses import dataclass
from typing import Any

import pytest

from receiver.core.explain.samples import PoolSample
from receiver.core.model.usage import Usage
from receiver.ports import Store, TryLater, WriterLostError
from simulator.store import MemoryStore
from tests.core.builders import HOUR, MINUTE
from tests.given import lives
from tests.given.life import POOL, START, Life, Wrapped, a_job

BUG = RuntimeError("a bug")
DOWN = TryLater("store: the disk is full", code="store")
# The part that each call of the store belongs to, and what is lost with it. Samples are cut from the picture.
PARTS = {
    "stand": ("messages", {"notices"}),
    "accounted": ("usage", {"usage", "in_use"}),
    "account": ("usage", {"usage", "in_use"}),
    "keep_in_use": ("usage", {"in_use"}),
    "count_promises": ("promises", {"promises"}),
    "keep_snapshot": ("picture", {"picture", "samples"}),
    "keep_samples": ("samples", {"samples"}),
}
each_call = pytest.mark.parametrize("call", PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What an hour left for people."""

    notices: list[str]
    usage: list[Usage]
    in_use: list[Any]
    promises: Any
    picture: Any
    samples: list[PoolSample]

    @staticmethod
    def by(life: Life) -> "Published":
        store, month = life.store, f"{START:%Y-%m}"
        return Published(
            notices=sorted(n.notice.title for n in store.messages(START, life.now)),
            usage=list(store.usage(month)),
            in_use=list(store.in_use(month)),
            promises=store.counts()["promises"],
            picture=store.snapshot(),
            samples=list(store.samples(START, life.now, pool=POOL)),
        )

    def lacks(self, whole: "Published") -> set[str]:
        """The names of what differs from the *whole*."""
        return {name for name in Published.__slots__ if getattr(self, name) != getattr(whole, name)}


def an_hour(store: Store) -> Life:
    """Nodes are bought for five pods and for one more that is promised its start, run them, and are removed; a pod
    that fits nowhere waits meanwhile."""
    life = lives.waiting(store, a_job(pods=5), a_job("too-large", gpus_per_pod=16, duration=HOUR))
    life.run(8 * MINUTE, tick=MINUTE)
    life.submit(a_job("late", submit_at=life.now))
    life.run(HOUR, tick=MINUTE)
    return life


def broken(store: Store, call: str, error: Exception) -> Any:
    """The store, of which one *call* raises."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return Wrapped(store, **{call: fail})


def actions(life: Life) -> list[Any]:
    """What was written to Civo and Kubernetes, and when each decision was made."""
    decided = [(s.facts.at, pool, d.target) for s in life.steps for pool, d in s.decisions.items()]
    return [life.writes(), decided, [vm.gone_at for vm in life.world.lives]]


@pytest.fixture(scope="module")
def sound() -> Life:
    """The hour without a failure."""
    return an_hour(MemoryStore())


def test_an_hour_publishes_something_of_each_kind(sound: Life) -> None:
    whole = Published.by(sound)
    assert {name for name in Published.__slots__ if getattr(whole, name)} == set(Published.__slots__)
    assert {verb for verb, _ in sound.writes()} >= {"resize", "cordon", "retire"}


@each_call
def test_a_bug_where_something_is_published_changes_no_action_and_costs_nothing_else(
    call: str, sound: Life, store: Store
) -> None:
    life = an_hour(broken(store, call, BUG))
    part, lost = PARTS[call]
    assert actions(life) == actions(sound)
    assert Published.by(life).lacks(Published.by(sound)) == lost
    assert {f.part for stepped in life.steps for f in stepped.failures} == {part}


@each_call
def test_a_store_that_fails_where_something_is_published_changes_no_action(
    call: str, sound: Life, store: Store
) -> None:
    life = an_hour(broken(store, call, DOWN))
    assert actions(life) == actions(sound)
    assert [stepped.failures for stepped in life.steps if stepped.failures] == []


@each_call
def test_a_store_that_fails_within_a_step_is_asked_for_nothing_more_of_it(call: str, store: Store) -> None:
    """Every other part would wait for the same database."""
    life = lives.waiting(store)
    calls: list[str] = []

    def noted(name: str) -> Any:
        def make(*args: Any, **named: Any) -> Any:
            calls.append(name)
            if name == call:
                raise DOWN
            return getattr(store, name)(*args, **named)

        return make

    life.store = Wrapped(store, **{name: noted(name) for name in PARTS})
    life.step()
    assert calls.count(call) <= 1
    assert call not in calls[:-1]


def test_a_replica_that_may_no_longer_write_ends_its_step_at_once(store: Store) -> None:
    life = lives.waiting(store)
    life.store = broken(store, "accounted", WriterLostError("another replica leads"))
    with pytest.raises(WriterLostError):
        life.step()
