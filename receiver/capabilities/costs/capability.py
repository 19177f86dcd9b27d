"""What this folder adds to the product."""

from collections.abc import Sequence

from receiver.capabilities.capability import Capability
from receiver.capabilities.costs.api import REQUESTS, add_routes
from receiver.capabilities.costs.metrics import cost_metrics
from receiver.capabilities.costs.monthly import MonthEnd
from receiver.capabilities.costs.page import TEMPLATES, add_page
from receiver.capabilities.costs.weekly import ObservedDay, WeekEnd
from receiver.config.model import Mode
from receiver.runtime.after_step import AfterStep, AfterStepParts
from receiver.web.parts import PageLink, WebAdditions


def reports_due(parts: AfterStepParts) -> Sequence[AfterStep]:
    """Return what counts, closes and sends the reports of months, weeks and, in observe mode, days."""
    store, policy, configuration = parts.store, parts.settings.policy, parts.settings.configuration
    weekly = [WeekEnd(store, policy, watched=parts.watched)] if configuration.notify.weekly_digest else []
    daily = [ObservedDay(store, policy)] if configuration.mode is Mode.OBSERVE else []
    return [MonthEnd(store, parts.telemetry, policy, watched=parts.watched), *weekly, *daily]


CAPABILITY = Capability(
    name="costs",
    web=WebAdditions(
        add_routes=add_routes,
        requests=REQUESTS,
        add_pages=add_page,
        templates=TEMPLATES,
        links=(PageLink(on="navigation", endpoint="pages.costs", words="Costs"),),
        guides={"pages.costs": "costs.md#what-the-figures-mean"},
    ),
    metrics=(cost_metrics,),
    after_step=(reports_due,),
)
