"""Every area of the doctor's round, in the order in which they are shown."""

from receiver.doctor import civo, configuration, kubernetes, kueue, server, store
from receiver.doctor.area import Area
from receiver.doctor.monitoring import MONITORING

AREAS: tuple[Area, ...] = (
    configuration.AREA,
    civo.AREA,
    kubernetes.AREA,
    kueue.AREA,
    *MONITORING,
    store.AREA,
    server.AREA,
)
