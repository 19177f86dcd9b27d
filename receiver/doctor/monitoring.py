"""The areas of Prometheus, Alertmanager and of the messages to people, in the order in which they are shown."""

from receiver.doctor import alertmanager, messages, prometheus, telemetry
from receiver.doctor.area import Area

MONITORING: tuple[Area, ...] = (
    prometheus.SERVER,
    prometheus.RULES,
    telemetry.AREA,
    alertmanager.AREA,
    messages.AREA,
)
