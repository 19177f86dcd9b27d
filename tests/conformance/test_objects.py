"""Everything that a run creates is as Kubernetes' own schema has it, strictly, and carries the label of a run."""

from datetime import UTC, datetime, timedelta

from conformance.civo import simulated
from conformance.cluster import Cluster
from conformance.hollow_nodes import HollowNodes
from conformance.plan import MARK, POOL
from conformance.rights import create_account
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.conformance.fakes import FakeApi
from tests.lint import none_of
from tests.manifests.built import mistakes

VERSIONS = ("1.34", "1.37")
BESIDE = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Namespace"}


def test_every_object_is_valid_and_marked() -> None:
    api = FakeApi()
    cluster = Cluster(api, POOL)
    cluster.begin()
    token = create_account(api)
    cluster.pod("pod", annotations={"gpu-autoscaler.io/gang": "ring"})
    cluster.job("job", pods=2)
    cluster.deployment("deployment", gpus=0)
    cluster.disruption_budget("budget", "deployment")
    cluster.claim_template("template")
    cluster.claiming_pod("claiming", "template")
    civo = Simulator(simulated(pool={"count": 1, "dra": True}).config, ManualClock(datetime(2026, 11, 2, tzinfo=UTC)))
    civo.live.turn(timedelta(minutes=1))
    hollow = HollowNodes(civo, api, "stub")
    hollow.turn()
    kinds = {one["kind"] for one in api.objects.values()}
    assert kinds == BESIDE | {
        *("Pod", "Job", "Deployment", "PodDisruptionBudget", "ResourceClaimTemplate"),
        *("Node", "Lease", "ResourceSlice", "DeviceClass"),
    }
    none_of(filter(None, (mistakes(one, version) for one in api.objects.values() for version in VERSIONS)))
    none_of(path for path, one in api.objects.items() if one["metadata"]["labels"].get(MARK) != "true")
    assert token.startswith("token of /api/v1/namespaces/gpu-autoscaler-conformance/serviceaccounts/")
