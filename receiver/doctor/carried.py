"""Which labels our alerts carry when they come to Alertmanager: those of the rules, of Prometheus, and of pools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from receiver.core.model.model import SignalAction
from receiver.core.model.silences import COMPONENT
from receiver.doctor.running_rules import RunningRule
from receiver.doctor.shipped import ShippedRule

NOTIFY = SignalAction.NOTIFY.value
HEARTBEAT = SignalAction.HEARTBEAT.value


@dataclass(frozen=True, slots=True)
class Carried:
    """An alert by *name* with its *action*, and the sets of labels with which it may come."""

    name: str
    action: str
    labels: tuple[Mapping[str, str], ...]

    @property
    def acts(self) -> bool:
        """True when the autoscaler does something about it, or counts on hearing it."""
        return self.action != NOTIFY


def carried(
    shipped: Sequence[ShippedRule],
    running: Sequence[RunningRule],
    external: Mapping[str, str],
    pools: Mapping[str, str],
) -> tuple[Carried, ...]:
    """Return our alerts: those that run, or else those that are shipped. *external* are Prometheus' external labels,
    *pools* names by id: what an alert about a pool carries beside."""
    found = [(r.name, r.labels) for r in running if r.kind == "alerting" and r.labels.get("component") == COMPONENT]
    found = found or [(rule.name, rule.labels) for rule in shipped if rule.is_alert]
    alerts = []
    for name, said in dict(found).items():
        plain = {**external, **said, "alertname": name}
        of_pools = [{**plain, "pool": pool, "pool_name": called} for pool, called in pools.items()]
        variants = [plain] if said.get("action") == HEARTBEAT else [plain, *of_pools]
        alerts.append(Carried(name, said.get("action", ""), tuple(variants)))
    return tuple(alerts)


def external_labels(data: Any) -> Mapping[str, str]:
    """Return Prometheus' external labels from the answer to ``/api/v1/status/config``; none where it says none."""
    text = data.get("yaml") if isinstance(data, Mapping) else None
    try:
        said = yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError:
        said = None
    part = said.get("global") if isinstance(said, dict) else None
    labels = part.get("external_labels") if isinstance(part, dict) else None
    return {str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}
