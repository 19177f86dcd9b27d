"""The demo's own workload."""

from simulator.demo_jobs import DemoPlan, demo_jobs
from simulator.world import World
from tests.replay.builders import T0, after, pool, run, world


def test_the_demo_has_singles_a_gang_and_jobs_that_fit_nowhere_within_its_time() -> None:
    jobs = {j.id: j for j in demo_jobs(T0)}
    assert jobs["gang"].gang
    assert jobs["gang"].pods == 2
    assert jobs["too-big"].gpus_per_pod == 16
    assert jobs["nowhere"].node_selector == {"gpu": "quantum"}
    assert all(T0 <= j.submit_at <= after(100) for j in jobs.values())
    assert {n for n in jobs if n.startswith("late-")} == {"late-1", "late-2", "late-3"}


def test_the_demo_is_the_same_every_time() -> None:
    assert demo_jobs(T0) == demo_jobs(T0)


def test_the_demo_runs_what_fits_and_leaves_waiting_what_does_not() -> None:
    w: World = world(pool(count=4, labels={"gpu": "on-demand"}))
    w.submit_later(demo_jobs(T0, DemoPlan(late_runs=5)))
    run(w, 200)
    assert {j.id for j in w.finished} == {"train-1", "train-2", "train-3", "gang", "late-1", "late-2", "late-3"}
    assert {p.name for p in w.active_pods.values()} == {"too-big-0", "nowhere-0"}
