"""How often people are told."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator

from receiver.config.fields import longer_than_zero
from receiver.config.mistakes import Wrong
from receiver.config.section import Section
from receiver.core.notices.grouping import AT_MOST_EVERY

LONGEST = timedelta(minutes=10)  # GpuAutoscalerNoticesStuck fires for what has waited a quarter of an hour


def spacing(value: Any) -> timedelta:
    """Return a duration above 0 and up to 10 minutes; raise Wrong."""
    length = longer_than_zero(value)
    if length > LONGEST:
        raise Wrong(f'"{value}" is too seldom', "write at most 10m; what waits longer counts as stuck")
    return length


Spacing = Annotated[timedelta, BeforeValidator(spacing)]


class NotifySpec(Section):
    """How often people are told."""

    at_most_every: Spacing = AT_MOST_EVERY
    """of one kind of news about one pool at most one message goes out in this time; the others wait for its end and
    come as one ([more](operations.md#how-many-messages-come))"""
