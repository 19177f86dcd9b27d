"""What is told of work that may wait, case by case."""

from collections.abc import Callable, Mapping

from receiver.capabilities.patience.chore import not_admitted
from receiver.core.notices.notice import Notice
from tests.core.builders import a_pod

CASES: Mapping[str, Callable[[], Notice]] = {
    "not_admitted": lambda: not_admitted(
        'Kubernetes API: patch pods failed: 403 forbidden: grant the verb "patch" on "pods" in the ClusterRole (RBAC)',
        [a_pod("train-0"), a_pod("train-1")],
    ),
}
