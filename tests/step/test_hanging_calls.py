"""A call to Civo that hangs delays the other pools by its own timeout at most, and what arrives late does no harm."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind
from receiver.core.model.model import CordonedBy
from receiver.ports import Receipt, Store, TryLater, WontWork
from receiver.replay.world.objects import WorldPool
from receiver.step.carry_out import FIRST_RETRY
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.given import lives
from tests.given.life import GPU, SIZE, Life, Wrapped, a_job, a_policy, a_world

pytestmark = pytest.mark.chores(False)

WITHOUT_COOLDOWN = a_pool(grow_cooldown=timedelta(0))  # it may grow at every step
HANGS = 15 * SECOND  # 5 s to connect and 10 s for the answer (`receiver.adapters.civo.cloud`)
TICK = 10 * SECOND


class Hanging:
    """A life with several pools. The PUT of the pools *hang*; *sent* is when each pool's PUT was sent, in order."""

    def __init__(self, store: Store, pools: str, hang: str) -> None:
        kinds = [WorldPool(id=i, size=SIZE, resources={GPU: 1}, labels={"pool": i}) for i in pools]
        mine = [a_pool(id=i, name=i, labels={"pool": i}, grow_cooldown=timedelta(0)) for i in pools]
        self.life = Life(world=a_world(*kinds), policy=a_policy(*mine), store=store)
        self.sent: list[tuple[str, datetime]] = []
        self._hang = hang
        self.life.wrap_cloud = lambda inner: Wrapped(inner, resize=self._resize)

    def _resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        self.sent.append((pool, self.life.now))
        if pool in self._hang:
            self.life.world.advance(self.life.now + HANGS)
            raise TryLater("no answer", code="timeout")
        return self.life.cloud.resize(pool, decided_on=decided_on, target=target, shown=shown)

    def submit(self, name: str, pool: str) -> None:
        """A pod that fits *pool* alone."""
        self.life.world.submit(a_job(name, duration=HOUR, node_selector={"pool": pool}))

    def run(self, until: timedelta) -> None:
        """Step as the loop does: a step that took long is followed by the next at once."""
        end = self.life.now + until
        while self.life.now < end:
            due = self.life.wake_after_step(TICK)
            self.life.world.advance(max(due, self.life.now + timedelta(milliseconds=100)))

    def first(self, pool: str) -> datetime:
        """When the first PUT of *pool* was sent."""
        return next(at for sent, at in self.sent if sent == pool)


@pytest.mark.parametrize("hang", ["a", "ab", "abc"])
def test_the_other_pools_are_served_one_timeout_and_a_step_later_at_most(store: Store, hang: str) -> None:
    scene = Hanging(store, "abcd", hang)
    for pool in "abcd":
        scene.submit(f"for-{pool}", pool)
    scene.life.pass_time(SECOND)
    began = scene.life.now
    scene.run(3 * MINUTE)
    waited = {pool: scene.first(pool) - began for pool in "abcd" if pool not in hang}
    assert max(waited.values()) <= len(hang) * (HANGS + SECOND)


def test_no_second_call_hangs_in_a_step_where_a_bug_follows_the_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("planted")

    scene = Hanging(store, "ab", "ab")
    for pool in "ab":
        scene.submit(f"for-{pool}", pool)
    scene.life.pass_time(SECOND)
    monkeypatch.setattr("receiver.step.act._close", fails)
    scene.life.step()
    assert len(scene.sent) == 1


def test_a_pool_whose_call_hung_comes_last_from_then_on(store: Store) -> None:
    scene = Hanging(store, "abc", "a")
    scene.submit("first", "a")
    scene.life.pass_time(SECOND)
    waits: list[timedelta] = []
    for number in range(8):
        scene.submit(f"then-{number}", "bc"[number % 2])
        scene.life.pass_time(SECOND)
        asked, sent = scene.life.now, len(scene.sent)
        scene.run(20 * SECOND)
        waits.append(next(at for pool, at in scene.sent[sent:] if pool != "a") - asked)
    assert max(waits) <= HANGS + SECOND
    assert sum(wait < SECOND for wait in waits) >= 5  # all but those that came in the midst of a call


def test_several_nodes_of_one_removal_do_not_hang_one_after_the_other(store: Store) -> None:
    life = lives.idle_nodes(store, 4)
    deletes: list[datetime] = []

    def retire(pool: str, instance: str) -> Receipt:
        deletes.append(life.now)
        life.world.advance(life.now + HANGS)
        raise TryLater("no answer", code="timeout")

    life.wrap_cloud = lambda inner: Wrapped(inner, retire=retire)
    while not deletes:
        life.world.advance(max(life.wake_after_step(TICK), life.now + SECOND))
    assert len(deletes) == 1


def test_while_a_request_is_unanswered_the_same_count_is_asked_for_before_a_higher_one(store: Store) -> None:
    life = lives.at_zero(store, WITHOUT_COOLDOWN)
    asked: list[int] = []

    def resize(pool: str, **given: int) -> Receipt:
        asked.append(given["target"])
        if len(asked) == 1:
            raise TryLater("no answer", code="timeout")
        return life.cloud.resize(pool, decided_on=given["decided_on"], target=given["target"])

    life.wrap_cloud = lambda inner: Wrapped(inner, resize=resize)
    life.submit(a_job("one", duration=HOUR))
    life.step()
    life.submit(a_job("two", duration=HOUR))
    life.run(2 * MINUTE)
    assert asked == [1, 1, 2]
    assert life.required() == 2


def test_more_work_does_not_shorten_the_wait_after_a_failed_request(store: Store) -> None:
    """Civo said no for now: another count is another request, and the attempts before it count."""
    life = lives.at_zero(store, WITHOUT_COOLDOWN)
    asked: list[tuple[int, datetime]] = []

    def resize(pool: str, **given: int) -> Receipt:
        asked.append((given["target"], life.now))
        raise TryLater("busy", code="http_429")

    life.wrap_cloud = lambda inner: Wrapped(inner, resize=resize)
    life.submit(a_job("one", duration=HOUR))
    life.step()
    life.submit(a_job("two", duration=HOUR))
    life.run(15 * SECOND, tick=SECOND)
    assert [target for target, _ in asked] == [1, 2, 2, 2]
    waits = [after - before for (_, before), (_, after) in pairwise(asked)]
    assert waits == [FIRST_RETRY, 2 * FIRST_RETRY, 4 * FIRST_RETRY]


def test_a_count_that_takes_effect_late_and_unanswered_does_not_lower_a_higher_one(store: Store) -> None:
    life = lives.at_zero(store, WITHOUT_COOLDOWN)
    life.cloud.fail_next(TryLater("no answer", code="timeout"), "resize")
    life.submit(a_job("one", duration=HOUR))
    life.step()
    life.run(5 * SECOND)
    assert life.required() == 1
    life.submit(a_job("two", duration=HOUR))
    life.run(40 * SECOND)
    life.world.resize("l40s-id", 1)  # what was sent first arrives now
    life.run(2 * MINUTE)
    assert life.required() == 2


def test_a_removal_in_between_does_not_end_the_wait_for_a_lower_count(store: Store) -> None:
    life = lives.at_zero(store)
    life.step()
    grown = Action(id="g", pool="l40s-id", kind=ActionKind.GROW, opened_at=life.now, from_count=0, to_count=0)
    retired = replace(grown, id="r", kind=ActionKind.RETIRE, opened_at=life.now + SECOND)
    for action in (replace(grown, unanswered_at=life.now), retired):
        store.opened(action)
        store.closed(action, Outcome(kind=OutcomeKind.WITHDRAWN, at=life.now, detail="over"), None)
    life.submit(a_job("one", duration=HOUR))
    life.run(50 * SECOND)
    assert life.required() == 0
    life.run(30 * SECOND)
    assert life.required() == 1


def test_the_same_count_is_asked_for_again_at_once_when_its_work_comes_back(store: Store) -> None:
    life = lives.at_zero(store, WITHOUT_COOLDOWN)
    life.cloud.fail_next(TryLater("no answer", code="timeout"), "resize")
    life.submit(a_job("one", duration=HOUR))
    life.step()
    life.world.cancel_job("one")
    life.step()
    life.submit(a_job("two", duration=HOUR))
    life.run(5 * SECOND)
    assert life.required() == 1


def dies(*args: object, **given: object) -> Receipt:
    raise SystemExit


def died_while_growing(store: Store) -> Life:
    """A life whose process died between the PUT for one pod and its answer."""
    life = lives.at_zero(store, WITHOUT_COOLDOWN)
    life.wrap_cloud = lambda inner: Wrapped(inner, resize=dies)
    life.submit(a_job("one", duration=HOUR))
    with pytest.raises(SystemExit):
        life.step()
    life.wrap_cloud = lambda inner: inner
    return life


def test_a_higher_count_waits_after_a_crash_though_the_growth_was_withdrawn_meanwhile(store: Store) -> None:
    life = died_while_growing(store)
    life.world.cancel_job("one")
    life.step()
    life.submit(a_job("two", duration=HOUR), a_job("three", duration=HOUR))
    life.run(50 * SECOND)
    assert life.required() == 0
    life.run(30 * SECOND)
    assert life.required() == 2


def test_a_lower_count_waits_while_a_higher_one_may_still_arrive(store: Store) -> None:
    """It could arrive between our look at the count and our PUT, which would then remove nodes of Civo's choice."""
    life = lives.at_zero(store, WITHOUT_COOLDOWN)
    life.cloud.fail_next(TryLater("no answer", code="timeout"), "resize")
    life.submit(a_job("one", duration=HOUR), a_job("two", duration=HOUR))
    life.step()
    life.world.cancel_job("one")
    life.world.cancel_job("two")
    life.step()
    life.submit(a_job("three", duration=HOUR))
    life.run(50 * SECOND)
    assert life.required() == 0
    life.run(30 * SECOND)
    assert life.required() == 1


def test_a_higher_count_waits_after_a_crash_between_a_request_and_its_answer(store: Store) -> None:
    life = died_while_growing(store)
    life.run(5 * SECOND)
    life.submit(a_job("two", duration=HOUR))
    life.run(50 * SECOND)
    assert life.required() == 1
    life.run(30 * SECOND)
    assert life.required() == 2


def unanswered_delete(store: Store) -> Life:
    """A removal whose DELETE was sent and not answered, and a pod that waits since."""
    life = lives.in_removal(store)
    life.cloud.fail_next(TryLater("no answer", code="timeout"), "retire")
    while not any(v.asked_at for s in store.actions() for v in s.action.victims):
        life.world.advance(life.now + SECOND)
        life.step()
    life.world.submit(a_job("next", duration=HOUR))
    return life


def cordoned(life: Life) -> list[CordonedBy | None]:
    """Whose cordons the pool's nodes carry."""
    return [n.cordon.by for n in life.step().facts.pool("l40s-id").nodes]


def test_a_node_whose_delete_may_still_arrive_takes_no_new_work(store: Store) -> None:
    life = unanswered_delete(store)
    [vm] = life.world.pools["l40s-id"].instances
    life.run(30 * SECOND)
    assert cordoned(life) == [CordonedBy.US]
    life.world.delete_instance("l40s-id", vm.id)  # now it arrives
    life.run(10 * MINUTE)
    assert list(life.world.kills) == []
    assert [p.phase for p in life.world.active_pods.values()] == ["Running"]


def then_refused(life: Life) -> None:
    life.world.cancel_job("next")
    life.cloud.fail_next(WontWork("the instance is busy", code="http_403"), "retire")


def then_kubernetes_refuses(life: Life) -> None:
    life.world.cancel_job("next")
    life.cluster.fail_next(WontWork("not any more", code="http_401"), "gpu_pods_on")


def then_the_pool_leaves_the_configuration(life: Life) -> None:
    life.policy = replace(life.policy, pools=(replace(life.policy.pools[0], id="other-id", name="other"),))


@pytest.mark.parametrize("then", [then_refused, then_kubernetes_refuses, then_the_pool_leaves_the_configuration])
def test_a_node_whose_delete_may_still_arrive_stays_cordoned_however_its_removal_ends(
    store: Store, then: Callable[[Life], None]
) -> None:
    life = unanswered_delete(store)
    asked_at = life.now
    then(life)
    while not life.writes("uncordon") and life.now < asked_at + 5 * MINUTE:
        life.pass_time(SECOND)
        life.step()
    assert MINUTE <= life.now - asked_at <= MINUTE + 5 * SECOND
    assert store.actions()[0].outcome is not None


def test_a_node_whose_delete_may_still_arrive_after_a_crash_takes_no_new_work(store: Store) -> None:
    life = lives.in_removal(store)
    life.wrap_cloud = lambda inner: Wrapped(inner, retire=dies)
    with pytest.raises(SystemExit):
        life.run(MINUTE, tick=SECOND)
    life.wrap_cloud = lambda inner: inner
    life.submit(a_job("next", duration=HOUR))
    life.run(50 * SECOND)
    assert cordoned(life) == [CordonedBy.US]
    life.run(30 * SECOND)
    assert cordoned(life) == [None]


def test_a_node_whose_delete_never_arrived_is_given_back_after_a_minute(store: Store) -> None:
    life = unanswered_delete(store)
    life.cloud.fail_next(TryLater("no answer", code="timeout"), "retire")
    life.run(90 * SECOND)
    assert cordoned(life) == [None]
    assert [p.phase for p in life.world.active_pods.values()] == ["Running"]
    assert life.writes("retire") == []
