"""A life with two teams: what each held, what nobody held, and money that adds up to what was billed."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.costs.monthly import costs_of
from receiver.core.model.policy import Budget
from receiver.core.model.usage import WorkloadLife
from receiver.core.money.attribution import Attributed, By, MonthToDate, Part, attribute, key_of, lines
from receiver.core.money.budget import month_of
from receiver.core.money.cost import in_cents, spend_by_pool
from receiver.ports import Store, TryLater
from receiver.replay.world.objects import IMAGE_ANNOTATION, WorldPool
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.given import lives, troubles
from tests.given.life import FAST, GPU, PRICE, SIZE, START, TICK, Life, Wrapped, a_job, a_policy, a_world
from tests.world_ports import FlakyTelemetry

OF_FOUR = a_pool(resources={GPU: 4})
WATCHED = timedelta(minutes=2.5)  # steps further apart than three minutes do not know what happened in between


def attributed(life: Life, now: datetime | None = None) -> Attributed:
    month = month_of(START, "UTC")
    store, at = life.store, now or life.now
    usage, blind = store.usage(month.name), store.unwatched(month.name)
    return attribute(store.node_lives(month.start), usage, blind, MonthToDate(month, at, life.policy.billing))


def told(life: Life, by: By = By.TEAM) -> dict[tuple[str, str], Decimal]:
    found = lines(attributed(life), lambda share: key_of(share, by, life.policy))
    return {(line.part.value, line.key): line.usd for line in found}


def seconds_of(life: Life) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in life.store.usage("2026-11"):
        found[row.workload] = found.get(row.workload, 0.0) + row.held
    return found


def workloads(life: Life) -> dict[str, WorkloadLife]:
    return {x.workload: x for x in life.store.workload_lives(START, life.now)}


def test_ten_hours_of_two_teams_add_up_to_what_was_billed(store: Store, figure: Callable[[str], None]) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    for hour in range(0, 8, 2):
        vision = a_job(f"vision-{hour}", team="vision", gpus_per_pod=2, duration=90 * MINUTE)
        nlp = a_job(f"nlp-{hour}", team="nlp", namespace="nlp", duration=30 * MINUTE, gpu_util=0.02)
        life.submit(vision, nlp, a_job(f"lone-{hour}", team="", duration=10 * MINUTE))
        life.run(2 * HOUR, tick=2.5 * MINUTE)
    life.run(2 * HOUR, tick=2.5 * MINUTE)
    found = told(life)
    node_lives = store.node_lives(month_of(START, "UTC").start)
    billed = sum(spend_by_pool(node_lives, START - HOUR, life.now, life.policy.billing)[0].values(), Decimal(0))
    assert sum(found.values(), Decimal(0)) == in_cents(billed) == in_cents(life.world.paid())
    held = seconds_of(life)
    truth = {f.id: f.gpus * (f.finished_at - f.started_at).total_seconds() for f in life.world.finished}
    for name, seconds in truth.items():
        workload = f"{'nlp' if name.startswith('nlp') else 'ml'}/Job/{name}"
        assert seconds <= held[workload] <= seconds + 2 * 30  # and the time in which the image was pulled
    assert {key for part, key in found if part == "held"} == {"vision", "nlp", "unlabelled"}
    assert found["held", "vision"] > found["held", "nlp"] > found["held", "unlabelled"]
    teams = lines(attributed(life), lambda share: key_of(share, By.TEAM, life.policy))
    idle = {line.key: line.idle / line.measured for line in teams if line.part is Part.HELD}
    assert idle["nlp"] > 0.9 > 0.1 > idle["vision"]
    parts = ", ".join(f"{key or part} {usd}" for (part, key), usd in found.items())
    figure(f"ten hours of two teams: {in_cents(billed)} USD, of it {parts}")


def test_shares_in_a_gpu_and_slices_of_it_cost_their_part_of_a_node(store: Store) -> None:
    """A GPU that is handed out four times, and one that is cut into seven: a quarter and three sevenths are held."""
    shared, cut = {f"{GPU}.shared": 4}, {"nvidia.com/mig-1g.5gb": 7}
    world = a_world(
        WorldPool(id="shared-id", size=SIZE, resources=shared, labels={f"{GPU}.replicas": "4"}, gpus=1),
        WorldPool(id="cut-id", size=SIZE, resources=cut, gpus=1),
    )
    pools = [
        a_pool(id=f"{name}-id", name=name, resources=resources)
        for name, resources in (("shared", shared), ("cut", cut))
    ]
    life = Life(world=world, policy=a_policy(*pools), store=store)
    one = a_job("one", duration=5 * HOUR, resource=f"{GPU}.shared")
    three = a_job("three", team="nlp", duration=5 * HOUR, resource="nvidia.com/mig-1g.5gb", gpus_per_pod=3)
    life.submit(one, three)
    life.run(30 * MINUTE, tick=MINUTE)
    assert {x.pool: x.gpus for x in store.node_lives(START)} == {"shared-id": 1.0, "cut-id": 1.0}
    for name, part in (("one", 1 / 4), ("three", 3 / 7)):
        bound_at = workloads(life)[f"ml/Job/{name}"].bound_at
        assert bound_at is not None
        seconds = (life.now - bound_at).total_seconds()
        assert seconds_of(life)[f"ml/Job/{name}"] == pytest.approx(part * seconds, abs=61)
    assert sum(told(life).values(), Decimal(0)) == in_cents(life.step().facts.spend.usd)


def test_a_job_is_followed_from_its_request_to_its_end(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job())
    life.run(HOUR, tick=MINUTE)
    found = workloads(life)["ml/Job/train"]
    finished = life.world.finished[0]
    assert (found.owner.team, found.gpus, found.completed) == ("vision", 1, True)
    assert found.created_at == finished.submitted_at
    assert found.bound_at is not None
    assert found.created_at < found.bound_at < finished.started_at
    assert found.ended_at == finished.finished_at


def test_a_workload_that_was_deleted_has_ended_and_nobody_knows_how(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job(duration=5 * HOUR))
    life.run(20 * MINUTE, tick=MINUTE)
    life.world.scale_to_zero("Job", "ml", "train")
    life.run(10 * MINUTE, tick=MINUTE)
    found = workloads(life)["ml/Job/train"]
    assert found.ended_at is not None
    assert found.completed is None


def test_ticks_of_other_lengths_count_the_same_seconds(new_store: Callable[[], Store]) -> None:
    counted = []
    for tick in (TICK, MINUTE):
        life = lives.at_zero(new_store(), OF_FOUR, rest=WATCHED)
        life.submit(a_job(gpus_per_pod=3))
        life.run(HOUR, tick=tick)
        counted.append(seconds_of(life))
    assert counted[0] == pytest.approx(counted[1], abs=0.001)


@pytest.mark.database("what outlives a process is in it")
def test_a_restart_after_a_crash_counts_nothing_twice(store: Store) -> None:
    """The store is the same; the accounting that was under way is lost."""
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job(duration=40 * MINUTE))
    life.run(20 * MINUTE, tick=MINUTE)

    def crash(*_: Any) -> bool:
        raise TryLater("the store is gone", code="store")

    life.store = Wrapped(store, account=crash)
    life.run(5 * MINUTE, tick=MINUTE)
    life.store = store
    life.run(2 * HOUR, tick=MINUTE)
    found = workloads(life)["ml/Job/train"]
    assert found.bound_at is not None
    assert found.ended_at is not None
    assert seconds_of(life) == {"ml/Job/train": (found.ended_at - found.bound_at).total_seconds()}


def test_what_ran_while_we_were_away_is_counted_only_where_it_is_still_known(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job("stays", duration=9 * HOUR), a_job("goes", duration=20 * MINUTE))
    life.run(10 * MINUTE, tick=MINUTE)
    life.pass_time(3 * HOUR)
    life.run(5 * MINUTE, tick=MINUTE)
    held = seconds_of(life)
    bound_at = workloads(life)["ml/Job/stays"].bound_at
    assert bound_at is not None
    assert held["ml/Job/stays"] == pytest.approx((life.now - bound_at).total_seconds(), abs=60)
    ended = workloads(life)["ml/Job/goes"]
    assert ended.completed
    parts = told(life)
    assert parts["unwatched", ""] > parts["held", "vision"] / 4


def test_a_silent_kubernetes_stops_the_account_and_loses_no_time(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job(duration=5 * HOUR))
    life.run(10 * MINUTE, tick=MINUTE)
    stood = store.accounted().at
    life.cluster.fail_always(TryLater("down", code="down"))
    life.run(30 * MINUTE, tick=MINUTE)
    assert store.accounted().at == stood
    life.cluster.fail_always(None)
    life.run(2 * MINUTE, tick=MINUTE)
    bound_at = workloads(life)["ml/Job/train"].bound_at
    assert bound_at is not None
    assert seconds_of(life)["ml/Job/train"] == pytest.approx((life.now - bound_at).total_seconds(), abs=61)


def test_an_instance_that_civo_leaves_out_for_a_while_costs_and_is_held_as_if_it_had_been_there(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job(duration=5 * HOUR))
    life.run(20 * MINUTE, tick=MINUTE)
    [before] = store.node_lives(START)
    cloud = life.cloud

    def forgetful() -> Any:
        return {name: replace(pool, instances=()) for name, pool in cloud.look().items()}

    life.cloud = Wrapped(cloud, look=forgetful)  # type: ignore[assignment]
    life.run(5 * MINUTE, tick=MINUTE)
    assert store.node_lives(START)[0].gone_at is not None
    life.cloud = cloud
    life.run(40 * MINUTE, tick=MINUTE)
    [after] = [x for x in store.node_lives(START) if x.instance == before.instance]
    assert (after.created_at, after.price_usd_per_hour, after.gone_at) == (before.created_at, PRICE, None)
    found = workloads(life)["ml/Job/train"]
    assert found.bound_at is not None
    assert found.ended_at is None
    assert seconds_of(life) == {"ml/Job/train": pytest.approx((life.now - found.bound_at).total_seconds(), abs=61)}


def test_the_ledger_keeps_the_image_of_the_first_pod_that_ran_on_a_node(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job(duration=HOUR, annotations={IMAGE_ANNOTATION: "train:2"}))
    life.run(20 * MINUTE, tick=MINUTE)
    life.submit(a_job("other", annotations={IMAGE_ANNOTATION: "other:1"}))
    life.run(20 * MINUTE, tick=MINUTE)
    assert [node.image for node in store.node_lives(START)] == ["train:2"]


def test_of_pods_that_a_step_first_sees_running_together_the_earlier_one_names_the_image(store: Store) -> None:
    pulls = {"small": 10 * SECOND, "huge": 40 * SECOND}
    life = lives.at_zero(store, OF_FOUR, timings=replace(FAST, pulls=pulls), rest=WATCHED)
    for image in pulls:
        name = "a" if image == "huge" else "b"  # the later one comes first in every list
        life.submit(a_job(name, duration=HOUR, annotations={IMAGE_ANNOTATION: image}))
    life.run(20 * MINUTE, tick=MINUTE)
    assert [node.image for node in store.node_lives(START)] == ["small"]


def test_without_dcgm_nothing_is_measured_and_nothing_is_idle(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    troubles.dcgm_gone(life)
    life.submit(a_job(gpu_util=0.0))
    life.run(15 * MINUTE, tick=MINUTE)
    row = store.usage("2026-11")[0]
    assert row.held > 0
    assert (row.measured, row.idle) == (0.0, 0.0)


class Telemetry(FlakyTelemetry):
    """Counts the questions for samples."""

    asked = 0

    def samples(self) -> Any:
        self.asked += 1
        return super().samples()


def test_samples_are_asked_for_once_a_minute_however_often_we_step(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job(duration=5 * HOUR))
    life.run(20 * MINUTE, tick=MINUTE)
    telemetry = life.telemetry = Telemetry(life.world)
    life.rest = MINUTE
    life.run(3 * MINUTE, tick=TICK)
    assert 3 <= telemetry.asked <= 4


def test_the_spend_of_teams_reaches_the_facts_where_a_team_has_a_budget(store: Store) -> None:
    budget = Budget(monthly_usd=Decimal(1000), teams={"vision": Decimal(100)})
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED, budget=budget)
    life.submit(a_job(duration=3 * HOUR, gpus_per_pod=4))
    life.run(HOUR + 10 * MINUTE, tick=MINUTE)
    teams = life.step().facts.spend.teams
    assert teams is not None
    assert PRICE * Decimal("0.9") < teams["vision"] < 2 * PRICE


def test_what_is_told_adds_up_to_what_a_step_spends(store: Store) -> None:
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.submit(a_job(duration=90 * MINUTE))
    life.run(130 * MINUTE, tick=MINUTE)
    usd = life.step().facts.spend.usd
    assert usd > 0
    assert costs_of(store, life.policy, month_of(life.now, "UTC"), life.now).usd == in_cents(usd)


def failing(store: Store, dice: random.Random) -> Any:
    """The store, whose accounting now and then fails, before or after it was written."""

    def account(*said: Any) -> bool:
        luck = dice.random()
        if luck < 0.1:
            raise TryLater("the disk is full", code="store")
        done = store.account(*said)
        if luck > 0.9:
            raise TryLater("the answer was lost", code="store")
        return done

    return Wrapped(store, account=account)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_random_hours_with_failures_count_no_time_twice_and_add_up(store: Store, seed: int) -> None:
    dice = random.Random(seed)
    life = lives.at_zero(store, OF_FOUR, rest=WATCHED)
    life.store = failing(store, dice)
    for number in range(15):
        job = a_job(
            f"j{number}",
            pods=dice.choice([1, 1, 2]),
            gpus_per_pod=dice.choice([1, 2, 4]),
            team=dice.choice(["vision", "nlp", ""]),
            duration=timedelta(seconds=dice.randint(20, 3000)),
        )
        life.submit(job)
        life.telemetry.fail_always(TryLater("down", code="down") if dice.random() < 0.2 else None)
        life.cluster.fail_always(TryLater("down", code="down") if dice.random() < 0.2 else None)
        life.run(timedelta(seconds=dice.randint(1, 600)), tick=timedelta(seconds=dice.choice([5, 30, 60])))
        if dice.random() < 0.1:
            life.pass_time(timedelta(minutes=dice.randint(1, 30)))
    life.telemetry.fail_always(None)
    life.cluster.fail_always(None)
    life.run(3 * HOUR, tick=MINUTE)
    truth: dict[str, float] = {}
    for pod in life.world.pods.values():
        if pod.scheduled_since is not None and pod.node is not None:
            lived = ((pod.finished_at or life.now) - pod.scheduled_since).total_seconds()
            name = f"ml/Job/{pod.owner_name}"
            truth[name] = truth.get(name, 0.0) + pod.gpus * lived
    for workload, seconds in seconds_of(life).items():
        assert seconds <= truth[workload] + 0.001, workload
    for row in store.usage("2026-11"):
        assert 0 <= row.idle <= row.measured + 1e-6
        assert row.measured <= row.held + 1e-6
    usd = life.step().facts.spend.usd
    for by in By:
        assert sum(told(life, by).values(), Decimal(0)) == in_cents(usd)
