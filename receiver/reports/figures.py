"""Figures of a report's document as people read them."""

from decimal import Decimal, InvalidOperation
from typing import Any


def moment(stated: str) -> str:
    """A moment of the document as people read it, to the minute."""
    return f"{stated[:16].replace('T', ' ')} UTC"


def shorter(name: str, width: int) -> str:
    """*name* in *width* columns; what is too long loses its middle, where workloads of one owner are alike."""
    if len(name) <= width:
        return name
    head = (width - 1) // 2
    return f"{name[:head]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - (width - 1 - head) :]}"


def usd(amount: Any, otherwise: str = "unknown") -> str:
    """USD with cents."""
    found = decimal(amount)
    return otherwise if found is None else f"${found:,.2f}"


def fine_usd(amount: Any) -> str:
    """USD with cents, or with four digits where cents would hide it."""
    found = decimal(amount)
    return "unknown" if found is None else f"${found:,.2f}" if found >= 1 else f"${found:.4f}"


def hours(number: float) -> str:
    """GPU-hours to a tenth."""
    return f"{number:,.1f}"


def count(number: float) -> str:
    """A count as people write it; below a thousand with its fraction."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:g}"


def percent(ratio: float | None) -> str:
    """A ratio as whole percent."""
    return "unknown" if ratio is None else f"{ratio * 100:.0f} %"


def decimal(amount: Any) -> Decimal | None:
    """An amount of the document, None where it is none."""
    try:
        return None if amount is None else Decimal(str(amount))
    except InvalidOperation:
        return None
