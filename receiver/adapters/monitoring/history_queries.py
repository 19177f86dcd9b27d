"""What is asked of Prometheus to see again which pods held GPUs: each query looks back over one span.

The selectors are those of ``rules/demand.rules.yaml`` and ``rules/activity.rules.yaml``. Functions over a whole span,
and not samples at its end, see a pod that was there for a single scrape. Pods are told apart by their uid: a
StatefulSet's new pod has the name of the one before it.
"""

from collections.abc import Mapping
from datetime import timedelta

from receiver.core.model.policy import POOL_LABEL

STATE = 'job="kube-state-metrics"'
GPUS = 'resource=~"nvidia_com_(gpu|gpu_shared|mig_.+)"'
BY = "namespace, pod, uid"
OVER = f'kube_pod_status_phase{{{STATE}, phase=~"Succeeded|Failed"}}'
REQUESTS = f"kube_pod_container_resource_requests{{{STATE}, {GPUS}}}"
INITIAL = f"kube_pod_init_container_resource_requests{{{STATE}, {GPUS}}}"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
NVML = "DCGM_FI_DEV_GPU_UTIL"
SCRAPED = f"max(timestamp(up{{{STATE}}}) * (up{{{STATE}}} == 1))"

REQUESTED = "requested"
TIMES = "times"
HELD = "held"
OWNERS = "owners"
OWNERS_OF_JOBS = "owners of Jobs"
TEAMS = "teams"
POOLS = "pools"
USE = "use"


def sanitized(prefix: str, key: str) -> str:
    """Return the label name that kube-state-metrics makes of the Kubernetes label *key*."""
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in key)
    snake = "".join(f"_{c}" if c.isupper() and i and name[i - 1].islower() else c for i, c in enumerate(name))
    return f"{prefix}_{snake.lower()}"


def queries(span: timedelta, step: timedelta, team_label: str) -> Mapping[str, str]:
    """Return the queries by name. *span* is how far each looks back, *step* how closely it looks for the last moment
    at which a pod was there."""
    over, steps = f"[{_seconds(span)}s]", f"[{_seconds(span)}s:{_seconds(step)}s]"
    ours = f"and on ({BY}) (max_over_time({REQUESTS}{over}) or max_over_time({INITIAL}{over}))"
    team, pool = sanitized("label", team_label), sanitized("nodeselector", POOL_LABEL)

    def latest(series: str, by: str = BY) -> str:
        return f"max by ({by}) (max_over_time({series}{over}))"

    def named(of: str, series: str) -> str:
        return f'label_replace({latest(series)}, "of", "{of}", "", "")'

    def use(of: str) -> str:
        either = f"{of}_over_time({ENGINE}{over}) or {of}_over_time({NVML}{over}){' / 100' if of == 'sum' else ''}"
        return f'label_replace({_by_pod(either)}, "of", "{of}", "", "")'

    # accepted by a kubelet and not over: from the pull of its image to its end a pod holds its GPUs
    started = f"timestamp(kube_pod_start_time{{{STATE}}}) and on ({BY}) ({REQUESTS} or {INITIAL})"
    alive = f"{started} unless on ({BY}) {OVER} == 1"
    apps = f"sum by ({BY}, resource) ({latest(REQUESTS, f'{BY}, container, resource')})"
    return {
        REQUESTED: f'label_replace({apps}, "of", "app", "", "")'
        f' or label_replace({latest(INITIAL, f"{BY}, resource")}, "of", "init", "", "")',
        TIMES: "("
        + " or ".join(
            (
                named("created", f"kube_pod_created{{{STATE}}}"),
                named("start", f"kube_pod_start_time{{{STATE}}}"),
                named("completion", f"kube_pod_completion_time{{{STATE}}}"),
                named("over", OVER),
            )
        )
        + f") {ours}",
        HELD: f"max by ({BY}) (max_over_time(({alive}){steps}))",
        OWNERS: latest(f'kube_pod_owner{{{STATE}, owner_is_controller="true"}}', f"{BY}, owner_kind, owner_name")
        + f" {ours}",
        OWNERS_OF_JOBS: latest(
            f'kube_job_owner{{{STATE}, owner_is_controller="true"}}', "namespace, job_name, owner_kind, owner_name"
        ),
        TEAMS: latest(f'kube_pod_labels{{{STATE}, {team}!=""}}', f"{BY}, {team}") + f" {ours}",
        POOLS: latest(f'kube_pod_nodeselectors{{{STATE}, {pool}!=""}}', f"{BY}, {pool}") + f" {ours}",
        USE: f"{use('sum')} or {use('count')}",
    }


def rate_of_scrapes(span: timedelta) -> str:
    """Return the query for how often kube-state-metrics was scraped within *span*."""
    return f"max(count_over_time(up{{{STATE}}}[{_seconds(span)}s]))"


def _by_pod(series: str) -> str:
    """Sum *series* of the exporter over the GPUs of the pods that hold them; those stand in exported_pod, or in pod."""
    named = f'label_replace({series}, "namespace", "$1", "exported_namespace", "(.+)")'
    return f'sum by (namespace, pod) (label_replace({named}, "pod", "$1", "exported_pod", "(.+)"))'


def _seconds(length: timedelta) -> int:
    return max(1, round(length.total_seconds()))
