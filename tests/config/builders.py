"""A file that is right, so that a test writes only what it is about."""

POOL = """
  - name: l40s
    civo_pool_id: 5f3c
    size: an.g1.l40s.kube.x1
    resources: {nvidia.com/gpu: 1}
    max_nodes: 8
"""
QUIET = """budget: {monthly_usd: 5000}
prometheus: {url: http://prometheus:9090}
alertmanager: {urls: [http://alertmanager:9093]}
"""  # nothing to warn of

ENVIRONMENT = {
    "CIVO_API_KEY": "civo-key-that-nobody-may-see",
    "CIVO_REGION": "LON1",
    "CIVO_CLUSTER_ID": "cluster-1",
    "GPU_AUTOSCALER_WEBHOOK_TOKEN": "webhook-token-of-thirty-two-chars",
}


def one_pool(*lines: str, top: str = QUIET, pool: str = POOL) -> str:
    """A file with one pool, more *lines* in it, and *top* before it."""
    return f"{top}pools:{pool}" + "".join(f"    {line}\n" for line in lines)
