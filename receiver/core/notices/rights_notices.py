"""Notices of rights in the cluster: growth that is held because nodes could not be removed again."""

from collections.abc import Iterator
from datetime import timedelta

from receiver.core.model.model import Facts, Source
from receiver.core.model.rights import BIND, Rights
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity

NEWS_FOR = timedelta(minutes=5)  # after that long a grant is no news any more
TOPIC = "rights"
LOOK = "gpu-autoscaler doctor --only kubernetes"


def of_rights(facts: Facts) -> Iterator[Notice]:
    """Notices of rights that are missing, of those that nobody can tell of, and that all are there again.

    That nobody can tell because Kubernetes is silent is no news: its silence is told.
    """
    rights, now = facts.rights, facts.at
    if rights is None:
        return
    if rights.lacking:
        yield _told(
            rights,
            title="GPU pools do not grow: no node could be removed again",
            body=wording.worded(
                f"since {wording.moment(rights.since, now)}",
                why=str(rights),
                cost="nodes that run now go on costing money until they can be removed",
                after="nothing is bought; running nodes stay. A grant is seen within a minute, without a restart",
                do=f"To mend it: {BIND}. To see all that is missing: {LOOK}",
            ),
            severity=Severity.FAILURE,
        )
    elif rights.lacking is None and not rights.holds_growth(now) and facts.up(Source.KUBERNETES):
        yield _told(
            rights,
            title="Nobody can tell whether GPU nodes may be removed",
            body=wording.worded(
                f"since {wording.moment(rights.since, now)}",
                why=rights.detail or "no answer",
                after="GPU pools grow all the same: a removal that is refused is told",
                do=f"To see each right: {LOOK}",
            ),
            severity=Severity.WARNING,
        )
    elif rights.lacking == () and now - rights.since < NEWS_FOR:
        yield Notice(
            cause=Cause.RIGHTS_BACK,
            topic=TOPIC,
            key="clear",
            title="GPU nodes may be removed: pools grow again",
            body=wording.worded(f"since {wording.moment(rights.since, now)}", after="what was held up goes on"),
            all_clear=True,
        )


def _told(rights: Rights, *, title: str, body: str, severity: Severity) -> Notice:
    said = ", ".join(rights.lacking) if rights.lacking is not None else "not known"
    key = f"{said} since {rights.since.isoformat()}"
    return Notice(cause=Cause.RIGHTS_MISSING, topic=TOPIC, key=key, title=title, body=body, severity=severity)
