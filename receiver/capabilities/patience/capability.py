"""What work that may wait adds to the product."""

from receiver.capabilities.capability import Capability
from receiver.capabilities.patience.chore import admit_deferred_work
from receiver.capabilities.patience.waiting import KIND, postpone, serve_patient
from receiver.core.scaling.wanted import Rank, SizeSource
from receiver.step.parts import Additions, Chore

CAPABILITY = Capability(
    name=KIND,
    step=Additions(
        sources=(SizeSource(rank=Rank.SPARE, serve=serve_patient, postpone=postpone),),
        chores=(Chore(name="admissions", make=admit_deferred_work),),
    ),
)
