"""What is told of Workloads of Kueue, case by case."""

from collections.abc import Callable, Mapping

from receiver.capabilities.kueue_check.notices import unanswered
from receiver.core.notices.notice import Notice

CASES: Mapping[str, Callable[[], Notice]] = {
    "unanswered": lambda: unanswered(
        "Kubernetes API: patch workloads.kueue.x-k8s.io/status failed: 422 the object is invalid",
        ["ml/train", "ml/sweep"],
    ),
}
