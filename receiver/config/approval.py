"""Which changes of a pool people are asked about first, as written."""

from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator

from receiver.config.mistakes import Flag, LongerThanZero, Money, one_of
from receiver.config.section import Section
from receiver.core.model.policy import Unanswered


class ApprovalSpec(Section):
    """Which changes of a pool people are asked about first."""

    removals: Flag = False
    """ask people before idle nodes go, and before busy ones are emptied"""
    growth_above_usd_per_hour: Money | None = None
    """ask people before growth whose new nodes cost more than this an hour"""
    wait: LongerThanZero = timedelta(minutes=15)
    """how long an answer is waited for, at least `1m`; removals are asked about so long before their moment"""
    unanswered: Annotated[Unanswered, BeforeValidator(one_of(Unanswered))] = Unanswered.PROCEED
    """what becomes of the change when nobody answers in that time"""
