"""Kueue's quota and flavors beside the configured pools."""

from receiver.doctor.checks import Finding, Installation
from receiver.doctor.kueue import AREA
from receiver.doctor.rounds import go_round
from tests.doctor.builders import document
from tests.doctor.cluster import a_cluster_queue, a_flavor, install_kueue, put, well_kept
from tests.doctor.conftest import Told
from tests.simulator.builders import Starter


def found(installation: Installation) -> dict[str, Finding]:
    """Return what is no pass, by check."""
    ((_, findings),) = go_round([AREA], installation)
    return {f.check: f for f in findings if f.verdict != "pass"}


def test_a_quota_that_the_pools_can_hold_raises_no_alarm(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    install_kueue(sim, a_flavor(), a_cluster_queue(2), a_cluster_queue("2", name="more"))
    hold = {"monthly_usd": 5000, "hold": {"kueue_cluster_queues": ["gpus"]}}
    assert found(told(sim, document(budget=hold))) == {}


def test_without_kueue_everything_is_skipped_and_a_queue_that_the_hold_names_fails(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    assert {f.verdict for f in found(told(sim)).values()} == {"skip"}
    hold = {"monthly_usd": 5000, "hold": {"kueue_cluster_queues": ["gpus"]}}
    finding = found(told(sim, document(budget=hold)))["kueue.held_queues"]
    assert finding.verdict == "fail"
    assert "kueue_cluster_queues" in finding.remedy


def test_a_quota_beyond_the_maxima_is_warned_of_over_all_queues(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    install_kueue(sim, a_flavor(), a_cluster_queue(3), a_cluster_queue(2, name="more"))
    finding = found(told(sim))["kueue.quota"]
    assert finding.verdict == "warn"
    assert "flavor l40s may admit 5 nvidia.com/gpu, but l40s can have 4" in finding.said
    assert "nominalQuota" in finding.remedy


def test_a_flavor_whose_labels_no_pool_has_fails(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    install_kueue(sim, a_flavor(gpu="spot"), a_cluster_queue(2))
    finding = found(told(sim))["kueue.flavors"]
    assert finding.verdict == "fail"
    assert "flavor l40s (gpu=spot) fits no configured pool" in finding.said


def test_a_queue_of_a_flavor_that_does_not_exist_fails(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    install_kueue(sim, a_flavor("other"), a_cluster_queue(2))
    assert "flavor l40s does not exist" in found(told(sim))["kueue.flavors"].said


def test_a_queue_that_is_configured_to_count_needs_kueue(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    queued = document(kueue={"demand": "queued"})
    finding = found(told(sim, queued))["kueue.demand"]
    assert (finding.verdict, finding.said) == ("fail", "kueue.demand is queued, without Kueue")
    install_kueue(sim, a_flavor(), a_cluster_queue(2))
    assert "kueue.demand" not in found(told(sim, queued))


def test_a_kueue_that_knows_no_delay_of_a_retry_is_warned_of(start: Starter, told: Told) -> None:
    sim = well_kept(start)
    put(sim, {"apiVersion": "kueue.x-k8s.io/v1beta1", **a_flavor()})
    finding = found(told(sim))["kueue.age"]
    assert (finding.verdict, "0.15" in finding.remedy) == ("warn", True)
