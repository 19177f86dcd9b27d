"""What repair adds to the product."""

from receiver.capabilities.capability import Capability
from receiver.capabilities.repair.choosing import under_repair
from receiver.capabilities.repair.chore import cordon_for_repair
from receiver.core.scaling.wanted import SizeSource
from receiver.step.parts import Additions, Chore

CAPABILITY = Capability(
    name="repair",
    step=Additions(
        sources=(SizeSource(replaced=under_repair),),
        chores=(Chore(name="repair", make=cordon_for_repair),),
    ),
)
