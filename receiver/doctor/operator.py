"""The GPU operator: its DaemonSets, and whether they may run on the nodes of our pools. Pure judgements."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from receiver.adapters.kubernetes.nodes import entries, section
from receiver.adapters.survey.cluster import SeenPod
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Policy
from receiver.core.scaling.demand import tolerates
from receiver.doctor.civo_pools import shown
from receiver.doctor.finding import Check, Finding

OPERATOR = Check(
    "kubernetes.gpu_operator",
    "whether the NVIDIA device plugin and the DCGM exporter are installed (the GPU operator brings both)",
    ("warn", "fail", "skip"),
    "install the GPU operator (docs/getting-started.md): without the device plugin no node ever offers a GPU",
)
TOLERATIONS = Check(
    "kubernetes.operator_tolerations",
    "whether the operator's DaemonSets tolerate the taints of every configured pool",
    ("warn", "fail", "skip"),
    "give the pool's taint to daemonsets.tolerations and node-feature-discovery.worker.tolerations of the operator's "
    "chart (docs/operations.md, Before the first start)",
)
PLUGIN, EXPORTER = "nvidia-device-plugin", "dcgm-exporter"
PARTS = (PLUGIN, EXPORTER, "nvidia-driver", "nvidia-container-toolkit", "gpu-feature-discovery")

# It finds the GPU and labels the node; the operator's own DaemonSets select nodes by that label.
DISCOVERY = "node-feature-discovery-worker"
LABELS_MISSING = "the node gets no label that it has a GPU, and the operator's DaemonSets select by that"


def installed(names: Sequence[str], where: str) -> Finding:
    """Judge the *names* of DaemonSets, which *where* told."""
    plugin, exporter = (any(part in name for name in names) for part in (PLUGIN, EXPORTER))
    if not plugin:
        return OPERATOR.failed(f"no DaemonSet of the NVIDIA device plugin among {where}")
    if not exporter:
        said = f"no DaemonSet of the DCGM exporter among {where}: nobody tells how busy GPUs are"
        return OPERATOR.warned(said, "switch it on in the GPU operator's chart (dcgmExporter.enabled)")
    return OPERATOR.passed("the device plugin and the DCGM exporter are installed")


def by_pods(pods: Sequence[SeenPod]) -> Finding:
    """Judge by the pods of DaemonSets alone: without GPU nodes there are none, and that says nothing."""
    names = sorted({pod.daemon for pod in pods if any(part in pod.daemon for part in PARTS)})
    if not names:
        said = "DaemonSets may not be listed and no pod of the operator runs (the optional role of k8s/doctor helps)"
        return OPERATOR.skipped(said)
    return installed(names, "those with pods")


def tolerations(daemon_sets: Sequence[Mapping[str, Any]], policy: Policy) -> Iterator[Finding]:
    """Find taints of pools that keep a DaemonSet of the operator away."""
    found = there = False
    for raw in daemon_sets:
        name = str(section(raw, "metadata").get("name"))
        discovers = DISCOVERY in name
        if not discovers and not any(part in name for part in PARTS):
            continue
        there = there or not discovers
        pod = section(section(section(raw, "spec"), "template"), "spec")
        given = [_toleration(t) for t in entries(pod, "tolerations")]
        for pool in policy.pools:
            hard = [taint for taint in pool.taints if taint.effect != "PreferNoSchedule"]
            kept_away = [shown(taint) for taint in hard if not any(tolerates(t, taint) for t in given)]
            if kept_away:
                found = True
                said = (
                    f"DaemonSet {name} does not tolerate {', '.join(kept_away)}, so it never comes to pool {pool.name}"
                )
                # Another installation of it may be meant for other nodes.
                yield TOLERATIONS.warned(f"{said}; {LABELS_MISSING}") if discovers else TOLERATIONS.failed(said)
    if not found and not there:
        yield TOLERATIONS.skipped("no DaemonSet of the operator is there")
    elif not found:
        yield TOLERATIONS.passed("the operator's DaemonSets tolerate the taints of every configured pool")


def _toleration(raw: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=str(raw.get("key") or ""),
        operator=str(raw.get("operator") or "Equal"),
        value=str(raw.get("value") or ""),
        effect=str(raw.get("effect") or ""),
    )
