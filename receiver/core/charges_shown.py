"""The comparison of ledger and charges for those who read it: the picture's part, and the notices."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.core import plain
from receiver.core.cents import amount
from receiver.core.charges import EXPLAINED, WORTH_TELLING, Comparison, Difference
from receiver.core.model import Facts
from receiver.core.policy import Policy
from receiver.core.tell import Cause, Notice, Severity
from receiver.core.words import some

MOST_SHOWN = 200  # differences in the picture; their number is told whole
SILENT_FOR = timedelta(hours=1)  # nothing waits for the charges but a lost store, which says so itself
NAMED = 3  # differences that a message names


def shown(compared: Comparison | None) -> dict[str, Any] | None:
    """Return *compared* as JSON-able values, None before Civo was first asked."""
    if compared is None:
        return None
    charged = compared.charged
    return {
        "month": charged.month,
        "asked_at": _when(charged.asked_at),
        "answered_at": _when(charged.answered_at),
        "failure": charged.failure,
        "records": len(charged.records),
        "unreadable": list(charged.unreadable),
        "account_usd": None if compared.account_usd is None else amount(compared.account_usd),
        "unpriced": [{"code": code, "hours": float(hours)} for code, hours in compared.unpriced],
        "sizes": [
            {
                "size": s.size,
                "ledger_hours": float(s.ledger_hours),
                "charged_hours": float(s.charged_hours),
                "difference_hours": float(s.difference_hours),
                "lives": s.lives,
                "records": s.records,
                "equal": s.equal,
            }
            for s in compared.sizes
        ],
        "differences": [_line(d) for d in compared.differences[:MOST_SHOWN]],
        "differences_total": len(compared.differences),
    }


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
            body=plain.worded(
                f"silent since {plain.moment(charged.failing_since, facts.at)}",
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
            body=plain.worded(after="our count of money is checked against Civo's again"),
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
        title=f"Civo's charges and our ledger differ by {plain.usd(off)} for {size} in {month}",
        body=plain.worded(
            *named,
            *more,
            after="nothing is changed by it; it is told once a month",
            do="All of them: GET /api/v1/charges",
        ),
        severity=Severity.WARNING,
    )


def _line(difference: Difference) -> dict[str, Any]:
    return {
        "size": difference.size,
        "name": difference.name,
        "ledger_hours": float(difference.ledger_hours),
        "charged_hours": float(difference.charged_hours),
        "cause": difference.cause.value,
        "why": EXPLAINED[difference.cause],
        "usd": None if difference.usd is None else amount(difference.usd),
    }


def _when(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
