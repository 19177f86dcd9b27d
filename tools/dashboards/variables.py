"""The variables at the top of a dashboard."""

from typing import Any

from tools.dashboards.promql import of

JSON = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def datasource() -> JSON:
    """Return the variable that chooses the Prometheus."""
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "regex": "",
        "current": {"selected": True, "text": "default", "value": "default"},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "refresh": 1,
        "options": [],
    }


def cluster() -> JSON:
    """Return the variable that chooses a cluster; where no series has that label, "All" is the only choice."""
    return chosen("cluster", "Cluster", "label_values(kube_node_info, cluster)")


def chosen(name: str, label: str, query: str, regex: str = "") -> JSON:
    """Return a variable with what *query* finds. "All" is `.*`, which also takes series without the label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": f"Variable-{name}"},
        "regex": regex,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "skipUrlSync": False,
        "options": [],
    }


def typed(name: str, label: str, value: str) -> JSON:
    """Return a variable that users type."""
    option = {"selected": True, "text": value, "value": value}
    return {
        "name": name,
        "label": label,
        "type": "textbox",
        "query": value,
        "current": option,
        "options": [option],
        "hide": 0,
        "skipUrlSync": False,
    }


def pools() -> JSON:
    """Return the variable that chooses pools: shown by name where the receiver tells it, else by Civo's id."""
    names = f"group by (pool, pool_name) ({of('pool:gpu_autoscaler_pool_info:latest')})"
    seen = f"group by (pool) ({of('node_pool:kube_node_labels:relabel')})"
    by_id = f'label_replace({seen}, "pool_name", "$1", "pool", "(.+)")'
    regex = '/pool="(?<value>[^"]+)".*pool_name="(?<text>[^"]+)"/'
    return chosen("pool", "Pool", f"query_result({names} or on (pool) {by_id})", regex)


def namespaces() -> JSON:
    """Return the variable that chooses namespaces with GPU pods."""
    return chosen("namespace", "Namespace", f"label_values({of('namespace_pod:gpu_requests:sum')}, namespace)")
