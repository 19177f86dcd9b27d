"""What Prometheus has stored of kube-state-metrics, the DCGM exporter and ourselves."""

from collections.abc import Iterator

from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.config.version import installed_version
from receiver.doctor import dcgm, kube_state_metrics, own_metrics
from receiver.doctor.area import Area, Installation
from receiver.doctor.finding import Finding

QUERIES = {**kube_state_metrics.QUERIES, **dcgm.QUERIES, **own_metrics.QUERIES}


def look(installation: Installation) -> Iterator[Finding]:
    """Yield what is stored in the configured Prometheus, or in what stands in for it."""
    url = installation.settings.configuration.prometheus.url
    if url is None:
        yield kube_state_metrics.ONE.skipped("prometheus.url is not set")
        return
    with MonitoringApi("Prometheus", url, installation.clock, installation.timeouts) as api:
        answers = {name: api.vector(query) for name, query in QUERIES.items()}
    pools = {pool.id: pool.name for pool in installation.settings.policy.pools}
    yield from kube_state_metrics.judge(answers, pools)
    yield from dcgm.judge(answers, pools)
    yield from own_metrics.judge(answers, installed_version())


AREA = Area(
    name="telemetry",
    source="Prometheus",
    checks=(*kube_state_metrics.CHECKS, *dcgm.CHECKS, *own_metrics.CHECKS),
    look=look,
    remedy="check prometheus.url and that this pod may reach it (NetworkPolicy): without Prometheus no node is removed",
)
