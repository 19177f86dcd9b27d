"""What ProvisioningRequests add to the product."""

from collections.abc import Iterator, Sequence
from functools import partial

from receiver.adapters.kubernetes.announced import MakeReader
from receiver.capabilities.capability import Capability, RightsCase, RightsRow
from receiver.capabilities.provisioning_requests.chore import report_bookings
from receiver.capabilities.provisioning_requests.progress import KIND
from receiver.capabilities.provisioning_requests.reader import RESOURCE, ProvisioningRequests, provisioning_classes
from receiver.config.model import Configuration
from receiver.step.parts import Additions, Chore

BOOKS = "ProvisioningRequests book nodes"


def _readers(configuration: Configuration) -> Sequence[MakeReader]:
    classes = provisioning_classes(upstream=configuration.kubernetes.best_effort_atomic)
    return (partial(ProvisioningRequests, classes=classes),)


def _rights(case: RightsCase) -> Iterator[RightsRow]:
    serves = RESOURCE.group in case.groups
    yield serves, "list", RESOURCE.group, RESOURCE.plural, BOOKS, "weaker"
    yield serves, "list", "", "podtemplates", BOOKS, "weaker"
    yield serves, "patch", RESOURCE.group, "provisioningrequests/status", BOOKS, "acts"


CAPABILITY = Capability(
    name=KIND,
    step=Additions(
        chores=(Chore(name="bookings", make=report_bookings),),
    ),
    readers=_readers,
    rights=_rights,
)
