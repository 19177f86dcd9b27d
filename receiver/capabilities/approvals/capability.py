"""What this folder adds to the product."""

from receiver.capabilities.approvals.api import REQUESTS, add_routes
from receiver.capabilities.approvals.page import TEMPLATES, blueprint, ways
from receiver.capabilities.capability import Capability
from receiver.web import WebAdditions

CAPABILITY = Capability(
    name="approvals",
    web=WebAdditions(
        add_routes=add_routes,
        requests=REQUESTS,
        templates=TEMPLATES,
        guides={"answers.ask": "operations.md#when-you-are-asked"},
        sealed={"answers": blueprint},
        ways=ways,
    ),
)
