"""Ask the cluster now and then whether we may remove nodes: where not, none is bought either."""

import structlog

from receiver.core.model.model import Facts, Source
from receiver.core.model.rights import Rights, never_asked
from receiver.ports import Cluster, TryLater, WontWork

log = structlog.get_logger("receiver")


def rights_now(cluster: Cluster | None, known: Rights | None, facts: Facts, mode: str) -> Rights | None:
    """Return what is known of the rights that a removal needs; None without a cluster, and in *mode* observe: what is
    not done needs no right.

    It is asked when what is *known* is too old, and not while Kubernetes is silent: then the last answer counts. It is
    in the store, so that a restart or another leader knows as much.
    """
    now = facts.at
    if cluster is None or mode == "observe":
        return None
    if known is not None and not known.due(now):
        return known
    found = known or never_asked(now)
    if not facts.up(Source.KUBERNETES):
        return found.unasked(facts.sources[Source.KUBERNETES].detail, now)
    try:
        answered = found.answered(tuple(cluster.lacking()), now)
    except (TryLater, WontWork) as error:
        log.warning("rights not known", error=str(error))
        return found.unanswered(str(error), now)
    if answered.lacking != found.lacking and answered.lacking:
        log.warning("nodes may not be removed: pools do not grow", lacking=list(answered.lacking))
    return answered
