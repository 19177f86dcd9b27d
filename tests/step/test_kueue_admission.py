"""A Workload of Kueue and our AdmissionCheck, from end to end: the real step and adapter over the simulated API, where
a minimal Kueue reserves quota, admits and evicts."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from receiver.core.model.policy import Budget
from receiver.ports import REJECT_TOO_LARGE, Store
from tests.core.builders import MINUTE
from tests.step.kueue_stage import Stage, nodes, staged

Begin = Callable[..., AbstractContextManager[Stage]]
VERSIONS = ("v1beta2", "v1beta1")


@pytest.fixture
def begin(tmp_path: Path, store: Store) -> Begin:
    return partial(staged, tmp_path, store)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_workload_is_held_then_admitted_by_a_raised_budget_then_finished(version: str, begin: Begin) -> None:
    with begin("3", version) as stage:
        stage.budget_check()
        stage.queue("budget")
        stage.workload("train")
        assert stage.conditions("train") == {}  # its queue is not active before the check is
        stage.life.step()
        [active] = stage.found("admissionchecks", "budget")["status"]["conditions"]
        assert (active["type"], active["status"]) == ("Active", "True")

        stage.run(MINUTE)
        held = "held by the cluster budget: $0.87 short, resumes 1 Apr"
        assert stage.conditions("train") == {"QuotaReserved": "False", "Evicted": "True", "Requeued": "False"}
        assert stage.check("train")["state"] == "Pending"
        [evicted] = [c for c in stage.found("workloads", "train")["status"]["conditions"] if c["type"] == "Evicted"]
        assert evicted["message"] == f'Evicted due to AdmissionCheck in Retry state: "budget" ({held})'
        assert nodes(stage) == 1  # the idle node is the only one

        stage.life.policy = replace(stage.life.policy, budget=Budget(monthly_usd=Decimal(1000)))
        stage.run(6 * MINUTE)
        assert stage.check("train")["state"] == "Ready"
        assert stage.check("train")["message"] == "the budgets cover it: 1 new node in pool l40s at $1.29 per hour"
        assert stage.conditions("train")["Admitted"] == "True"
        assert nodes(stage) == 2

        stage.run(20 * MINUTE)
        assert stage.conditions("train") == {
            "QuotaReserved": "True",
            "Evicted": "False",
            "Requeued": "True",
            "Admitted": "True",
            "Finished": "True",
        }
        assert [kill.by for kill in stage.life.world.kills] == []


def test_while_a_workload_is_held_others_get_its_quota(begin: Begin) -> None:
    with begin("3") as stage:
        stage.budget_check()
        stage.queue("budget", quota=2)
        stage.workload("large", 2)
        stage.run(MINUTE)
        stage.workload("small", 1)
        stage.run(MINUTE)
        assert (stage.conditions("small")["Admitted"], nodes(stage)) == ("True", 1)
        assert stage.conditions("large")["QuotaReserved"] == "False"


def test_an_admitted_workload_keeps_its_answer_when_the_budget_is_lowered(begin: Begin) -> None:
    with begin() as stage:
        stage.budget_check()
        stage.queue("budget")
        stage.workload("train")
        stage.run(2 * MINUTE)
        assert stage.conditions("train")["Admitted"] == "True"
        writes = len(stage.writes())
        stage.life.policy = replace(stage.life.policy, budget=Budget(monthly_usd=Decimal(1)))
        stage.run(5 * MINUTE)
        assert (stage.check("train")["state"], stage.conditions("train")["Admitted"]) == ("Ready", "True")
        assert len(stage.writes()) == writes


def test_what_never_fits_is_rejected_where_the_check_says_so(begin: Begin) -> None:
    with begin() as stage:
        stage.budget_check(**{REJECT_TOO_LARGE: "true"})
        stage.queue("budget")
        stage.workload("huge", 4)
        stage.run(MINUTE)
        assert stage.found("workloads", "huge")["spec"]["active"] is False
        [evicted] = [c for c in stage.found("workloads", "huge")["status"]["conditions"] if c["type"] == "Evicted"]
        assert evicted["message"].endswith('Rejected state: "budget" (needs 4 nodes; pool l40s may have 3)')


def test_observe_mode_answers_no_check(begin: Begin) -> None:
    with begin(mode="observe") as stage:
        stage.budget_check()
        stage.queue("budget")
        stage.workload("train")
        stage.run(2 * MINUTE)
        assert (stage.writes(), stage.conditions("train")) == ([], {})


def test_a_check_of_another_controller_is_left_alone(begin: Begin) -> None:
    with begin() as stage:
        active = {"conditions": [{"type": "Active", "status": "True"}]}
        stage.put("AdmissionCheck", "theirs", spec={"controllerName": "example.com/theirs"}, status=active)
        stage.queue("theirs")
        stage.workload("train")
        stage.run(2 * MINUTE)
        assert (stage.check("train")["state"], stage.writes()) == ("Pending", [])
