"""Annotations on every time series: decisions, actions and alerts."""

from tools.dashboards.model import STEP_SECONDS, Annotation
from tools.dashboards.promql import POOL, growth, told


def _changes(counter: str, by: str, **equal: str) -> str:
    # The window is fixed, because several versions of Grafana compute intervals in annotations wrongly
    # (grafana/grafana#82636, #83058). It is twice the step, so that it covers two scrapes even if they are a minute
    # apart.
    return told(f"sum by ({by}) {growth(counter, POOL, window=f'{2 * STEP_SECONDS}s', **equal)} > 0")


GROWTH = Annotation(
    name="Decided to grow",
    expr=_changes("gpu_autoscaler_decisions_total", "pool, change", change="grow"),
    colour="green",
    title="{{pool_name}}: decided to {{change}}",
    text="For the reasons see the pool's page in the autoscaler.",
)
SHRINKING = Annotation(
    name="Decided to shrink",
    expr=_changes("gpu_autoscaler_decisions_total", "pool, change", change="shrink"),
    colour="orange",
    title="{{pool_name}}: decided to {{change}}",
    text="For the reasons see the pool's page in the autoscaler.",
)
ACTIONS = Annotation(
    name="Ended actions",
    expr=_changes("gpu_autoscaler_actions_total", "pool, kind, outcome"),
    colour="blue",
    title="{{pool_name}}: {{kind}} {{outcome}}",
    text="confirmed: Civo's count has changed, or the nodes are gone. failed: Civo refused, and the pool backs off.",
)
ALERTS = Annotation(
    name="Alerts",
    expr='ALERTS{cluster=~"$cluster", component="gpu-autoscaler", action!="heartbeat", alertstate="firing"}',
    colour="red",
    title="{{alertname}} {{pool_name}}",
    text="For what to do see the runbook {{alertname}}.",
    shown=False,
)
EVERY = (GROWTH, SHRINKING, ACTIONS, ALERTS)
