"""What must hold of what people are asked about."""

from collections.abc import Iterator
from datetime import timedelta

from receiver.config.mistakes import Contradiction, Path
from receiver.config.model import Configuration, PoolSpec
from receiver.config.money import BillingSpec
from receiver.core.model.text import lasting

SHORTEST_WAIT = timedelta(minutes=1)  # less than what people need to read a message and to answer it


def approvals(pool: PoolSpec, billing: BillingSpec, here: Path) -> Iterator[Contradiction]:
    """Yield what makes `approval` of *pool* meaningless."""
    found = pool.approval
    if found is None:
        return
    path = (*here, "approval")
    if not found.removals and found.growth_above_usd_per_hour is None:
        yield Contradiction(
            path=path,
            problem="asks nobody about anything",
            remedy="give it removals: true or growth_above_usd_per_hour, or remove it",
            over=((*path, "removals"), (*path, "growth_above_usd_per_hour")),
        )
    if found.wait < SHORTEST_WAIT:
        yield Contradiction(
            path=(*path, "wait"),
            problem=f"{lasting(found.wait)} is too short for anybody to answer",
            remedy=f"write at least {lasting(SHORTEST_WAIT)}",
        )
    hours = billing.granularity > timedelta(seconds=1)
    longest = billing.granularity - billing.removal_margin
    if found.removals and hours and found.wait >= longest > timedelta(0):
        yield Contradiction(
            path=(*path, "wait"),
            problem=f"{lasting(found.wait)} leaves no time to ask in a paid unit of {lasting(billing.granularity)}: "
            f"idle nodes go {lasting(billing.removal_margin)} before its end",
            remedy=f"write less than {lasting(longest)}",
            over=(("billing", "granularity"), ("billing", "removal_margin")),
        )


def approval_warnings(configuration: Configuration) -> Iterator[str]:
    """Yield what makes answering harder than it needs to be."""
    for index, pool in enumerate(configuration.pools):
        if pool.approval is not None and configuration.public_url is None:
            yield f"pools[{index}].approval: public_url is not set, so messages that ask have no link to answer with"
