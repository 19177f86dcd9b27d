"""Names that everything of a run carries, so that it is known and removed as such."""

from typing import Any

NAMESPACE = "gpu-autoscaler-conformance"
MARK = "conformance.gpu-autoscaler.io/run"  # label of every object that a run creates, nodes included
MARKED = f"{MARK}=true"
GPU = "nvidia.com/gpu"
POOL = "c04f0000-0000-4000-8000-0000000000a1"
CLUSTER_ID = "c1a55e5e-0000-4000-8000-00000000c04f"
REGION = "LON1"
SIZE = "an.g1.l40s.kube.x1"
PRICE = "1.29"  # USD per node-hour
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
LABELS = {MARK: "true"}
# Pods and DaemonSets of others do not tolerate it, unless they tolerate everything.
TAINT: dict[str, Any] = {"key": MARK, "value": "true", "effect": "NoSchedule"}
TOLERATION = {"key": MARK, "operator": "Exists", "effect": "NoSchedule"}
RUNS_FOR = "simulator/duration-seconds"  # how long a pod runs until it has succeeded; without it until it is deleted
