"""What needs a person about other installations of the autoscaler in the same cluster."""

from collections.abc import Iterator
from datetime import datetime

from receiver.core.model.installations import OtherInstallations
from receiver.core.model.policy import Policy
from receiver.core.model.text import listed
from receiver.core.notices.notice import Cause, Concern, Level


def of_others(others: OtherInstallations, policy: Policy, now: datetime) -> Iterator[Concern]:
    """The live installations among *others*: a problem where one has a pool of ours, else to be known. One that was not
    renewed since this process began may be this installation under a former name."""
    ids = {pool.id: pool.name for pool in policy.pools}
    for each in others.installations:
        if not each.is_live(now) or (others.since is not None and each.renewed_at <= others.since):
            continue
        common = [ids[pool.id] for pool in each.pools if pool.id in ids]
        release = f", release {each.release}" if each.release else ""
        if common:
            names, one = listed(common), len(common) == 1
            yield Concern(
                kind=Cause.INSTALLATION,
                level=Level.BAD,
                what=f"Two installations manage pool{'' if one else 's'} {names}: this one and {each.key}",
                why=f"its Lease {each.key}{release} names {'it' if one else 'them'} too",
                cost="both buy nodes for the same work, and one may delete a node on which the other counts",
                doing="both go on until one of them stops",
                todo=f"Remove {names} from one configuration, set mode: observe in one, or uninstall one"
                f" (kubectl get lease -n {each.key.partition('/')[0]} {each.key.partition('/')[2]} -o yaml)",
                topic=f"installation:{each.key}",
                key=f"same pools: {','.join(sorted(common))}",
            )
            continue
        pools = listed([pool.name for pool in each.pools]) or "no pools"
        yield Concern(
            kind=Cause.INSTALLATION,
            level=Level.NOTE,
            what=f"Another installation shares this cluster: {each.key} with {pools}",
            why=f"its Lease {each.key}{release} was renewed a moment ago",
            doing="each answers only for work that its own pools are meant for",
            topic=f"installation:{each.key}",
            key=f"other pools: {','.join(sorted(pool.id for pool in each.pools))}",
        )


def refused(reason: str) -> Concern:
    """The rights for the Leases are missing: *reason*, in the words of the API server."""
    return Concern(
        kind=Cause.INSTALLATION,
        level=Level.WARN,
        what="Other installations in this cluster cannot be seen, or cannot see this one",
        why=reason,
        doing="everything else works as usual, as if this installation were alone",
        todo="Grant the autoscaler the verb list on leases.coordination.k8s.io, and create and patch in its own"
        " namespace (RBAC)",
        topic="installations",
        key="refused",
    )
