"""Civo as the doctor sees it: each fault is planted into a healthy region, found, named and given its remedy."""

from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.survey import COUNTED, SizeAtCivo
from receiver.doctor.checks import Finding
from receiver.doctor.civo import AREA, at_civo, offered, quota
from receiver.doctor.rounds import go_round
from receiver.ports import CloudPool
from simulator.server import Simulator
from tests.doctor.builders import document, installation, pool
from tests.doctor.conftest import Told
from tests.simulator.builders import CPU_POOL, GPU_POOL, Starter

TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}


def seen(installation: Any) -> list[Finding]:
    """Return what the area came to, passes left out."""
    ((_, found),) = go_round([AREA], installation)
    return [f for f in found if f.verdict != "pass"]


def only(installation: Any) -> Finding:
    """Return the one finding that is no pass."""
    (finding,) = seen(installation)
    return finding


def test_a_healthy_account_raises_no_alarm_and_passes_every_check(sim: Simulator, told: Told) -> None:
    ((_, found),) = go_round([AREA], told(sim))
    assert [f for f in found if f.verdict != "pass"] == []
    assert {f.check for f in found} == {check.name for check in AREA.checks}


def test_nothing_but_reads_is_sent(sim: Simulator, told: Told) -> None:
    seen(told(sim))
    assert {entry["method"] for entry in sim.log.entries()} == {"GET"}


@pytest.mark.parametrize(
    "variable, value, check, verdicts",
    [
        ("CIVO_API_KEY", "another-key-0123456", "civo.key", ["fail", "skip", "skip"]),
        ("CIVO_REGION", "MARS1", "civo.region", ["fail", "skip"]),
        ("CIVO_CLUSTER_ID", "c0000000-0000-4000-8000-000000000009", "civo.cluster", ["fail"]),
    ],
)
def test_a_wrong_variable_fails_by_name(
    sim: Simulator, told: Told, variable: str, value: str, check: str, verdicts: list[str]
) -> None:
    found = seen(told(sim, **{variable: value}))
    assert found[0].check == check
    assert [f.verdict for f in found] == verdicts
    assert variable in found[0].remedy
    assert value not in found[0].said or variable != "CIVO_API_KEY"


def test_a_civo_that_cannot_be_reached_fails_as_a_whole(told: Told, sim: Simulator) -> None:
    installation = told(sim)
    sim.fault(kind="error", face="civo", status=503, times=None)
    finding = only(installation)
    assert (finding.check, finding.verdict) == ("civo.answers", "fail")
    assert "egress" in finding.remedy


def test_a_pool_that_is_not_there_is_named_beside_those_that_are(sim: Simulator, told: Told) -> None:
    finding = only(told(sim, document(pools=[pool(), pool(name="a100", civo_pool_id="pool-gone")])))
    assert (finding.check, finding.verdict) == ("civo.pools", "fail")
    assert "a100 (pool-gone)" in finding.said
    assert f"{CPU_POOL} (g4s.kube.medium, 0 nodes)" in finding.said
    assert "civo_pool_id" in finding.remedy


def test_a_size_that_differs_fails(sim: Simulator, told: Told) -> None:
    findings = seen(told(sim, document(pools=[pool(size="an.g1.l40s.kube.x2", resources={"nvidia.com/gpu": 2})])))
    assert [f.check for f in findings] == ["civo.pool_size"]
    assert "are an.g1.l40s.kube.x1 at Civo" in findings[0].said


def test_gpus_that_the_size_has_not_fail(sim: Simulator, told: Told) -> None:
    finding = only(told(sim, document(pools=[pool(resources={"nvidia.com/gpu": 4})])))
    assert (finding.check, finding.verdict) == ("civo.pool_gpus", "fail")
    assert "has 1 GPU at Civo, and 4 in the configuration" in finding.said


def test_shared_gpus_are_not_compared_and_that_is_said(sim: Simulator, told: Told) -> None:
    finding = only(told(sim, document(pools=[pool(resources={"nvidia.com/gpu.shared": 4})])))
    assert (finding.check, finding.verdict) == ("civo.pool_gpus", "skip")


def test_a_size_that_nobody_prices_fails(start: Starter, told: Told) -> None:
    sim = start(pools=[{**_gpu_pool(), "size": "an.g9.b200.kube.x1"}])
    findings = seen(told(sim, document(pools=[pool(size="an.g9.b200.kube.x1")])))
    assert [(f.check, f.verdict) for f in findings] == [("civo.prices", "fail")]
    assert "price_usd_per_hour" in findings[0].remedy


@pytest.mark.parametrize(
    "changes, check, verdict, words",
    [
        ({"labels": {}}, "civo.pool_labels", "fail", "lacks at Civo: gpu=on-demand"),
        ({"labels": {"gpu": "spot"}}, "civo.pool_labels", "fail", "lacks at Civo: gpu=on-demand"),
        ({"labels": {"gpu": "on-demand", "x": "y"}}, "civo.pool_labels", "warn", "not configured: x=y"),
        ({"taints": [TAINT, {**TAINT, "key": "b"}]}, "civo.pool_taints", "fail", "not configured: b=true:NoSchedule"),
        ({"taints": [{**TAINT, "value": "no"}]}, "civo.pool_taints", "fail", "not configured: gpu=no:NoSchedule"),
    ],
)
def test_a_pool_that_differs_at_civo_is_told(
    start: Starter, told: Told, changes: dict[str, Any], check: str, verdict: str, words: str
) -> None:
    sim = start(pools=[{**_gpu_pool(), **changes}])
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == (check, verdict)
    assert words in finding.said
    assert finding.remedy


def test_labels_that_an_answer_leaves_out_are_not_taken_for_none(tmp_path: Path) -> None:
    bare = CloudPool(id=GPU_POOL, size="an.g1.l40s.kube.x1", required=1)
    findings = list(at_civo(installation(tmp_path).settings.policy.pools, {GPU_POOL: bare}, {}))
    untold = {f.check for f in findings if f.verdict == "skip"}
    assert untold == {"civo.pool_labels", "civo.pool_taints"}


def test_what_an_answer_leaves_out_is_not_called_equal_where_nothing_is_configured(tmp_path: Path) -> None:
    bare = CloudPool(id=GPU_POOL, size="an.g1.l40s.kube.x1", required=1)
    told = installation(tmp_path, document(pools=[pool(labels={}, taints=[])]))
    found = [
        f for f in at_civo(told.settings.policy.pools, {GPU_POOL: bare}, {}) if f.check.endswith(("labels", "taints"))
    ]
    assert [(f.verdict, f.said) for f in found] == [("pass", "pool l40s: none configured, and Civo returns none")] * 2


def test_a_pool_whose_size_civo_does_not_list_is_not_said_to_fit_into_the_quota(tmp_path: Path) -> None:
    pools = [pool(), pool(name="new", civo_pool_id="p-2", size="an.g9.kube.x1", price_usd_per_hour=1)]
    policy = installation(tmp_path, document(pools=pools)).settings.policy
    size = SizeAtCivo(takes=dict.fromkeys(COUNTED, 1), gpus=1, selectable=True)
    (finding,) = quota(policy, {}, {"an.g1.l40s.kube.x1": size}, {"instance_count": 100})
    assert finding.verdict == "skip"
    assert "new (an.g9.kube.x1)" in finding.said


def _gpu_pool() -> dict[str, Any]:
    return {
        "id": GPU_POOL,
        "size": "an.g1.l40s.kube.x1",
        "resources": {"nvidia.com/gpu": 1},
        "labels": {"gpu": "on-demand"},
        "taints": [TAINT],
        "count": 1,
    }


def test_a_size_that_is_withdrawn_or_unknown_is_warned_of(tmp_path: Path) -> None:
    pools = installation(tmp_path).settings.policy.pools
    size = SizeAtCivo(takes=dict.fromkeys(COUNTED, 1), gpus=1, selectable=False)
    withdrawn = [f for f in offered(pools, {pools[0].size: size}) if f.verdict == "warn"]
    unknown = [f for f in offered(pools, {}) if f.verdict == "warn"]
    assert [f.check for f in (*withdrawn, *unknown)] == ["civo.size_offered"] * 2
    assert "does not offer" in withdrawn[0].said
    assert "lists no size" in unknown[0].said


def test_what_we_put_on_nodes_need_not_be_at_civo(start: Starter, told: Told) -> None:
    sim = start(pools=[{**_gpu_pool(), "labels": {}, "taints": []}])
    assert seen(told(sim, document(pools=[pool(apply_to_nodes=True)]))) == []


def test_a_quota_for_not_one_node_more_fails(start: Starter, told: Told) -> None:
    sim = start(quota={"ram_mb": 32768})  # what a new account has, by Civo's own screenshot
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("civo.quota", "fail")
    assert "no further node of pool l40s" in finding.said
    assert "raise the quota" in finding.remedy


def test_a_quota_below_the_maxima_is_warned_of(start: Starter, told: Told) -> None:
    sim = start(quota={"instance_count": 3})
    finding = only(told(sim))
    assert (finding.check, finding.verdict) == ("civo.quota", "warn")
    assert "3 more instances needed to reach every max_nodes, 2 left" in finding.said


def test_a_quota_that_the_limit_on_gpus_keeps_within_is_fine(start: Starter, told: Told) -> None:
    sim = start(quota={"instance_count": 3})
    assert seen(told(sim, document(limits={"max_gpus": 3}))) == []


@pytest.mark.parametrize(
    "path, checks",
    [
        ("/v2/sizes", ["civo.quota"]),
        ("/v2/quota", ["civo.quota"]),
        ("/v2/charges", ["civo.charges"]),
    ],
)
def test_an_answer_that_is_refused_hides_no_other(sim: Simulator, told: Told, path: str, checks: list[str]) -> None:
    installation = told(sim)
    sim.fault(kind="error", face="civo", status=403, code="account_not_enabled_for_this", path=path, times=None)
    findings = seen(installation)
    assert [f.check for f in findings] == checks
    assert findings[0].verdict == "warn"
