"""What our AdmissionCheck of Kueue adds to the product."""

from collections.abc import Iterator

from receiver.adapters.kubernetes.multikueue import CHECKS
from receiver.capabilities.capability import Capability, RightsCase, RightsRow
from receiver.capabilities.kueue_check.chore import write_answers
from receiver.capabilities.kueue_check.judging import KIND, answer_checks
from receiver.capabilities.kueue_check.reader import AdmissionChecks
from receiver.config.model import QueueDemand
from receiver.core.scaling.wanted import Rank, SizeSource
from receiver.step.parts import Additions, Chore

CHECKED = "an AdmissionCheck of Kueue may name the autoscaler"


def _rights(case: RightsCase) -> Iterator[RightsRow]:
    kueue, queued = CHECKS.group in case.groups, case.configuration.kueue.demand is QueueDemand.QUEUED
    yield kueue and not queued, "list", CHECKS.group, "workloads", CHECKED, "weaker"
    yield kueue, "list", CHECKS.group, "admissionchecks resourceflavors", CHECKED, "weaker"
    yield kueue, "patch", CHECKS.group, "admissionchecks/status workloads/status", CHECKED, "acts"


CAPABILITY = Capability(
    name=KIND,
    step=Additions(
        sources=(SizeSource(kind=KIND, rank=Rank.WORK, serve=answer_checks),),
        chores=(Chore(name="checks", make=write_answers),),
    ),
    readers=lambda _: (AdmissionChecks,),
    rights=_rights,
)
