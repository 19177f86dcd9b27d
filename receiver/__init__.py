"""The GPU node-pool autoscaler for Civo Kubernetes."""

from functools import cache


@cache
def installed_version() -> str:
    """Return the version of the installed distribution, or "unknown" in a bare checkout."""
    from importlib.metadata import PackageNotFoundError, version  # takes longer than the rest of a short command

    try:
        return version("civo-gpu-autoscaler")
    except PackageNotFoundError:
        return "unknown"
