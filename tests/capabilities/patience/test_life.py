"""Work that may wait, on a world: its node is bought in time, and free room is used before that."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from receiver.core.explain.explain import State
from receiver.core.model.pods import Pod
from receiver.ports import MAY_WAIT, Receipt, Store, WontWork
from receiver.replay.world.objects import Job
from tests.core.builders import HOUR, MINUTE, a_pool
from tests.expect import published
from tests.given import lives
from tests.given.life import Life, a_job, a_policy

pytestmark = pytest.mark.chores(False)


def patient(name: str = "patient", **given: Any) -> Job:
    """A job that may wait for four hours, behind the scheduling gate."""
    return a_job(name, **{"gate": MAY_WAIT, "annotations": {MAY_WAIT: "4h"}, **given})


def started(life: Life) -> dict[str, timedelta]:
    """How long after its submission each finished job ran."""
    return {job.id: job.wait for job in life.world.finished}


def bought_at(life: Life) -> list[datetime]:
    return [vm.created_at for vm in life.world.lives]


def test_without_room_a_node_is_bought_in_time_for_the_deadline(store: Store) -> None:
    life = lives.waiting(store, patient())
    submitted = life.now
    life.run(3 * HOUR)
    assert bought_at(life) == []
    life.run(70 * MINUTE)
    (bought,) = bought_at(life)
    assert bought < submitted + 4 * HOUR
    assert started(life)["patient"] <= 4 * HOUR


def test_patient_work_starts_on_a_node_that_urgent_work_has_left(store: Store) -> None:
    life = lives.waiting(store, a_job("urgent"), patient())
    life.run(HOUR)
    assert len(bought_at(life)) == 1
    assert life.world.finished[0].id == "urgent"
    assert timedelta(0) < started(life)["patient"] < 30 * MINUTE


def test_the_urgent_pod_gets_the_node_that_was_bought_for_it(store: Store) -> None:
    """The scheduler serves the older pod first; the gate keeps the patient one out of its way."""
    life = lives.waiting(store, patient())
    life.pass_time(MINUTE)
    life.submit(a_job("urgent"))
    life.run(9 * MINUTE)
    assert {name: pod.node is not None for (_, name), pod in life.world.active_pods.items()} == {
        "patient-0": False,
        "urgent-0": True,
    }


def test_without_the_gate_a_patient_pod_waits_for_its_node_all_the_same(store: Store) -> None:
    life = lives.waiting(store, patient(gate=""))
    life.run(3 * HOUR)
    assert bought_at(life) == []
    life.run(70 * MINUTE)
    assert len(bought_at(life)) == 1


@pytest.mark.chores(True)
def test_the_pod_says_until_when_it_may_wait(store: Store) -> None:
    life = lives.waiting(store, patient())
    life.run(HOUR)
    (said,) = [event for event in life.world.events if event.name == "patient-0"]
    assert said.reason == "MayWait"
    assert "it waits for a GPU that is paid for already, and may wait until" in said.message
    (shown,) = life.steps[-1].assignment.patient
    assert (shown.gated, shown.workload.key) == (True, "ml/patient-0")


@pytest.mark.chores(True)
def test_a_held_pod_and_a_patient_one_are_told_apart(store: Store) -> None:
    life = lives.at_zero(store)
    life.policy = replace(a_policy(), pools=(a_pool(max_nodes=0),))
    life.submit(patient(), a_job("held"))
    life.run(MINUTE)
    assert {e.name: e.reason for e in life.world.events} == {"patient-0": "MayWait", "held-0": "NotTriggerScaleUp"}


def test_observe_mode_admits_nothing(store: Store) -> None:
    life = lives.waiting(store, patient(), mode="observe")
    life.run(5 * HOUR)
    assert life.writes("admit") == []


def test_a_refused_admission_is_tried_again_and_delays_nothing_else(store: Store) -> None:
    life = lives.at_zero(store)
    admit, refused = life.cluster.admit, list[str]()

    def once(pod: Any) -> Receipt:
        if not refused:
            refused.append(pod.name)
            raise WontWork("may not patch pods", code="http_403")
        return admit(pod)

    life.cluster.admit = once  # type: ignore[method-assign]
    life.submit(patient(annotations={MAY_WAIT: "1m"}), a_job("urgent"))
    life.run(HOUR)
    assert refused == ["patient-0"]
    assert {job.id for job in life.world.finished} == {"patient", "urgent"}


@pytest.mark.chores(True)
def test_the_page_shows_patient_work_among_the_waiting(store: Store) -> None:
    life = lives.waiting(store, patient())
    life.run(MINUTE)
    kept = published(store)
    (entry,) = kept["waiting"]
    assert (entry["name"], entry["state"]) == ("patient-0", State.MAY_WAIT)
    assert kept["waiting_total"] == 1


def test_a_refusal_that_lasts_holds_up_no_other_work(store: Store) -> None:
    life = lives.at_zero(store)
    admit = life.cluster.admit

    def never(pod: Any) -> Receipt:
        if pod.name == "a-0":
            raise WontWork("a webhook denies the change", code="http_403")
        return admit(pod)

    life.cluster.admit = never  # type: ignore[method-assign]
    life.submit(*(patient(name, annotations={MAY_WAIT: "1m"}) for name in ("a", "b")))
    life.run(HOUR)
    assert {job.id for job in life.world.finished} == {"b"}


def test_a_large_gang_is_admitted_in_one_step(store: Store) -> None:
    """The scheduler lets none of its pods start before the last one has come."""
    life = lives.waiting(
        store, patient(pods=60, gang=True, annotations={MAY_WAIT: "1m"}), patient("z", annotations={MAY_WAIT: "1m"})
    )
    life.step()
    assert len(life.writes("admit")) == 60


@pytest.mark.chores(True)
def test_in_observe_mode_the_page_promises_neither_a_node_nor_the_gates_removal(store: Store) -> None:
    life = lives.waiting(store, patient(annotations={MAY_WAIT: "1h"}), mode="observe")
    said = []
    for _ in range(2):
        life.run(MINUTE)
        (entry,) = (store.snapshot() or ({},))[0]["waiting"]
        said.append((entry["detail"].rpartition("; ")[2], entry["expected_by"], entry["held_until"]))
        life.pass_time(HOUR)
    over = "it may wait no longer: its scheduling gate stays in observe mode"
    assert said == [("in observe mode nothing is bought", None, None), (over, None, None)]


@pytest.mark.chores(True)
def test_a_gate_that_may_not_be_removed_is_a_message(store: Store) -> None:
    life = lives.at_zero(store)

    def refused(pod: Pod) -> Receipt:
        raise WontWork('Kubernetes API: patch pods failed: 403: grant the verb "patch" on "pods"', code="http_403")

    life.cluster.admit = refused  # type: ignore[method-assign]
    life.submit(patient(annotations={MAY_WAIT: "1m"}))
    life.run(10 * MINUTE)
    (said,) = [title for title in life.notices() if "gate" in title]
    assert said == "1 pod cannot start: its scheduling gate cannot be removed"
