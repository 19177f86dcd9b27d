"""Tell other installations in the cluster of this one by its Lease, and people of the others."""

from functools import partial

from receiver.core.model.installations import OtherInstallations
from receiver.core.model.model import Source
from receiver.core.notices import installation_concerns
from receiver.ports import WontWork
from receiver.step.parts import StepContext, Write, WriteKind

LEASE = WriteKind("Lease of this installation not written")


def make_known(work: StepContext, others: OtherInstallations) -> None:
    """Renew the Lease, and note what needs a person about the *others*. A failed write is tried again by the next
    step."""
    cluster = work.hands.cluster
    if cluster is None or not work.facts.up(Source.KUBERNETES):
        return
    work.concerns.extend(installation_concerns.of_others(others, work.policy, work.now))
    error = work.hands.write(LEASE, Write({}, partial(cluster.make_known, work.policy.pools))).error
    if unread := others.unread or (str(error) if isinstance(error, WontWork) else ""):
        work.concerns.append(installation_concerns.refused(unread))
