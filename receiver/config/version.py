"""Which version of the program this is."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def installed_version() -> str:
    """Return the version of the installed distribution, or "unknown" in a bare checkout."""
    try:
        return version("civo-gpu-autoscaler")
    except PackageNotFoundError:
        return "unknown"
