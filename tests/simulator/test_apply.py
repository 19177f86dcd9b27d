"""Server-side apply on the simulator's objects, as the API server merges it."""

from typing import Any

from simulator.kubernetes_apply import applied

WORKLOAD: dict[str, Any] = {"metadata": {"name": "w", "resourceVersion": "3"}, "spec": {"active": True}}


def checks(*given: dict[str, Any]) -> dict[str, Any]:
    """A patch of these entries."""
    return {"apiVersion": "v1", "kind": "Workload", "metadata": {}, "status": {"admissionChecks": list(given)}}


def of(found: dict[str, Any]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = found["status"]["admissionChecks"]
    return entries


def test_entries_of_others_stay_and_the_same_key_is_one_entry() -> None:
    before = {**WORKLOAD, **checks({"name": "theirs", "state": "Ready"}, {"name": "ours", "state": "Pending"})}
    before["metadata"] = WORKLOAD["metadata"]
    found = applied(before, checks({"name": "ours", "state": "Retry"}), "us")
    assert of(found) == [{"name": "theirs", "state": "Ready"}, {"name": "ours", "state": "Retry"}]
    assert found["spec"] == {"active": True}


def test_what_a_manager_leaves_out_goes() -> None:
    once = applied(WORKLOAD, checks({"name": "ours", "state": "Retry", "requeueAfterSeconds": 300}), "us")
    again = applied(once, checks({"name": "ours", "state": "Ready"}), "us")
    assert of(again) == [{"name": "ours", "state": "Ready"}]
    assert of(applied(again, checks(), "us")) == []


def test_what_another_manager_owns_stays() -> None:
    once = applied(WORKLOAD, checks({"name": "ours", "state": "Retry"}), "us")
    kueue = applied(once, checks({"name": "ours", "retryCount": 1}), "kueue")
    assert of(applied(kueue, checks(), "us")) == [{"name": "ours", "retryCount": 1}]


def test_a_version_in_the_patch_is_kept_for_the_check_of_conflicts() -> None:
    patch = {"metadata": {"name": "w", "resourceVersion": "2", "uid": "u"}}
    assert applied(WORKLOAD, patch, "us")["metadata"]["resourceVersion"] == "2"
