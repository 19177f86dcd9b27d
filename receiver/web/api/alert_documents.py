"""What Alertmanager delivers, what it is answered, and the alerts that were delivered."""

from typing import Annotated, Any

from receiver.reports.document import Count, Instant, Listed, Published, extra, says, word

ALERT_STATUS = word(("firing", "resolved"))


class PayloadAlert(Published):
    """One alert of a delivery."""

    sometimes = ("annotations", "endsAt")
    status: Annotated[str, ALERT_STATUS]
    labels: dict[str, str]
    starts_at: Annotated[Instant, extra(), says("", alias="startsAt")]
    fingerprint: Annotated[str, extra(minLength=1)]
    annotations: Annotated[Any, says("texts by name; else there are none")]
    ends_at: Annotated[Any, says("not read", alias="endsAt")]


class AlertmanagerPayload(Published):
    """Alertmanager's webhook payload, version 4, unchanged. More fields are taken and not read."""

    sometimes = ("receiver", "groupKey", "truncatedAlerts")  # an alert must not be lost because of what is beside it
    version: Annotated[str, extra(const="4")]
    status: Annotated[str, ALERT_STATUS]
    alerts: Annotated[tuple[PayloadAlert, ...], extra(minItems=1)]
    receiver: Annotated[Any, says("text, else empty")]
    group_key: Annotated[Any, says("text, else empty", alias="groupKey")]
    truncated_alerts: Annotated[
        Any, says("how many alerts were left out, a whole number above 0, else none", alias="truncatedAlerts")
    ]


class ReceivedAlert(Published):
    """An alert as Alertmanager last delivered it."""

    alertname: str = ""
    labels: dict[str, str]
    firing: Annotated[bool, says("false where it was reported as resolved")] = False
    starts_at: Instant | None = None
    fingerprint: Annotated[str, says("Alertmanager's hash of the labels")] = ""
    delivery: Annotated[Count | None, says("the number of the delivery that brought it")] = None


class DeliveryTaken(Published):
    """A delivery that is on disk."""

    delivery: Annotated[Count, says("its number")]
    alerts: Annotated[Count, says("of ours in it")]
    warnings: Listed[str]
