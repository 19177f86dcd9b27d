"""What CapacityBuffers add to the product."""

from collections.abc import Iterator, Sequence

from receiver.adapters.kubernetes.announced import MakeReader
from receiver.capabilities.buffers.chore import report_buffers
from receiver.capabilities.buffers.keeping import KIND, keep_buffers
from receiver.capabilities.buffers.reader import RESOURCE, Buffers
from receiver.capabilities.capability import Capability, RightsCase, RightsRow
from receiver.config.model import Configuration
from receiver.core.scaling.wanted import Rank, SizeSource
from receiver.step.parts import Additions, Chore

KEEPS_ROOM = "CapacityBuffers keep room free"


def _readers(configuration: Configuration) -> Sequence[MakeReader]:
    return (Buffers,) if configuration.kubernetes.capacity_buffers else ()


def _rights(case: RightsCase) -> Iterator[RightsRow]:
    serves = case.configuration.kubernetes.capacity_buffers and RESOURCE.group in case.groups
    yield serves, "list", RESOURCE.group, RESOURCE.plural, KEEPS_ROOM, "weaker"
    yield serves, "list", "", "podtemplates replicationcontrollers resourcequotas", KEEPS_ROOM, "weaker"
    yield serves, "list", "apps", "deployments replicasets statefulsets", KEEPS_ROOM, "weaker"
    yield serves, "list", "batch", "jobs", KEEPS_ROOM, "weaker"
    yield serves, "patch", RESOURCE.group, "capacitybuffers/status", KEEPS_ROOM, "acts"


CAPABILITY = Capability(
    name=KIND,
    step=Additions(
        sources=(SizeSource(kind=KIND, rank=Rank.SPARE, serve=keep_buffers),),
        chores=(Chore(name="buffers", make=report_buffers),),
    ),
    readers=_readers,
    rights=_rights,
)
