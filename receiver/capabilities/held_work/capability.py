"""What this folder adds to the product."""

from receiver.capabilities.capability import Capability
from receiver.capabilities.held_work.api import REQUESTS, add_routes
from receiver.capabilities.held_work.metrics import held_work_metrics
from receiver.web.parts import WebAdditions

CAPABILITY = Capability(
    name="held_work",
    web=WebAdditions(add_routes=add_routes, requests=REQUESTS),
    metrics=(held_work_metrics,),
)
