"""What the count of promises adds to the product."""

from receiver.capabilities.capability import Capability
from receiver.capabilities.promises.metrics import promise_metrics
from receiver.capabilities.promises.publisher import judge_promises
from receiver.step.parts import Additions, Publisher

CAPABILITY = Capability(
    name="promises",
    step=Additions(
        publishers=(Publisher(name="promises", make=judge_promises),),
    ),
    metrics=(promise_metrics,),
)
