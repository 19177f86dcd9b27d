"""Overrides and wishes over a whole life: they act at the next step, survive restarts, end by themselves, are told."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from receiver.adapters.store import open_store
from receiver.core.model.policy import KeepUntil
from receiver.core.notices.people_notices import was_ended
from receiver.ports import KEEP_UNTIL_ANNOTATION, Store
from tests.core.builders import HOUR, MINUTE
from tests.expect import published, removed
from tests.given import lives
from tests.given.life import Life, a_job

READY = 5 * MINUTE  # a node is usable by then


def a_life(store: Store, **policy: Any) -> Life:
    life = lives.at_zero(store, **policy)
    life.step()
    return life


def shown(life: Life) -> list[str]:
    """The kinds of overrides that the picture shows for the pool."""
    return [o["kind"] for o in published(life.store)["pools"][0]["overrides"]]


def test_a_pin_grows_the_pool_at_the_next_step_and_is_shown(store: Store) -> None:
    life = a_life(store)
    life.set_override("pin", 3)
    life.run(READY)
    assert life.required() == 3
    assert len(life.world.nodes) == 3
    assert shown(life) == ["pin"]


def test_a_pin_survives_a_restart_and_expires_by_itself_and_that_is_told_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    first = open_store(url)
    life = a_life(first)
    life.set_override("pin", 2, lasts=30 * MINUTE)
    life.run(READY)
    first.close()
    second = open_store(url)
    again = lives.restarted(life, second)
    again.run(20 * MINUTE)
    assert (again.required(), shown(again)) == (2, ["pin"])
    again.run(10 * MINUTE)
    assert shown(again) == []
    again.run(HOUR)
    assert again.required() == 0  # nothing waits: what is idle goes at the end of its paid hour
    titles = list(again.notices())
    assert titles.count("GPU pool l40s: no longer pinned to 2 nodes") == 1
    assert sum("pinned to 2 nodes until" in title for title in titles) == 1
    [kept] = second.overrides()
    assert (kept.ended_at, kept.ended_by) == (kept.override.until, None)
    second.close()


def test_an_override_that_expires_between_two_steps_ended_when_it_expired(store: Store) -> None:
    life = a_life(store)
    life.set_override("pause", lasts=MINUTE)
    for _ in range(3):
        life.pass_time(2 * MINUTE)
        life.step()
    [kept] = store.overrides()
    assert (kept.ended_at, kept.ended_by) == (kept.override.until, None)


def test_the_loop_is_told_to_wake_when_an_override_ends(store: Store) -> None:
    life = a_life(store)
    override = life.set_override("pause", lasts=7 * MINUTE)
    assert life.step().reconsider_at == override.until


def test_a_pin_that_somebody_ends_no_longer_acts(store: Store) -> None:
    life = a_life(store)
    pin = life.set_override("pin", 1)
    life.store.end_override(pin.id, life.now, "bob", was_ended(pin, "bob", life.policy))
    life.run(READY)
    assert life.required() == 0
    assert "GPU pool l40s: no longer pinned to 1 node" in life.notices()


def test_a_ceiling_removes_idle_nodes_in_the_middle_of_their_paid_hour_and_leaves_running_work(store: Store) -> None:
    life = a_life(store)
    life.submit(a_job("short", duration=MINUTE), a_job("long", duration=3 * HOUR))
    life.run(2 * READY)
    assert len(life.world.nodes) == 2
    life.set_override("ceiling", 0)
    life.run(2 * MINUTE)
    assert removed(life) == 1
    assert life.required() == 1
    assert any(p.node for p in life.cluster.look().pods)


def test_a_paused_pool_does_not_grow_and_its_work_starts_when_the_pause_ends(store: Store) -> None:
    life = a_life(store)
    life.set_override("pause", lasts=10 * MINUTE)
    life.submit(a_job())
    life.run(9 * MINUTE)
    assert life.writes("resize") == []
    life.run(2 * MINUTE)
    assert life.required() == 1


def test_a_pause_gives_a_removal_under_way_up_and_releases_its_node(store: Store) -> None:
    life = a_life(store)
    life.set_override("pin", 1, lasts=READY)
    life.run(READY)
    life.set_override("ceiling", 0)
    for _ in range(100):
        life.step()
        if life.writes("cordon"):
            break
        life.pass_time(timedelta(seconds=1))
    life.set_override("pause")
    life.run(MINUTE)
    assert life.writes("retire") == []
    assert [verb for verb, _ in life.writes("cordon", "uncordon")] == ["cordon", "uncordon"]


def test_observe_mode_says_what_an_override_would_do(store: Store) -> None:
    life = lives.at_zero(store, mode="observe")
    life.set_override("pin", 2)
    life.run(MINUTE)
    assert life.writes() == []
    assert any("would go 0 -> 2 nodes" in title for title in life.notices())


# --- a workload's wish

LISTED = KeepUntil(namespaces=frozenset({"ml"}))


def a_job_that_asks(store: Store, wish: timedelta, **policy: Any) -> Life:
    """A ten-minute job whose pod asks that its node stays for *wish* from now, once it runs."""
    life = a_life(store, **policy)
    life.submit(a_job())
    life.run(READY)
    [pod] = life.cluster.look().pods
    until = (life.now + wish).isoformat()
    life.world.patch_pod(pod.namespace, pod.name, annotations={KEEP_UNTIL_ANNOTATION: until})
    return life


def test_a_node_stays_for_a_workload_that_asked_also_when_its_pod_is_gone_and_the_program_restarts(
    store: Store,
) -> None:
    life = a_job_that_asks(store, 3 * HOUR, keep_until=LISTED)
    life.run(HOUR)
    assert life.cluster.look().pods == ()
    again = lives.restarted(life, store)
    again.run(HOUR + 50 * MINUTE)
    assert again.writes("retire") == []
    [node] = published(store)["pools"][0]["nodes"]
    assert (node["kept_for"] or "").startswith("ml/train")
    again.run(HOUR + 20 * MINUTE)
    assert removed(again) == 1


def test_a_node_goes_at_its_hours_end_without_a_wish_that_may_be_honoured_and_that_is_told_once(store: Store) -> None:
    life = a_job_that_asks(store, 3 * HOUR)
    life.run(HOUR)
    assert removed(life) == 1
    [event] = [e for e in life.world.events if e.reason == "KeepUntilIgnored"]
    assert "not listed under keep_until.namespaces" in event.message
