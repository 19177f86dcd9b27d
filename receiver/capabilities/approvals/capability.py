"""What this folder adds to the product."""

from receiver.capabilities.approvals.api import REQUESTS, add_routes
from receiver.capabilities.approvals.asking import NAME, published, settle_requests, what_is_due
from receiver.capabilities.approvals.concerns import concerns_of
from receiver.capabilities.approvals.guardrail import APPROVED
from receiver.capabilities.approvals.page import TEMPLATES, blueprint, ways
from receiver.capabilities.capability import Capability
from receiver.core.notices.notice import PoolConcerns
from receiver.step.parts import Additions, PoolField, StandingRequests
from receiver.web.parts import WebAdditions

CAPABILITY = Capability(
    name="approvals",
    step=Additions(
        guardrails=(APPROVED,),
        requests=(StandingRequests(name=NAME, settle=settle_requests, due=what_is_due),),
        concerns=(PoolConcerns(of=concerns_of),),
        pool_fields=(PoolField(name="questions", of=published),),
    ),
    web=WebAdditions(
        add_routes=add_routes,
        requests=REQUESTS,
        templates=TEMPLATES,
        guides={"answers.ask": "operations.md#when-you-are-asked"},
        sealed={"answers": blueprint},
        ways=ways,
    ),
)
