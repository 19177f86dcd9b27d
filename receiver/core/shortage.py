"""Why Civo brought no node, by the code that its answer begins with."""

from enum import StrEnum


class Shortage(StrEnum):
    """Why Civo brought no node, as far as people can do something about it."""

    STOCK = "stock"  # no GPU of the kind is free, or the region is full: wait, or another size or region
    QUOTA = "quota"  # the account's: ask Civo for more, or free some
    OTHER = "other"


_BY_CODE = {
    "gpu_count_exceeded": Shortage.STOCK,
    "out_of_capacity": Shortage.STOCK,
    "quota_limit_reached": Shortage.QUOTA,
}


def shortage_of(reason: str) -> Shortage:
    """Return the shortage that the *reason* of a back-off from growth tells: it begins with Civo's code."""
    code = reason.split(maxsplit=1)[0] if reason.strip() else ""
    return _BY_CODE.get(code.rstrip(":"), Shortage.OTHER)
