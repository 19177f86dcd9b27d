"""Two installations in one cluster, each with a pool of its own, over the real adapter and the simulated API."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from campaigns import two_installations
from campaigns.two_installations import FIRST, MINUTE, POOLS, Played, a_pool, played, sharing
from receiver.adapters.observe import ObservedCluster
from receiver.core.notices.notice import Severity
from receiver.ports import BUDGET_CHECK
from tests.step.kueue_stage import KUEUE

NAMES = "gpu-autoscaler.io/pools"


def test_each_answers_for_its_own_pools_and_nothing_else(tmp_path: Path) -> None:
    with sharing(tmp_path) as shared:
        found = played(shared, turns=1)
        print(found)  # noqa: T201 (the counts, with -s)
        assert found.wrong() == []
        for gpu, other in (("l40s", "a100"), ("a100", "l40s")):
            told = [title for title in shared.notices(gpu) if title.startswith("No GPU pool can hold")]
            assert told
            assert not [title for title in told if f"-{other}-" in title or "elsewhere" in title]
            assert [t for t in shared.notices(gpu) if t.startswith("Another installation")] == [
                f"Another installation shares this cluster: {other}/gpu-autoscaler with {other}"
            ]


@pytest.mark.parametrize(("answerer", "status"), [("l40s", 0), ("a100", 1)])
def test_the_campaign_fails_for_a_wrong_answer_where_each_sees_the_other(
    answerer: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hour(known: bool) -> Played:
        return Played(answered={"ml/train": {answerer if known else "a100"}}, owners={"ml/train": "l40s"})

    monkeypatch.setattr(two_installations, "sharing", lambda _, *, known: nullcontext(known))
    monkeypatch.setattr(two_installations, "played", hour)
    assert two_installations.main() == status


def test_a_workload_with_a_check_of_each_keeps_both_answers(tmp_path: Path) -> None:
    with sharing(tmp_path) as shared:
        shared.run(MINUTE)
        for gpu in POOLS:
            shared.check(f"of-{gpu}", **{NAMES: gpu})
        shared.queue("l40s", *(f"of-{gpu}" for gpu in POOLS))
        shared.workload("train", "l40s")
        shared.run(2 * MINUTE)
        assert {gpu: shared.check_of("train", f"of-{gpu}") for gpu in POOLS} == {"l40s": "Ready", "a100": "Ready"}
        assert shared.answered["ml/train"] == {"l40s", "a100"}


def test_a_check_that_names_anothers_pools_is_left_alone_even_by_one_that_believes_it_is_alone(tmp_path: Path) -> None:
    with sharing(tmp_path, known=False) as shared:
        shared.check("theirs", **{NAMES: "h100"})
        shared.queue("l40s", "theirs")
        shared.workload("train", "l40s")
        shared.run(2 * MINUTE)
        found = shared.sim.live.custom.find(KUEUE, "admissionchecks", "theirs") or {}
        assert (found["spec"]["controllerName"], found.get("status"), shared.answered["ml/train"]) == (
            BUDGET_CHECK,
            None,
            set(),
        )


def test_a_request_that_names_pools_by_parameter_is_answered_by_their_installation(tmp_path: Path) -> None:
    last = max(POOLS)
    with sharing(tmp_path) as shared:
        shared.run(MINUTE)
        shared.request("train", 20, parameters={NAMES: f"pool-{last}"})
        shared.run(MINUTE)
        assert (shared.conditions("train").get("Failed"), shared.answered["ml/train"]) == ("True", {last})


def test_the_work_of_an_installation_that_is_down_waits_for_it(tmp_path: Path) -> None:
    with sharing(tmp_path) as shared:
        shared.run(MINUTE)
        shared.request("train", 1, gpu="a100")
        shared.request("large", 20)
        shared.run(10 * MINUTE, only=["l40s"])
        assert (shared.answered["ml/train"], shared.answered["ml/large"]) == (set(), set())
        shared.run(MINUTE)
        assert (shared.answered["ml/train"], shared.answered["ml/large"]) == ({"a100"}, {FIRST})


def test_two_that_manage_the_same_pool_say_so_once_and_go_on(tmp_path: Path) -> None:
    with sharing(tmp_path) as shared:
        both = shared.lives["a100"]
        both.policy = replace(both.policy, pools=(a_pool("l40s"), a_pool("a100")))
        shared.run(3 * MINUTE)
        for life in shared.lives.values():
            due = [n.notice for n in life.store.notices_due(life.now + 60 * MINUTE, limit=100)]
            (told,) = [n for n in due if n.cause == "installation" and n.severity is Severity.FAILURE]
            assert told.title.startswith("Two installations manage pool l40s")
            shown, _ = life.store.snapshot() or ({}, None)
            assert [c["level"] for c in shown["concerns"] if c["kind"] == "installation"] == ["bad"]
            assert life.steps[-1].facts.at > life.steps[0].facts.at


def test_an_observing_installation_writes_no_lease(tmp_path: Path) -> None:
    with sharing(tmp_path) as shared:
        life = shared.lives[FIRST]
        life.mode, life.wrap_cluster = "observe", ObservedCluster
        shared.run(MINUTE)
        leases = shared.sim.live.custom.objects("coordination.k8s.io", "leases")
        assert [lease["metadata"]["namespace"] for lease in leases] == [max(POOLS)]
