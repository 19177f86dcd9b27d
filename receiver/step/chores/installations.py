"""Tell other installations in the cluster of this one by its Lease, and people of the others."""

import structlog

from receiver.core.model.installations import OtherInstallations
from receiver.core.model.model import Source
from receiver.core.notices import installation_concerns
from receiver.ports import TryLater, WontWork
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")


def make_known(work: StepContext, others: OtherInstallations) -> None:
    """Renew the Lease, and note what needs a person about the *others*. A failed write is tried again by the next
    step."""
    cluster = work.hands.cluster
    if cluster is None or not work.facts.up(Source.KUBERNETES):
        return
    work.concerns.extend(installation_concerns.of_others(others, work.policy, work.now))
    unread = others.unread
    try:
        work.hands.ready()
        cluster.make_known(work.policy.pools)
    except WontWork as error:
        log.warning("Lease of this installation not written", error=str(error))
        unread = unread or str(error)
    except TryLater as error:
        log.warning("Lease of this installation not written", error=str(error))
    if unread:
        work.concerns.append(installation_concerns.refused(unread))
