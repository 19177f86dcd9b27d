"""What guardrails say of the values that they found: the parts that depend on them."""

from typing import Any

from receiver.core.model.model import Backoff
from receiver.core.model.policy import Limits
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.guardrails.limits import WITHIN_LIMITS
from receiver.core.scaling.guardrails.rule import AnyGuardrail, Case
from receiver.core.scaling.guardrails.waiting import PROVISIONING_WORKS, StuckNodes
from receiver.core.scaling.waits import Direction, Wait, WaitKind
from tests.core.builders import MINUTE, NOW, a_policy, a_state, facts

SICK = Backoff(failures=2, until=NOW + MINUTE, reason="n1 fell sick")
LATER = Backoff(failures=2, until=NOW + 2 * MINUTE, reason="n2 never became usable")


def a_case(**state: Any) -> Case:
    """The case of one pool in that state."""
    policy, found = a_policy(), facts(a_state(**state))
    return case_of(found.pools[0], assign(found, policy).pools["l40s-id"], found, policy)


def helps(guardrail: AnyGuardrail, because: object, case: Case) -> list[str]:
    """What would change the answer that rests on *because*."""
    assert guardrail.say is not None
    return [text for text, _ in guardrail.say(because, case)[1]]


def test_of_two_limits_each_remedy_says_for_which_it_is() -> None:
    both = helps(WITHIN_LIMITS, Limits(max_gpus=8, max_growth_per_hour=2), a_case())
    assert [text.partition(":")[0] for text in both] == ["if max_growth_per_hour is used up", "if max_gpus is used up"]
    assert helps(WITHIN_LIMITS, Limits(max_gpus=8), a_case())[0].startswith("raise limits.max_gpus")


def a_wait() -> Wait:
    """The wait after nodes that failed."""
    return Wait(
        direction=Direction.GROW, kind=WaitKind.PROVISIONING, until=NOW + MINUTE, reason="n1 failed", failures=1
    )


def test_after_a_node_that_fell_sick_another_must_stay_well() -> None:
    waits = a_wait()
    [said] = helps(PROVISIONING_WORKS, waits, a_case(sickened=SICK))
    assert "for one that stays well" in said
    for state in ({}, {"provisioning": LATER}, {"provisioning": LATER, "sickened": SICK}):
        [said] = helps(PROVISIONING_WORKS, waits, a_case(**state))
        assert "for any node of the pool that becomes usable" in said


def test_nodes_that_are_stuck_are_named_before_the_wait_that_follows() -> None:
    stuck = StuckNodes(nodes=("n1",), within=20 * MINUTE)
    assert PROVISIONING_WORKS.say is not None
    assert PROVISIONING_WORKS.say(stuck, a_case())[0] == "not usable after 20m: n1"
    waiting = a_case(provisioning=LATER)
    sentence, changes = PROVISIONING_WORKS.say(stuck, waiting)
    assert sentence == "not usable after 20m: n1"
    assert changes[0][0] == "wait until this is usable or gone: n1"
