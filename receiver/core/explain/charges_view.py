"""The comparison of ledger and charges as the picture shows it."""

from datetime import datetime
from typing import Any

from receiver.core.model.charges import EXPLAINED, Comparison, Difference
from receiver.core.money.cost import amount

MOST_SHOWN = 200  # differences in the picture; their number is told whole


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
