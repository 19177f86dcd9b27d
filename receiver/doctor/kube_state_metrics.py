"""kube-state-metrics as Prometheus has stored it: one of it, with the objects' own labels and those that rules need."""

from collections.abc import Iterator, Mapping, Sequence

from receiver.adapters.monitoring.http_apis import Sample
from receiver.core.model.policy import POOL_LABEL
from receiver.core.model.text import some
from receiver.doctor.finding import Check, Finding
from receiver.doctor.rules import asleep_without, read_by_rules
from receiver.doctor.told import few

Answers = Mapping[str, Sequence[Sample]]
JOB = 'job="kube-state-metrics"'
# Of what the rules read, what a cluster may have none of: it says nothing when it is missing.
SOMETIMES = frozenset(
    {
        "kube_node_labels",
        "kube_pod_deletion_timestamp",
        "kube_pod_init_container_resource_requests",
        "kube_pod_nodeselectors",
        "kube_pod_status_reason",
        "kube_pod_status_unschedulable",
        "kube_replicaset_owner",
    }
)
POOL = "label_kubernetes_civo_com_civo_node_pool"  # of POOL_LABEL, as kube-state-metrics writes it
ALWAYS = tuple(name for name in read_by_rules("kube_") if name not in SOMETIMES)

QUERIES: Mapping[str, str] = {
    "ksm up": f"up{{{JOB}}}",
    "ksm jobs": "count by (job) (kube_node_info)",
    "ksm nodes": f"count by (node, instance) (kube_node_info{{{JOB}}})",
    "ksm renamed": 'count by (job) (kube_pod_info{exported_pod!=""})',
    "ksm pools": f"count by (node, {POOL}) (kube_node_labels{{{JOB}}})",
    "ksm pods": f"count(kube_pod_info{{{JOB}}})",
    "ksm selectors": f"count(kube_pod_nodeselectors{{{JOB}}})",
    "ksm shards": "max(kube_state_metrics_total_shards)",
    "ksm metrics": f'count by (__name__) ({{{JOB}, __name__=~"{"|".join(ALWAYS)}"}})',
}

SCRAPED = Check(
    "telemetry.kube_state_metrics",
    "whether Prometheus scrapes kube-state-metrics under the job that the rules select",
    ("warn", "fail"),
    'scrape it with job="kube-state-metrics" (kube-prometheus-stack does); without it nobody is seen to wait',
)
ONE = Check(
    "telemetry.kube_state_metrics_once",
    "whether there is one kube-state-metrics: two show everything twice, and of shards each shows a part",
    ("warn", "skip"),
    "run one replica of it and scrape it by one job; of shards scrape every one, and alert when one is down",
)
LABELS = Check(
    "telemetry.kube_state_metrics_labels",
    "whether its series keep `namespace` and `pod` of the object (`honor_labels: true`)",
    ("fail", "skip"),
    "set honorLabels: true in its ServiceMonitor, or honor_labels: true in the scrape job",
)
ALLOWED = Check(
    "telemetry.node_pool_label",
    "whether kube_node_labels carries the label that says in which pool a node is",
    ("warn", "fail", "skip"),
    f"start kube-state-metrics with --metric-labels-allowlist=nodes=[{POOL_LABEL}] (metricLabelsAllowlist in Helm)",
)
SELECTORS = Check(
    "telemetry.node_selectors",
    "whether kube_pod_nodeselectors is exported, by which alerts name the pool that a pod waits for",
    ("warn", "skip"),
    "start kube-state-metrics with --metric-opt-in-list=kube_pod_nodeselectors (extraArgs in Helm)",
)
FAMILIES = Check(
    "telemetry.kube_state_metrics_families",
    "whether it exports the metrics that the rules read, as far as every cluster has them",
    ("warn", "skip"),
    "start it without a --metric-allowlist or --metric-denylist that leaves them out, and scrape it without"
    " metricRelabelings that drop them",
)
CHECKS = (SCRAPED, ONE, LABELS, ALLOWED, SELECTORS, FAMILIES)


def judge(answers: Answers, pools: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what the *answers* to `QUERIES` say; *pools* are the names by id that are configured."""
    found = scraped(answers)
    yield found
    if found.verdict == "fail":
        return
    yield once(answers)
    yield labels(answers)
    yield allowed(answers, pools)
    yield selectors(answers)
    yield exported(answers)


def scraped(answers: Answers) -> Finding:
    """Say whether it is scraped, and under which job otherwise."""
    up = {sample.labels.get("instance") for sample in answers["ksm up"] if sample.value == 1}
    others = [s.labels.get("job", "") for s in answers["ksm jobs"] if s.labels.get("job") != "kube-state-metrics"]
    if up:
        return SCRAPED.passed(f"{some(len(up), 'instance')} scraped")
    if answers["ksm up"]:
        return SCRAPED.failed("kube-state-metrics does not answer its scrapes")
    if others:
        return SCRAPED.failed(f'it is scraped as job="{others[0]}", and the rules select job="kube-state-metrics"')
    return SCRAPED.failed("no target has the job kube-state-metrics")


def once(answers: Answers) -> Finding:
    """Say whether several instances show the same nodes, or different ones."""
    instances: dict[str, set[str]] = {}
    for sample in answers["ksm nodes"]:
        instances.setdefault(sample.labels.get("node", ""), set()).add(sample.labels.get("instance", ""))
    twice = [node for node, seen in instances.items() if len(seen) > 1]
    if twice:
        return ONE.warned(f"{some(len(twice), 'node')} shown by more than one instance: {few(twice)}")
    up = len({sample.labels.get("instance") for sample in answers["ksm up"] if sample.value == 1})
    total = int(max((sample.value for sample in answers["ksm shards"]), default=1))
    if total > 1 or up > 1:
        counted = f"{up} of {total} shards answer" if total > 1 else f"{up} instances show different objects"
        return ONE.warned(f"it is sharded: {counted}; what a missing one knows looks as if it were not there")
    return ONE.passed("one instance shows every node once")


def labels(answers: Answers) -> Finding:
    """Say whether labels of objects were renamed to exported_*."""
    if answers["ksm renamed"]:
        return LABELS.failed("pods stand in exported_pod: namespace and pod are those of kube-state-metrics itself")
    if not answers["ksm pods"]:
        return LABELS.skipped("it shows no pod")
    return LABELS.passed("namespace and pod are the objects' own")


def allowed(answers: Answers, pools: Mapping[str, str]) -> Finding:
    """Say whether nodes carry the label of their pool."""
    nodes = {sample.labels.get("node", "") for sample in answers["ksm nodes"]}
    known = {sample.labels.get("node", ""): sample.labels.get(POOL, "") for sample in answers["ksm pools"]}
    if not nodes:
        return ALLOWED.skipped("it shows no node")
    if not any(known.values()):
        why = "kube_node_labels is not exported at all" if not known else "kube_node_labels has no label of the pool"
        return ALLOWED.failed(f"{why}, so no node is known to be in a pool")
    without = sorted(node for node in nodes if not known.get(node))
    if without:
        said = f"{some(len(without), 'node')} without the label {POOL_LABEL}: {few(without)}"
        return ALLOWED.warned(said, "Civo puts it on; if somebody removed it, recycle the node")
    seen = sorted(name for pool, name in pools.items() if pool in known.values())
    return ALLOWED.passed(
        f"{some(len(nodes), 'node')}, each with its pool; of ours with nodes now: {few(seen) or 'none'}"
    )


def selectors(answers: Answers) -> Finding:
    """Say whether node selectors of pods are exported."""
    if not answers["ksm pods"]:
        return SELECTORS.skipped("it shows no pod")
    if not answers["ksm selectors"]:
        return SELECTORS.warned("kube_pod_nodeselectors is not exported, so alerts say pool=unassigned")
    return SELECTORS.passed("kube_pod_nodeselectors is exported")


def exported(answers: Answers) -> Finding:
    """Say which metrics that rules read are not there, though every cluster with nodes and pods has them."""
    if not answers["ksm pods"] or not answers["ksm nodes"]:
        return FAMILIES.skipped("it shows no pod, or no node")
    there = {sample.labels.get("__name__") for sample in answers["ksm metrics"]}
    missing = [name for name in ALWAYS if name not in there]
    if missing:
        silent = asleep_without(missing)
        hurt = f"; without it cannot fire: {few(silent)}" if silent else ""
        return FAMILIES.warned(f"not exported: {few(missing)}{hurt}")
    return FAMILIES.passed(f"{some(len(ALWAYS), 'metric')} that every cluster has are there")
