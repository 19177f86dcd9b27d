"""What is told of other installations in the cluster, case by case."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from receiver.core.model.installations import InstallationLease, OtherInstallations
from receiver.core.model.policy import Pool
from receiver.core.notices.concerns import notices_of
from receiver.core.notices.installation_concerns import of_others, refused
from receiver.core.notices.notice import Concern, Notice
from tests.core.builders import NOW
from tests.core.notices.scene import H100, L40S, POLICY

A100 = Pool(id="a100-id", name="a100", size="an.g1.a100.kube.x1", resources={"nvidia.com/gpu": 1}, max_nodes=2)


def another(*pools: Pool, minutes: int = 0) -> OtherInstallations:
    """An installation of the research team that renewed its Lease so many minutes ago."""
    at = NOW - timedelta(minutes=minutes)
    found = InstallationLease(key="research/gpu-autoscaler-5f3c77aa01", release="0.2.0", pools=pools, renewed_at=at)
    return OtherInstallations(own="gpu-autoscaler/gpu-autoscaler-1234567890", installations=(found,))


def _notice(concern: Concern) -> Notice:
    (notice,) = notices_of([concern], POLICY, NOW)
    return notice


def _only(others: OtherInstallations) -> Notice:
    (concern,) = of_others(others, POLICY, NOW)
    return _notice(concern)


FORBIDDEN = 'Kubernetes API: list leases failed: 403 leases is forbidden: grant the verb "list" on "leases"'
CASES: Mapping[str, Callable[[], Notice]] = {
    "installation_beside": lambda: _only(another(A100)),
    "installation_with_the_same_pool": lambda: _only(another(A100, L40S)),
    "installation_with_the_same_pools": lambda: _only(another(L40S, H100)),
    "installations_not_readable": lambda: _notice(refused(FORBIDDEN)),
}
