"""The rules that may hold a change back, in the order in which they are asked, and how they are applied."""

from collections.abc import Iterable, Sequence

from receiver.core.model.actions import Reason, Verdict
from receiver.core.scaling.guardrails.limits import (
    ABOVE_THE_FLOOR,
    NODES_MAY_BE_REMOVED,
    PRICE_IS_KNOWN,
    SOURCES_ANSWER,
    SPEND_IS_KNOWN,
    WITHIN_BUDGET,
    WITHIN_LIMITS,
    WITHIN_MAXIMUM,
)
from receiver.core.scaling.guardrails.rule import AddedGuardrail, AnyGuardrail, Case
from receiver.core.scaling.guardrails.waiting import (
    COOLED_DOWN,
    GROWTH_IS_NOT_PAUSED,
    NOT_BACKING_OFF,
    NOT_FROZEN,
    NOT_PAUSED,
    NOT_SILENCED,
    NOT_UNDONE_BY_OTHERS,
    ONE_CHANGE_AT_A_TIME,
    PROVISIONING_WORKS,
    REMOVAL_IS_NOT_SNOOZED,
)

GUARDRAILS: tuple[AnyGuardrail, ...] = (
    SOURCES_ANSWER,
    NODES_MAY_BE_REMOVED,
    PRICE_IS_KNOWN,
    SPEND_IS_KNOWN,
    WITHIN_BUDGET,
    WITHIN_MAXIMUM,
    WITHIN_LIMITS,
    NOT_FROZEN,
    NOT_SILENCED,
    NOT_PAUSED,
    GROWTH_IS_NOT_PAUSED,
    REMOVAL_IS_NOT_SNOOZED,
    ABOVE_THE_FLOOR,
    NOT_BACKING_OFF,
    NOT_UNDONE_BY_OTHERS,
    PROVISIONING_WORKS,
    COOLED_DOWN,
    ONE_CHANGE_AT_A_TIME,
)
BY_NAME = {guardrail.name: guardrail for guardrail in GUARDRAILS}
LASTING = frozenset(name for name, guardrail in BY_NAME.items() if guardrail.lasting)


def with_added(added: Iterable[AddedGuardrail]) -> Sequence[AnyGuardrail]:
    """Return all guardrails with those *added*, in the order in which they are asked."""
    guardrails = list(GUARDRAILS)
    for addition in added:
        place = next(n for n, guardrail in enumerate(guardrails) if guardrail.name == addition.before)
        guardrails.insert(place, addition.guardrail)
    return guardrails


def apply(target: int, case: Case, guardrails: Iterable[AnyGuardrail] | None = None) -> list[Reason]:
    """Run *guardrails* (by default all, with those that capabilities add) over *target* and return their reasons in
    order; the last one's target is what is left."""
    reasons: list[Reason] = []
    for guardrail in with_added(case.wanted.added) if guardrails is None else guardrails:
        rule, verdict, because, until = guardrail.check.__name__, Verdict.ALLOWS, None, None
        held = guardrail.check(target, case) if target != case.present else None
        if held is not None:
            low, high = sorted((target, case.present))
            target = min(max(held.left, low), high)  # the law: between the present size and the wanted one
            verdict = Verdict.HOLDS if target == case.present else Verdict.LIMITS
            because, until = held.because, held.until
        reasons.append(Reason(rule=rule, verdict=verdict, target=target, because=because, until=until))
    return reasons
