"""What a guardrail said of a change that it alone held, or of which it alone left a part."""

from receiver.core.model.actions import Change, Decision, Reason
from tests.core.builders import a_due_node, rules

IDLE = a_due_node()


def held(decision: Decision, rule: str) -> Reason:
    """What *rule* said, which alone holds all of the change."""
    assert (decision.change, rules(decision, "holds", "limits")) == (Change.HOLD, [rule])
    return _said(decision, rule)


def cut(decision: Decision, rule: str) -> Reason:
    """What *rule* said, which alone leaves a part of the change."""
    assert decision.change is not Change.HOLD
    assert rules(decision, "holds", "limits") == [rule]
    return _said(decision, rule)


def _said(decision: Decision, rule: str) -> Reason:
    [said] = [r for r in decision.reasons if r.rule == rule]
    return said
