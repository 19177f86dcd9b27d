"""GET /api/v1/waiting: what becomes of each pod that waits, and what a pod that does not wait may be doing."""

import pytest

from simulator.store import MemoryStore
from tests.web.builders import A100, L40S, Bench, a_full_store, a_waiting_pod, showing
from tests.web.seen import get_api


def test_waiting_pods_come_in_the_order_of_service() -> None:
    assert [pod["name"] for pod in get_api("/waiting")] == ["train-llm-2", "needs-mig"]


@pytest.mark.parametrize("called", ["l40s", L40S])
def test_they_can_be_asked_for_the_pool_that_they_wait_for(called: str) -> None:
    assert [pod["name"] for pod in get_api(f"/waiting?pool={called}")] == ["train-llm-2"]
    assert get_api("/waiting?pool=a100") == []


def test_they_can_be_limited() -> None:
    assert [pod["name"] for pod in get_api("/waiting?limit=1")] == ["train-llm-2"]


def test_the_answer_says_how_many_wait_in_all() -> None:
    response = Bench(store=showing(waiting_total=812)).client().get("/api/v1/waiting?limit=1")
    assert response.headers["Gpu-Autoscaler-Waiting-Total"] == "812"


def test_one_waiting_pod_is_found_by_its_namespace_and_name() -> None:
    pod = get_api("/waiting/research/train-llm-2")
    assert (pod["state"], pod["rule"], pod["pool"], pod["pool_name"]) == ("held", "within_budget", L40S, "l40s")
    assert pod["what_to_do"].startswith("raise the budget (gpu-autoscaler budget set USD --why REASON --who YOU)")
    assert pod["fits"][1] == {
        "pool": A100,
        "name": "a100",
        "why_not": "its node selector wants gpu=l40s, nodes carry gpu=a100",
    }


def test_a_pod_that_no_pool_fits_waits_for_no_pool() -> None:
    pod = get_api("/waiting/research/needs-mig")
    assert (pod["pool"], pod["pool_name"]) == (None, None)


def test_in_observe_mode_a_purchase_is_nothing_to_wait_for() -> None:
    store = showing(mode="observe", waiting=[a_waiting_pod(state="buying", rule=None)])
    assert "mode: act" in get_api("/waiting/research/train-llm-2", store)["what_to_do"]


def test_what_the_step_says_to_do_goes_before_what_the_rule_advises() -> None:
    store = showing(waiting=[a_waiting_pod(what_to_do="let it take an old pod away first")])
    assert get_api("/waiting/research/train-llm-2", store)["what_to_do"] == "let it take an old pod away first"


def test_what_another_version_kept_is_answered_with_null_for_what_it_lacks() -> None:
    store = showing(waiting=[{"namespace": "ml", "name": "p"}])
    pod = get_api("/waiting/ml/p", store)
    assert (pod["state"], pod["what_to_do"], pod["fits"]) == (None, None, None)


@pytest.mark.parametrize("path", ["/waiting/research/train-llm-9", "/waiting/ml/train-llm-2"])
def test_a_pod_that_does_not_wait_is_answered_with_all_that_this_can_mean(path: str) -> None:
    document = get_api(path, code=404)
    assert "does not wait for a GPU as of the last step" in document["error"]
    said = "; ".join(document["can_mean"])
    for meaning in ("it runs", "gated", "finished", "no GPU", "after the last step", "no pod of this name"):
        assert meaning in said
    assert "wait behind" not in said


def test_the_404_says_from_which_step_it_is() -> None:
    response = Bench(store=a_full_store()).client().get("/api/v1/waiting/ml/p")
    assert response.headers["Gpu-Autoscaler-Snapshot-At"] == "2026-03-10T14:29:56Z"


def test_a_pod_that_is_bound_to_a_node_is_answered_with_the_node() -> None:
    document = get_api("/waiting/research/train-llm-0", code=404)
    assert document["error"] == "pod research/train-llm-0 does not wait: it is bound to node l40s-0 of GPU pool l40s"
    assert "kubectl describe pod -n research train-llm-0" in document["remedy"]


def test_a_pod_that_may_be_one_of_those_that_are_not_kept_is_answered_so() -> None:
    document = get_api("/waiting/ml/p", showing(waiting_total=812), code=404)
    assert document["can_mean"][0] == "it is one of the 810 waiting pods beyond the 2 stored here"


def test_while_kubernetes_is_silent_nobody_says_that_a_pod_does_not_wait() -> None:
    sources = [{"source": "kubernetes", "up": False, "detail": "timed out", "configured": True}]
    document = get_api("/waiting/ml/p", showing(sources=sources), code=404)
    assert document["error"] == "pod ml/p is not known to wait, and Kubernetes did not answer: timed out"


def test_before_the_first_step_nobody_knows_which_pods_wait() -> None:
    assert "no step has finished yet" in get_api("/waiting/ml/p", MemoryStore(), code=404)["error"]
