"""Notices of Civo's charges: what differs from the ledger, and charges that do not answer."""

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal

from receiver.core.model.charges import EXPLAINED, WORTH_TELLING, Difference
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.core.model.text import some
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity

SILENT_FOR = timedelta(hours=1)  # nothing waits for the charges but a lost store, which says so itself
NAMED = 3  # differences that a message names


def notices(facts: Facts, policy: Policy) -> Iterable[Notice]:
    """Notices of differences that a person should look into, once a month and size, and of silent charges."""
    compared = facts.charges
    if compared is None:
        return
    charged = compared.charged
    if charged.failing_since is not None and facts.at - charged.failing_since >= SILENT_FOR:
        yield Notice(
            cause=Cause.CHARGES_SILENT,
            topic="charges",
            key=f"silent since {charged.failing_since.isoformat()}",
            title="Civo's charges do not answer",
            body=wording.worded(
                f"silent since {wording.moment(charged.failing_since, facts.at)}",
                why=charged.failure,
                after="pools go on as before; until then our count of money is not checked, and the account's other"
                " costs are as old as the last answer",
            ),
            severity=Severity.WARNING,
        )
    elif charged.answered_at == facts.at:  # once per answer, not with every step
        yield Notice(
            cause=Cause.CHARGES_BACK,
            topic="charges",
            key="clear",
            title="Civo's charges answer again",
            body=wording.worded(after="our count of money is checked against Civo's again"),
            all_clear=True,
        )
    for size in compared.sizes:
        lines = [d for d in compared.differences if d.size == size.size and d.cause in WORTH_TELLING]
        off = sum((abs(d.usd) for d in lines if d.usd is not None), Decimal(0))
        if off > policy.billing.charges_tolerance_usd:
            yield _differ(size.size, lines, off, charged.month)


def _differ(size: str, lines: list[Difference], off: Decimal, month: str) -> Notice:
    most = sorted(lines, key=lambda d: (-abs(d.charged_hours - d.ledger_hours), d.name))[:NAMED]
    named = [
        f"{d.name}: Civo charges {d.charged_hours.normalize():f} h, we counted {d.ledger_hours.normalize():f} h;"
        f" {EXPLAINED[d.cause]}"
        for d in most
    ]
    more = [f"and {some(len(lines) - NAMED, 'node')} more"] if len(lines) > NAMED else []
    return Notice(
        cause=Cause.CHARGES_DIFFER,
        topic=f"charges:{size}",
        key=month,
        title=f"Civo's charges and our ledger differ by {wording.usd(off)} for {size} in {month}",
        body=wording.worded(
            *named,
            *more,
            after="nothing is changed by it; it is told once a month",
            do="All of them: GET /api/v1/charges",
        ),
        severity=Severity.WARNING,
    )
